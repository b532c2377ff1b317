"""`amica-core input.param`: the Fortran program's place taken, files and log included.

The numbers are those of the Fortran program too (`compatibility="fortran"`). What it
cannot do works here: paths with blanks, short epochs, `fix_init`, sharing, no sphering.
First values are drawn from a fixed seed, so that a run can be repeated.
"""

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .._backend.protocol import Backend, default_backend, load_backend
from .._em import LoopState, Plan, run
from .._group import Alone
from .._history import History
from .._io.amicaout import AmicaOutput, write_amicaout
from .._io.conversion import to_amicaout
from .._io.log import (
    LogRecord,
    closing_lines,
    iteration_line,
    opening_lines,
    rejection_lines,
    stop_line,
)
from .._io.parameters import ParameterFile, read_parameter_file
from .._result import Result
from .._settings import Stopping
from .._sphere import Recording, Sphering
from .._statistics import Options, Parameters, Statistics
from .._update import mixing_direction
from .parameters import first_kept, first_model, load_samples, make_sphere, settings

_MPI_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def run_parameter_file(path: str | os.PathLike[str], backend: str | None = None) -> int:
    """Do what the Fortran program does with a parameter file; return the exit status.

    Parameters
    ----------
    path
        The parameter file; see `read_parameter_file`.
    backend
        Engine of the E-step; None for the compiled one if it is installed.

    Returns
    -------
    int
        0, or 130 if Ctrl-C ended the run; what was found is written all the same.

    Raises
    ------
    ValueError
        If the parameters or the samples cannot be used.
    FileNotFoundError
        If a file is missing.
    BlockingIOError
        If another process is writing to the same directory. Under MPI, which scripts
        start the program with, the first process does all and the others return 0.
    """
    started = time.monotonic()
    parameters = read_parameter_file(path)
    for note in parameters.notes:
        print(f"amica-core: {note}", file=sys.stderr)
    if parameters.ignored:
        names = ", ".join(parameters.ignored)
        print(f"amica-core: without effect: {names}", file=sys.stderr)
    plan, schedule = settings(parameters)
    data = load_samples(parameters)
    sphere = make_sphere(parameters, data)
    model = first_model(parameters, len(sphere.matrix))
    name = default_backend() if backend is None else backend
    state = LoopState(
        model=model,
        schedule=schedule,
        kept=first_kept(parameters, len(data)),
        best=model,
    )
    outdir = Path(parameters["outdir"] or time.strftime("output%m%d_%H%M%S"))
    outdir.mkdir(parents=True, exist_ok=True)
    watched = _Watched(load_backend(name), state)
    with open(outdir / "out.txt", "a", buffering=1, newline="\n") as file:
        if not _lock(file):
            if any(name in os.environ for name in _MPI_VARIABLES):
                print(f"amica-core: another process does {path}", file=sys.stderr)
                return 0
            raise BlockingIOError(f"another process is writing to {outdir}")
        file.truncate(0)
        # An older result is no longer what the log beside it tells of.
        (outdir / "W").unlink(missing_ok=True)
        log = _Log(file)
        # The program looks at the eigenvalues twice when it makes the sphere.
        repeats = 2 if parameters["do_sphere"] and not parameters["load_sphere"] else 1
        log.write(opening_lines(sphere.variances, len(sphere.matrix)) * repeats)
        follow = _Follower(parameters, plan, sphere, outdir, watched, log)
        run(state, Recording(data, sphere), watched, plan, Alone(), follow)
        if state.records:
            output = follow.output(state)
            if parameters["write_LLt"]:
                output = replace(output, LLt=watched.sample_log_likelihoods())
            write_amicaout(output, outdir, overwrite=True)
        log.write(closing_lines(time.monotonic() - started, parameters["outdir"]))
    return 130 if state.stop_reason == "interrupted" else 0


