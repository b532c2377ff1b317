"""Holding two runs side by side."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ._discover import UsageError
from ._records import Key, Record
from ._summary import baseline_of, speeds, spread
from ._text import DASH, number, parameters, times

# A handful of rounds estimates its own spread badly, and one round not at all. The
# estimate is therefore shrunk towards a spread that is common on a machine in use,
# which counts as much as four more rounds.
_USUAL_SPREAD, _WEIGHT_OF_USUAL = 0.1, 4
# Standard errors by which a change must clear the threshold. Two are enough, since
# the threshold itself keeps noise around 1 away: `tests/test_compare.py` counts both
# kinds of mistake over many seeds.
_ERRORS = 2.0
# Worse by less than this share of the old value is no regression of quality, unless
# the case says otherwise.
_TOLERANCE, _LEAST_TOLERANCE = 0.05, 1e-6


@dataclass(frozen=True)
class Change:
    """By which factor a time grew between two runs, and how far noise reaches."""

    factor: float
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """One contender in both runs."""

    old: Record
    new: Record
    relative: Change | None
    absolute: Change | None
    complaints: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common, and what only one of them has."""

    compared: tuple[Compared, ...]
    lost: tuple[Record, ...]
    gained: tuple[Record, ...]
    notes: tuple[str, ...]

    @property
    def regressions(self) -> list[str]:
        """Return one line for everything that became worse."""
        lines = [
            f"{label(pair.new)}: {complaint}"
            for pair in self.compared
            for complaint in pair.complaints
        ]
        return lines + [
            f"{label(record)}: lost" + (f" ({record.reason})" if record.reason else "")
            for record in self.lost
        ]


def compare_results(
    old: Sequence[Record], new: Sequence[Record], *, threshold: float = 1.25
) -> Comparison:
    """Compare two runs contender by contender.

    A time has regressed where it grew by more than `threshold` and noise does not
    explain that: the logarithm of the ratio of medians must lie two standard errors
    beyond the threshold's. Relative times (to the baseline of the same run, round by
    round) are always compared, absolute ones where both runs were made on the same
    machine; there, a relative time that grew only because the baseline became faster
    is no regression.

    Parameters
    ----------
    old, new : sequence of Record
        From `read_results`.
    threshold : float, default: 1.25
        The factor beyond which a slowdown counts, larger than 1.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        For a threshold that is not beyond 1, or runs with nothing in common.
    """
    if not 1 < threshold < math.inf:
        raise UsageError(f"`threshold` must be a number beyond 1, got {threshold!r}.")
    olds, news = ({r.key: r for r in records} for records in (old, new))
    common = [key for key in olds if key in news]
    if not common:
        raise UsageError(
            "the two runs have no case with the same parameters and contender in "
            "common. Compare runs of the same cases and profile."
        )
    both = [key for key in common if olds[key].status == "ok" == news[key].status]
    groups = {record.group for record in new}
    return Comparison(
        compared=tuple(_compare_one(key, olds, news, threshold) for key in both),
        lost=tuple(
            news.get(key, record)
            for key, record in olds.items()
            if record.status == "ok"
            and record.group in groups
            and (key not in news or news[key].status != "ok")
        ),
        gained=tuple(
            record
            for key, record in news.items()
            if record.status == "ok" and (key not in olds or olds[key].status != "ok")
        ),
        notes=tuple(_notes(olds, news, common)),
    )


def change(old: Sequence[float], new: Sequence[float]) -> Change:
    """Return the ratio of two medians of times, two standard errors either side."""
    logs = [[math.log(max(t, 1e-12)) for t in sample] for sample in (old, new)]
    medians = [statistics.median(sample) for sample in logs]
    errors = [_standard_error(sample) for sample in logs]
    step, reach = medians[1] - medians[0], _ERRORS * math.hypot(*errors)
    return Change(math.exp(step), math.exp(step - reach), math.exp(step + reach))


def same_machine(old: Record, new: Record) -> bool:
    """Tell whether two records come from machines and devices of the same kind."""
    names = ("cpu", "arch", "system", "usable_cores", "memory_bytes")
    facts = [
        (
            [record.machine.get(name) for name in names],
            [device.get("kind") for device in record.devices],
        )
        for record in (old, new)
    ]
    return facts[0] == facts[1] and old.machine.get("cpu") is not None


