"""Numbers and names as people read them."""

import math
from collections.abc import Callable

from ._case import Params, Scalar
from ._records import Record
from ._summary import CaseSummary, Row, Spread

DASH = "\N{EN DASH}"
_TIMES = "\N{MULTIPLICATION SIGN}"


def seconds(value: float | None) -> str:
    """Return a duration with a fitting unit.

    Examples
    --------
    >>> seconds(0.00123), seconds(75.0), seconds(None)
    ('1.23 ms', '75.0 s', '–')
    """
    if value is None:
        return DASH
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{_three(value / factor)} {unit}"
    return f"{_three(value / 1e-9)} ns"


def size(value: float | None) -> str:
    """Return a number of bytes with a fitting unit.

    Examples
    --------
    >>> size(3128), size(0), size(264 * 1024**2)
    ('3.05 KiB', '0 B', '264 MiB')
    """
    if value is None:
        return DASH
    for factor, unit in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if abs(value) >= factor:
            return f"{_three(value / factor)} {unit}"
    return f"{value:.0f} B"


def times(value: float | None) -> str:
    """Return a ratio.

    Examples
    --------
    >>> times(0.412), times(119.1)
    ('0.41×', '119×')
    """
    if value is None:
        return DASH
    return (f"{value:.2f}" if value < 10 else _three(value)) + _TIMES


def number(value: float | None) -> str:
    """Return a quality: whole numbers whole, others with four or six digits.

    Examples
    --------
    >>> number(16700000), number(-2.360829), number(2.1e-07), number(0.9472)
    ('16,700,000', '-2.36083', '2.1e-07', '0.9472')
    """
    if value is None:
        return DASH
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    digits = 6 if abs(value) >= 1 else 4
    return f"{value:.{digits}g}"


def interval(spread: Spread, show: Callable[[float], str]) -> str:
    """Return the two quartiles, or nothing where they look the same.

    Examples
    --------
    >>> interval(Spread(median=1.0, lower=0.9, upper=1.2, rounds=7), times)
    '0.90× … 1.20×'
    """
    if spread.rounds == 1:
        return "one round"
    low, high = show(spread.lower), show(spread.upper)
    return "" if low == high else f"{low} … {high}"


def parameters(params: Params) -> str:
    """Return parameters in one line.

    Examples
    --------
    >>> parameters({"steps": 512, "dtype": "float32"})
    'steps=512 dtype=float32'
    """
    return " ".join(f"{key}={scalar(value)}" for key, value in params.items())


def scalar(value: Scalar) -> str:
    """Return the value of a parameter."""
    return "none" if value is None else f"{value}"


def verdict(row: Row) -> str:
    """Tell how a contender's speed stands to the baseline's.

    Where one lies within the quartiles of the ratio, no difference is claimed, and
    nothing at all after a single round.
    """
    if row.is_baseline:
        return "baseline"
    if row.speed is None or row.speed.rounds == 1:
        return ""
    if row.speed.lower <= 1 <= row.speed.upper:
        return "no difference"
    return "faster" if row.speed.median > 1 else "slower"


def grown(record: Record) -> int | None:
    """Return by how much the timed runs grew the process over what it held before."""
    before = record.memory.get("rss_before_bytes")
    peak = record.memory.get("rss_peak_bytes")
    return None if before is None or peak is None else max(peak - before, 0)


def quality_title(case: CaseSummary) -> str:
    """Return the headline quality with the direction in which it is better."""
    arrow = "↓" if case.better == "lower" else "↑"
    return f"{case.quality_name} {arrow}"


def _three(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:.{min(decimals, 2)}f}"
