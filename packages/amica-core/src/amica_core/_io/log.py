"""The log `out.txt`: its lines as the Fortran program writes them, and their reading.

Formats are those of a gfortran build: numbers in fixed columns, `0.12345E-03` with a
leading zero, stars where a number does not fit, list-directed output in 25 columns.
"""

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._rejection import Rejection
from .._schedule import StopReason


class LogRecord(NamedTuple):
    """What one iteration line of the log says."""

    iteration: int
    """Counted from 1."""
    learning_rate: float
    """Step size of the update before, or the ceiling at the start."""
    log_likelihood: float
    """Nats per sample and component."""
    gradient_norm: float
    """Norm of the direction of the mixing columns."""
    log_det_max: float
    """Largest log-determinant of the models' unmixing matrices."""
    log_det_min: float
    """Smallest log-determinant."""
    seconds: float
    """Wall-clock time of the iteration."""
    hours_left: float
    """Time until `max_iter` at this pace."""


class Log(NamedTuple):
    """A log, complete or still growing."""

    records: tuple[LogRecord, ...]
    """The iterations in order."""
    n_rejected: tuple[tuple[int, int], ...]
    """After which iteration how many samples had been rejected in all."""
    stop_reason: StopReason | None
    """What the closing lines say; None where the log does not say it."""
    finished: bool
    """Whether the closing line is there."""


_NUMBER = r"\s*([-+.\dENaInfity*]+)\s*"
_ITERATION = re.compile(
    rf"^\s*iter{_NUMBER}lrate ={_NUMBER}LL ={_NUMBER}nd ={_NUMBER},"
    rf"\s*D = (.{{13}})(.{{13}})\s*\({_NUMBER}s,{_NUMBER}h\)"
)
_REJECTED = re.compile(r"^\s*rejected\s+(\d+)\s+data points")


def parse_iteration(line: str) -> LogRecord | None:
    """Read one line; None where it is not an iteration's.

    Examples
    --------
    >>> line = (
    ...     " iter     2 lrate =  0.1000000000 LL =  -0.8128899335 nd =  0.0166862278,"
    ...     " D =   0.37039E-04  0.37039E-04  (  0.03 s,   0.0 h)"
    ... )
    >>> parse_iteration(line).log_likelihood
    -0.8128899335
    """
    match = _ITERATION.match(line)
    if match is None:
        return None
    values = [_number(text) for text in match.groups()]
    if math.isnan(values[0]):
        return None
    return LogRecord(int(values[0]), *values[1:])


def parse_log(text: str) -> Log:
    """Read a whole log; lines that mean nothing here are passed over."""
    records: list[LogRecord] = []
    rejected: list[tuple[int, int]] = []
    reason: StopReason | None = None
    finished = False
    for line in text.splitlines():
        record = parse_iteration(line)
        if record is not None:
            records.append(record)
        elif match := _REJECTED.match(line):
            rejected.append((records[-1].iteration if records else 0, int(match[1])))
        elif "Exiting because likelihood" in line:
            reason = "min_change"
        elif "Exiting because norm" in line:
            reason = "min_gradient"
        elif line.startswith("... done"):
            finished = True
    return Log(tuple(records), tuple(rejected), reason, finished)


def iteration_line(record: LogRecord) -> str:
    """Write the line of an iteration, without a line end."""
    return (
        f" iter{_fixed(record.iteration, 6, 0)}"
        f" lrate = {_fixed(record.learning_rate, 13, 10)}"
        f" LL = {_fixed(record.log_likelihood, 14, 10)}"
        f" nd = {_fixed(record.gradient_norm, 13, 10)}"
        f", D = {_exponential(record.log_det_max)}{_exponential(record.log_det_min)}"
        f"  ({_fixed(record.seconds, 6, 2)} s, {_fixed(record.hours_left, 5, 1)} h)"
    )