def show_change(change: Change | None) -> str:
    """Return a factor and how far noise reaches around it."""
    if change is None:
        return DASH
    return f"{times(change.factor)} ({change.low:.2f} … {change.high:.2f})"


def label(record: Record) -> str:
    """Return what a record is about in one line."""
    parts = (record.case, parameters(record.params), record.contender)
    return " ".join(part for part in parts if part)


def _compare_one(
    key: Key, olds: dict[Key, Record], news: dict[Key, Record], threshold: float
) -> Compared:
    old, new = olds[key], news[key]
    relative = None
    if new.contender != new.baseline:
        slowness = [
            [1 / speed for speed in speeds(record, _baseline(record, records))]
            for record, records in ((old, olds), (new, news))
        ]
        if all(slowness) and old.baseline == new.baseline:
            relative = change(*slowness)
    absolute = change(old.times_s, new.times_s) if same_machine(old, new) else None
    complaints, remarks = [], []
    if absolute is not None and absolute.low > threshold:
        # Someone else's load stretches medians, but rarely every single round.
        if min(new.times_s) > threshold * min(old.times_s):
            complaints.append(f"time grew {show_change(absolute)}")
        else:
            remarks.append(
                f"time grew {show_change(absolute)}, but not the shortest one"
            )
    if relative is not None and relative.low > threshold:
        text = f"time relative to {new.baseline} grew {show_change(relative)}"
        if absolute is not None and absolute.factor < math.sqrt(threshold):
            remarks.append(f"{text}, because the baseline became faster")
        else:
            complaints.append(text)
    complaints += _quality_complaint(old, new)
    return Compared(old, new, relative, absolute, tuple(complaints), tuple(remarks))


def _standard_error(logs: Sequence[float]) -> float:
    """Return the standard error of the median; outliers do not count."""
    count = len(logs)
    variance = 0.0
    if count > 1:
        quartiles = spread(logs)
        variance = ((quartiles.upper - quartiles.lower) / 1.349) ** 2
    freedom = count - 1
    shrunk = (_WEIGHT_OF_USUAL * _USUAL_SPREAD**2 + freedom * variance) / (
        _WEIGHT_OF_USUAL + freedom
    )
    # The median of a normal sample varies by sqrt(pi / 2) more than its mean.
    penalty = math.sqrt(math.pi / 2) if count > 2 else 1.0
    return penalty * math.sqrt(shrunk / count)


def _quality_complaint(old: Record, new: Record) -> list[str]:
    name, was, now = new.quality_name, old.score, new.score
    if name is None or name != old.quality_name or was is None or now is None:
        return []
    if math.isnan(was):
        return []
    tolerance = new.tolerance
    if tolerance is None:
        tolerance = _TOLERANCE * abs(was) + _LEAST_TOLERANCE
    loss = now - was if new.better == "lower" else was - now
    if math.isnan(now) or loss > tolerance:
        return [f"{name} worsened from {number(was)} to {number(now)}"]
    return []


def _notes(
    olds: dict[Key, Record], news: dict[Key, Record], common: Sequence[Key]
) -> list[str]:
    notes = []
    if not any(same_machine(olds[key], news[key]) for key in common):
        notes.append("the machines differ, so only relative times are compared")
    absent = dict.fromkeys(r.case for r in olds.values())
    for case in absent.keys() - {r.case for r in news.values()}:
        notes.append(f"case {case} is not in the new run")
    groups = {r.group for r in news.values()}
    cases = {r.case for r in news.values()}
    gone = dict.fromkeys(
        (r.case, parameters(r.params))
        for r in olds.values()
        if r.group not in groups and r.case in cases
    )
    notes += [f"{case} {params} is not in the new run" for case, params in gone]
    changed = dict.fromkeys(
        olds[key].case for key in common if olds[key].version != news[key].version
    )
    notes += [f"the file of case {case} was changed in between" for case in changed]
    return notes


def _baseline(record: Record, records: dict[Key, Record]) -> Record | None:
    return baseline_of(r for r in records.values() if r.group == record.group)
