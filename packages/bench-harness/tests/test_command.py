"""The command as a user meets it: output, files and exit status."""

import os
import signal
import subprocess
import sys
import time

import pytest
from bench_harness.__main__ import main

BENCH = [sys.executable, "-m", "bench_harness"]

CASE = """
case = Case(name="demo", claim="It is.", baseline="base",
            profiles={"smoke": [{"n": 1}, {"n": 2}]})

@case.contender("base")
def _(n):
    return Workload(run=lambda: time.sleep(0.001))

@case.contender("peer", requires=("no_such_module",), install="pip install peer")
def _(n): ...
"""
FAILS = """
broken = Case(name="broken", claim="It fails.", baseline="base",
              profiles={"laptop": [{}]})

@broken.contender("base")
def _():
    raise RuntimeError("no luck")
"""
ENDLESS = CASE.replace("time.sleep(0.001)", "time.sleep(0.001 if n == 1 else 100)")


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Run the command in this process; only signals need another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    handler = signal.getsignal(signal.SIGTERM)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code or 0, *capsys.readouterr()

    yield run
    signal.signal(signal.SIGTERM, handler)


def test_list_shows_cases(bench, write_cases):
    write_cases(CASE)
    status, out, _ = bench("list")
    assert status == 0
    assert "demo" in out and "It is." in out and "smoke: n=1; n=2" in out
    assert "contenders: base (baseline), peer" in out


def test_run_report_and_compare(bench, write_cases, tmp_path):
    write_cases(CASE)
    status, out, err = bench("run", "demo")
    assert status == 0, err
    assert "peer: missing: not installed: no_such_module" in out
    assert "pip install peer" in out
    (folder,) = (tmp_path / "bench-results").iterdir()
    assert folder.name.endswith("Z-smoke")
    assert out.rstrip().endswith(f"Report: bench-results/{folder.name}/report.html")
    name = f"bench-results/{folder.name}"
    (folder / "report.html").unlink()
    assert bench("report", name)[0] == 0
    assert (folder / "report.html").is_file()
    assert bench("report", f"{name}/results.jsonl", "--output", "elsewhere")[0] == 0
    assert (tmp_path / "elsewhere" / "report.html").is_file()
    status, out, _ = bench("compare", name, name)
    assert status == 0 and "No regression." in out
    assert "demo  n=1" in out and "demo  n=2" in out and "base" in out


def test_compare_fails_on_a_regression(bench, make_record, tmp_path):
    for name, seconds in (("old", 1.0), ("new", 2.0)):
        (tmp_path / f"{name}.jsonl").write_text(
            make_record(times=[seconds] * 7).to_line() + "\n"
        )
    status, out, _ = bench("compare", "old.jsonl", "new.jsonl")
    assert status == 1 and "REGRESSION demo base: time grew 2.00" in out
    assert bench("compare", "old.jsonl", "new.jsonl", "--threshold", "3")[0] == 0


def test_a_failed_contender_makes_the_status_1(bench, write_cases):
    write_cases(CASE + FAILS)
    status, out, err = bench("run", "--profile", "laptop")
    assert status == 1
    assert "base: failed: RuntimeError: no luck" in out
    assert "Without a profile 'laptop', left out: demo." in err


USAGE = {
    "unknown case": (["run", "demmo"], "no case 'demmo', did you mean 'demo'?"),
    "unknown profile": (["run", "--profile", "x"], "no profile 'x'"),
    "profile without cases": (["run", "--profile", "gpu"], "demo has no profile 'gpu'"),
    "no folder": (["run", "--cases", "nowhere"], "no folder `nowhere`"),
    "list without folder": (["list", "--cases", "nowhere"], "no folder `nowhere`"),
    "output is a file": (["run", "--output", "file"], "`file` cannot be written to"),
    "nothing to resume": (["run", "--resume", "empty"], "nothing to resume"),
    "two folders": (["run", "--resume", "a", "--output", "b"], "leave out `--output`"),
    "no results": (["report", "empty"], "no `results.jsonl` in `empty`"),
    "no file": (["report", "nothing.jsonl"], "no file `nothing.jsonl`"),
    "corrupt results": (["report", "file"], "`file`, line 1: not JSON"),
    "compare with corrupt": (["compare", "file", "file"], "`file`, line 1: not JSON"),
    "unknown option": (["run", "--profil", "smoke"], "No such option"),
}


@pytest.mark.parametrize("kind", USAGE)
def test_a_mistake_in_the_command_makes_the_status_2(
    bench, write_cases, tmp_path, kind
):
    write_cases(CASE)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no results\n")
    arguments, message = USAGE[kind]
    status, _, err = bench(*arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_help_teaches(bench):
    status, out, _ = bench("run", "--help")
    assert status == 0
    assert "Exit status" in out and "--resume" in out and "bench-results/" in out


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished(bench, write_cases, tmp_path, number):
    write_cases(ENDLESS)
    process = subprocess.Popen(
        [*BENCH, "run", "--output", "out"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    results = tmp_path / "out" / "results.jsonl"
    deadline = time.monotonic() + 60
    while not (results.is_file() and results.read_text().count("\n") == 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.0)  # into the endless group
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "bench run --profile smoke --resume out" in out
    assert (tmp_path / "out" / "report.html").is_file()
    before = results.read_text()
    write_cases(ENDLESS.replace("100", "0.001"))
    assert bench("run", "--resume", "out")[0] == 0
    assert results.read_text().startswith(before)
