import subprocess
import sys

ENGINES = {"jax", "jaxlib", "torch", "flax", "numpy", "matplotlib"}


def imported(program):
    done = subprocess.run(
        [sys.executable, "-c", program + "; import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_harness_imports_no_engine():
    assert not imported("import bench_harness.__main__") & ENGINES
    assert not imported("import bench_harness._worker") & ENGINES


def test_a_worker_carries_no_terminal():
    assert not imported("import bench_harness._worker") & {"rich", "typer"}


def test_asking_for_devices_imports_no_engine():
    program = "from bench_harness import _memory; print(_memory.device_facts())"
    assert not imported(program) & ENGINES