def _lock(file: TextIO) -> bool:
    """Tell whether this process alone writes the file, until it is closed."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows, where an open log cannot be replaced
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


class _Log:
    """Lines for `out.txt` and for the terminal."""

    def __init__(self, file: TextIO):
        self.file = file

    def write(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(line, file=self.file)
            print(line, flush=True)


class _Watched:
    """A backend that remembers the last E-step, of which the program writes much."""

    def __init__(self, backend: Backend, state: LoopState):
        self.backend = backend
        self.state = state
        self.blocks: Iterable[Any] = ()
        self.parameters: Parameters | None = None
        self.options = Options()
        self.sums: Statistics | None = None
        self.model = state.model
        self.kept = state.kept
        self.rate = state.schedule.rate

    def place(self, samples: Any) -> Iterable[Any]:
        self.blocks = self.backend.place(samples)
        return self.blocks

    def statistics(
        self,
        x: Any,
        parameters: Parameters,
        options: Options,
        kept: NDArray[np.bool_] | None = None,
    ) -> Statistics:
        if parameters is not self.parameters:  # a new iteration
            self.parameters, self.options, self.sums = parameters, options, None
            self.model, self.kept = self.state.model, self.state.kept
            self.rate = self.state.schedule.rate
        sums = self.backend.statistics(x, parameters, options, kept)
        self.sums = sums if self.sums is None else self.sums + sums
        return sums

    def squared_steps(self) -> NDArray[np.float64]:
        """Squared norm of the direction of every column, shape `(K,)`."""
        if self.sums is None:
            return np.full(self.model.A.shape[1], np.nan)
        with np.errstate(all="ignore"):
            direction = mixing_direction(self.model, self.sums, self.options.newton)
        return np.sum(direction.dA**2, axis=0)

    def log_dets(self) -> NDArray[np.float64]:
        if self.parameters is None:
            return np.array([np.nan])
        return np.linalg.slogdet(self.parameters.unmixing)[1]

    def sample_log_likelihoods(self) -> NDArray[np.float64]:
        """Log-likelihoods of the last E-step, shape `(M + 1, samples)`."""
        assert self.parameters is not None
        options = Options(joint=True, fortran=self.options.fortran)
        parts = []
        for block in self.blocks:
            sums = self.backend.statistics(block, self.parameters, options)
            assert sums.joint is not None
            parts.append(sums.joint)
        joint = np.concatenate(parts)
        total = logsumexp(joint, axis=1, keepdims=True)
        table = np.concatenate([joint, total], axis=1).T
        table[:, ~self.state.kept] = 0
        return table


class _Follower:
    """Writes, after every iteration, what the Fortran program would write."""

    def __init__(
        self,
        parameters: ParameterFile,
        plan: Plan,
        sphere: Sphering,
        outdir: Path,
        watched: _Watched,
        log: _Log,
    ):
        self.parameters = parameters
        self.plan = plan
        self.sphere = sphere
        self.outdir = outdir
        self.watched = watched
        self.log = log
        self.steps: list[NDArray[np.float64]] = []
        self.last = time.monotonic()

    def __call__(self, state: LoopState) -> None:
        iteration, seconds = state.iteration, time.monotonic() - self.last
        record, dets = state.records[-1], self.watched.log_dets()
        self.steps.append(self.watched.squared_steps())
        line = LogRecord(
            iteration,
            self.watched.rate,
            record.log_likelihood,
            record.gradient_norm,
            dets.max(),
            dets.min(),
            seconds,
            (self.plan.max_iter - iteration) * seconds / 3600,
        )
        self.log.write([iteration_line(line)])
        reason = state.stop_reason
        if reason is not None:
            bound = "min_dll" if reason == "min_change" else "min_grad_norm"
            ending = stop_line(reason, self.parameters[bound], Stopping().patience)
            self.log.write([ending] if ending else [])
        if state.kept is not self.watched.kept:
            self.log.write(self._rejection(state))
        every = self.parameters["writestep"]
        if reason is None and every > 0 and iteration % every == 0:
            write_amicaout(self.output(state), self.outdir, overwrite=True)
        every = self.parameters["histstep"]
        if self.parameters["do_history"] and every > 0 and iteration % every == 0:
            snapshot = replace(self.output(state), LL=None, nd=None)
            folder = self.outdir / "history" / str(iteration)
            write_amicaout(snapshot, folder, overwrite=True)
        self.last = time.monotonic()  # writing is not the iteration's time

    def output(self, state: LoopState) -> AmicaOutput:
        result = Result(
            model=state.model,
            sphering=self.sphere,
            history=History.of(state.records),
            kept=state.kept,
            stop_reason=state.stop_reason or "max_iter",
            fortran=True,
        )
        output = to_amicaout(result, max_iter=self.plan.max_iter)
        if self.parameters["write_nd"]:
            nd = np.zeros((self.plan.max_iter, state.model.A.shape[1]))
            nd[: len(self.steps)] = self.steps
            output = replace(output, nd=nd)
        return output

    def _rejection(self, state: LoopState) -> list[str]:
        rejection, sums = self.plan.rejection, self.watched.sums
        assert rejection is not None and sums is not None and sums.joint is not None
        values = logsumexp(sums.joint[self.watched.kept], axis=1)
        n_rejected = int(np.count_nonzero(~state.kept))
        done = state.rejections_done - 1
        channels = len(self.sphere.mean)
        return rejection_lines(values, channels, rejection, done, n_rejected)
