"""What a record says about where it was measured."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

# Variables that change what is measured; the rest of the environment is nobody's
# business and is not written down.
_TELLING = (
    "CUDA_VISIBLE_DEVICES",
    "GOMP_",
    "JAX_",
    "KMP_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "MKL_",
    "NUMBA_",
    "OMP_",
    "OPENBLAS_",
    "PYTORCH_",
    "XLA_",
)


def machine_facts() -> dict[str, Any]:
    """Processor, cores, memory and load of this machine."""
    return {
        "cpu": _cpu_model(),
        "arch": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": _memory_bytes(),
        "load_1min": load_average(),
    }


def load_average() -> float | None:
    """Return the average number of runnable processes over the last minute."""
    if not hasattr(os, "getloadavg"):
        return None
    return round(os.getloadavg()[0], 2)


def git_state(folder: Path) -> dict[str, Any]:
    """Return the commit of the repository around `folder`, and whether it is dirty."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain"))}


def software_versions() -> dict[str, str]:
    """Return Python's version and that of every distribution imported so far."""
    versions = {"python": platform.python_version()}
    owners = metadata.packages_distributions()
    tops = {name.partition(".")[0] for name in sys.modules}
    for top in sorted(tops - set(sys.stdlib_module_names)):
        # An editable install does not list its modules; its name is often the same.
        for distribution in owners.get(top, [top]):
            try:
                found = metadata.metadata(distribution)
            except (metadata.PackageNotFoundError, ValueError):
                continue
            versions[found["Name"]] = found["Version"]
    return versions


def telling_environment() -> dict[str, str]:
    """Return the environment variables that change what is measured."""
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(_TELLING)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int | None:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
