"""Benchmark files to try the harness on, and records made up."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_harness._records import Record

MACHINE = {
    "cpu": "made up",
    "arch": "x86_64",
    "system": "Linux",
    "cores": 2,
    "usable_cores": 2,
    "memory_bytes": 2**34,
}

HEAD = """
import os, sys, time
from bench_harness import Case, Unavailable, Workload

"""


@pytest.fixture
def write_cases(tmp_path: Path) -> Callable[..., Path]:
    """Write a benchmark file into a folder and return the folder."""

    def write(text: str, name: str = "cases.py") -> Path:
        folder = tmp_path / "benchmarks"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(HEAD + textwrap.dedent(text))
        return folder

    return write


@pytest.fixture
def make_record() -> Callable[..., Record]:
    """Make a record with times of one's own."""

    def make(contender: str = "base", times: list[float] | None = None, **more):
        given = {
            "case": "demo",
            "contender": contender,
            "params": {},
            "profile": "smoke",
            "status": "ok",
            "claim": "It is a demonstration.",
            "baseline": "base",
            "machine": MACHINE,
            "times_s": [0.1, 0.11, 0.12] if times is None else times,
        }
        return Record(**{**given, **more})

    return make