def opening_lines(variances: NDArray[np.floating], n_components: int) -> list[str]:
    """Write what the Fortran program says of the covariance.

    Parameters
    ----------
    variances
        Eigenvalues of the covariance, descending, shape `(channels,)`.
    n_components
        Components kept.
    """
    shown = min(len(variances) // 2, 3)
    smallest, largest = variances[::-1][:shown], variances[:shown]
    return [
        " minimum eigenvalues = " + "".join(_listed(v) for v in smallest),
        " maximum eigenvalues = " + "".join(_listed(v) for v in largest),
        f" num eigs kept = {n_components:12d}",
    ]


def rejection_lines(
    log_likelihood: NDArray[np.float64],
    n_channels: int,
    rejection: Rejection,
    rounds_done: int,
    n_rejected: int,
) -> list[str]:
    """Write what the Fortran program says of one round of rejection.

    Parameters
    ----------
    log_likelihood
        Of the samples that were in use before, shape `(kept,)`.
    n_channels
        Channels, which the values are divided by.
    rejection
        The settings.
    rounds_done
        Rounds before this one.
    n_rejected
        Samples rejected so far, this round included.
    """
    mean, deviation = log_likelihood.mean(), log_likelihood.std()
    bound = mean - rejection.threshold * deviation

    def line(text: str, value: float) -> str:
        return f" {text} {_listed(value / n_channels)}"

    left = rejection.rounds - rounds_done - 1
    count = f" rejected {n_rejected:12d}  data points"
    if left > 1:
        ending = (
            f" so far. Will perform rejection {left:12d}  more times at intervals of "
            f"{rejection.interval:12d}  iterations."
        )
    elif left == 1:
        ending = (
            " so far. Will perform rejection one more time after "
            f"{rejection.interval:12d}  iterations."
        )
    else:
        ending = ". No further rejections will be performed."
    return [
        "Doing rejection ....",
        line("maximum likelihood value =", log_likelihood.max()),
        line("minimum likelihood value =", log_likelihood.min()),
        line("average likelihood value =", mean),
        line("standard deviation       =", deviation),
        line("rejecting data with likelihood less than", bound),
        count + ending,
    ]


def stop_line(reason: StopReason, bound: float, patience: int) -> str | None:
    """Write why the iterations ended; None where the Fortran program is silent."""
    if reason == "min_change":
        return (
            f"Exiting because likelihood increasing by less than {_exponential(bound)}"
            f" for more than {patience:6d} iterations ..."
        )
    if reason == "min_gradient":
        return (
            "Exiting because norm of weight gradient less than "
            f"{_exponential(bound)} ..."
        )
    return None


def closing_lines(seconds: float, outdir: str) -> list[str]:
    """Write the last two lines."""
    return [
        f"... done. Execution time: {_fixed(seconds / 3600, 6, 2)} h ",
        f"output directory = {outdir}",
    ]


def _number(text: str) -> float:
    """Read a Fortran real; stars and the like are NaN."""
    # Three digits of exponent leave no room for the letter: 0.12345-100.
    text = re.sub(r"(?<=[\d.])([-+]\d+)$", r"E\1", text)
    try:
        return float(text)
    except ValueError:
        return math.nan


def _fixed(value: float, width: int, digits: int) -> str:
    if not math.isfinite(value):
        return _not_finite(value, width)
    text = f"{value:.{digits}f}"
    if len(text) > width:  # the zero before the point may be left out
        text = re.sub(r"^(-?)0\.", r"\1.", text)
    return text.rjust(width) if len(text) <= width else "*" * width


def _exponential(value: float) -> str:
    """Write as `E13.5`: a mantissa below 1, five digits."""
    if not math.isfinite(value):
        return _not_finite(value, 13)
    if value == 0:
        mantissa, exponent = "0.00000", 0
    else:
        digits, power = f"{abs(value):.4e}".split("e")
        mantissa, exponent = "0." + digits.replace(".", ""), int(power) + 1
    sign = "-" if math.copysign(1, value) < 0 else ""
    tail = f"E{exponent:+03d}" if abs(exponent) < 100 else f"{exponent:+04d}"
    return f"{sign}{mantissa}{tail}".rjust(13)


def _not_finite(value: float, width: int) -> str:
    if math.isnan(value):
        return "NaN".rjust(width)
    name = "Infinity" if width >= 9 else "Inf"
    return (("-" if value < 0 else "") + name).rjust(width)


def _listed(value: float) -> str:
    """Write as list-directed output does: 17 digits in 25 columns and a blank."""
    if not math.isfinite(value):
        return _not_finite(value, 26)
    size = abs(value)
    if value == 0 or 0.1 <= size < 1e17:
        before = 1 if size < 1 else len(str(int(size)))
        digits = 16 if value == 0 else 17 if size < 1 else 17 - before
        text = f"{value:.{digits}f}" + ("" if digits else ".") + " " * 5
    else:
        mantissa, power = f"{value:.16e}".split("e")
        text = f"{mantissa}E{int(power):+04d}"
    return text.rjust(26)
