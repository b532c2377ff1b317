"""Run the Fortran program on a parameter file and follow what it prints."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .._check import check_number
from .._io.amicaout import AmicaOutput
from .._io.log import Log, LogRecord, parse_iteration, parse_log
from .._io.parameters import write_parameter_file
from .failures import FortranProgramError, check_status, load_output

PROGRAM_VARIABLE = "AMICA_FORTRAN"
_NAMES = (
    *("amica15", "amica15ub", "amica15ex", "amica15mac", "amica15mkl"),
    *("amica17", "amica17ub"),
)


@dataclass(frozen=True)
class FortranRun:
    """What a run of the program left."""

    output: AmicaOutput
    """The output directory."""
    log: Log
    """Iterations with their times, as printed."""
    text: str
    """Everything that was printed."""
    interrupted: bool
    """Whether it was stopped from outside; `output` is then what it last wrote."""


def find_fortran_program(program: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the Fortran program.

    Parameters
    ----------
    program
        Its path. By default the environment variable `AMICA_FORTRAN`, else the first
        of `amica15`, `amica15ub`, `amica15ex`, `amica15mac`, `amica15mkl`, `amica17`
        and `amica17ub` on the search path.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says how to get it.
    PermissionError
        If the file is not executable.
    """
    named = program if program is not None else os.environ.get(PROGRAM_VARIABLE)
    if named is None:
        for name in _NAMES:
            if found := shutil.which(name):
                return Path(found)
        raise FileNotFoundError(
            f"no Fortran program found: pass `program`, set {PROGRAM_VARIABLE}, or put "
            f"one of {', '.join(_NAMES)} on the search path. EEGLAB's AMICA plugin "
            "holds binaries (https://github.com/sccn/amica)"
        )
    path = Path(shutil.which(named) or named).absolute()
    source = "`program`" if program is not None else PROGRAM_VARIABLE
    if not path.is_file():
        raise FileNotFoundError(f"{source} must be a file, got {os.fspath(named)!r}")
    if not os.access(path, os.X_OK):
        raise PermissionError(
            f"{source} must be executable, got {str(path)!r}; try `chmod +x`"
        )
    return path


def run_fortran(
    parameters: Mapping[str, Any],
    directory: str | os.PathLike[str],
    *,
    program: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    verbose: bool = False,
    on_iteration: Callable[[LogRecord], None] | None = None,
) -> FortranRun:
    """Run the Fortran program on a parameter file of its own keys.

    Parameters
    ----------
    parameters
        The program's keys and values; written to `input.param` in `directory`.
    directory
        Where the program runs. Paths in `parameters` are best relative to it: the
        program cannot read a path with a blank.
    program
        See `find_fortran_program`.
    timeout
        Seconds after which the program is stopped.
    verbose
        Show iteration lines on the standard error stream.
    on_iteration
        Called with each iteration that the program prints.

    Returns
    -------
    FortranRun
        The output directory and the log; `log.records` hold the seconds of every
        iteration, in hundredths.

    Raises
    ------
    FortranProgramError
        If the program fails, or ends without a usable result.
    TimeoutError
        If `timeout` passes before the program wrote anything.
    """
    path = find_fortran_program(program)
    if timeout is not None:
        check_number("timeout", timeout)
    directory = Path(directory)
    write_parameter_file(parameters, directory / "input.param")
    lines: list[str] = []

    def see(line: str) -> None:
        lines.append(line)
        record = parse_iteration(line)
        if record is not None and on_iteration is not None:
            on_iteration(record)
        if record is not None and verbose:
            redraws = sys.stderr.isatty()
            print(f"\r{line}" if redraws else line, end="" if redraws else "\n",
                  file=sys.stderr, flush=True)  # fmt: skip

    status, stopped = _watch(path, directory, timeout, see)
    if verbose and sys.stderr.isatty():
        print(file=sys.stderr)
    text = "\n".join(lines)
    outdir = directory / parameters["outdir"]
    if stopped is None:
        check_status(path, status, text, parameters)
    elif not all((outdir / name).exists() for name in ("W", "A", "S", "mean", "LL")):
        message = f"the Fortran program was stopped ({stopped}) before it wrote a model"
        if stopped == "timeout":
            raise TimeoutError(f"{message}; raise `timeout`, now {timeout} s")
        raise KeyboardInterrupt(message)
    output = load_output(outdir, text, parameters)
    return FortranRun(output, parse_log(text), text, stopped is not None)


def _watch(
    path: Path, directory: Path, timeout: float | None, see: Callable[[str], None]
) -> tuple[int, Literal["timeout", "interrupt"] | None]:
    """Run the program to its end, or to ours; return its status and who ended it."""
    try:
        process = subprocess.Popen(
            [path, "input.param"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is ours; MPI starts helpers of its own
        )
    except OSError as error:
        raise FortranProgramError(
            f"{str(path)!r} could not be started ({error.strerror}): is it made for "
            "this kind of machine?"
        ) from error
    assert process.stdout is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    deadline = None if timeout is None else time.monotonic() + timeout
    stopped: Literal["timeout", "interrupt"] | None = None
    try:
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                stopped = "timeout"
                break
            try:
                line = lines.get(timeout=min(left or 1.0, 1.0))
            except queue.Empty:
                if process.poll() is None:
                    continue
                line = None  # a helper that it left behind holds the pipe open
                _end(process)
            if line is None:
                break
            see(line)
    except KeyboardInterrupt:
        stopped = "interrupt"
    except BaseException:
        _end(process)
        raise
    if stopped is not None:
        _end(process)
    status = process.wait()
    reader.join(timeout=5)
    process.stdout.close()
    return status, stopped


def _end(process: subprocess.Popen[str]) -> None:
    """End the program and what it started."""
    if not hasattr(os, "killpg"):  # Windows
        process.kill()
        return
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(timeout=3)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
