"""From raw seconds to medians, quartiles and ratios."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ._case import Params
from ._records import Record


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of a sample, one value a round."""

    median: float
    lower: float
    upper: float
    rounds: int


@dataclass(frozen=True)
class Row:
    """A record and what follows from it and from the baseline's record.

    `speed` is the baseline's time over the contender's, taken round by round: 2 is
    twice as fast as the baseline, 0.5 half as fast; None without times to compare.
    """

    record: Record
    time: Spread | None
    speed: Spread | None

    @property
    def is_baseline(self) -> bool:
        """Tell whether the others are compared with this one."""
        return self.record.contender == self.record.baseline


@dataclass(frozen=True)
class GroupSummary:
    """All contenders on one set of parameters."""

    params: Params
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class CaseSummary:
    """A case with all its groups; what it claims is taken from its newest record."""

    name: str
    claim: str
    baseline: str
    quality_name: str | None
    better: str
    groups: tuple[GroupSummary, ...]

    @property
    def contenders(self) -> list[str]:
        """Return the contenders in the order in which they appear."""
        rows = (row for group in self.groups for row in group.rows)
        return list(dict.fromkeys(row.record.contender for row in rows))

    @property
    def param_names(self) -> list[str]:
        """Return the names of all parameters."""
        return list(dict.fromkeys(key for group in self.groups for key in group.params))

    @property
    def quality_names(self) -> list[str]:
        """Return the names of all qualities, the headline first."""
        rows = (row for group in self.groups for row in group.rows)
        names = dict.fromkeys(key for row in rows for key in row.record.quality)
        headline = [self.quality_name] if self.quality_name in names else []
        return list(dict.fromkeys([*headline, *names]))

    def rows(self, status: str) -> list[Row]:
        """Return the rows with this status."""
        return [
            row
            for group in self.groups
            for row in group.rows
            if row.record.status == status
        ]


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles, linearly interpolated.

    Examples
    --------
    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, lower=2.0, upper=4.0, rounds=5)
    """
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, lower, upper, len(values))


def speeds(record: Record, baseline: Record | None) -> list[float]:
    """Return the baseline's time over the contender's in each round both were in."""
    if baseline is None:
        return []
    return [
        math.inf if mine == 0 else theirs / mine
        for mine, theirs in zip(record.times_s, baseline.times_s, strict=False)
    ]


def summarise(records: Iterable[Record]) -> list[CaseSummary]:
    """Sort records into cases and groups, in the order in which they come."""
    cases: dict[str, dict[tuple[str, str], list[Record]]] = {}
    for record in records:
        groups = cases.setdefault(record.case, {})
        groups.setdefault(record.group, []).append(record)
    return [_case_summary(groups) for groups in cases.values()]


def _case_summary(groups: dict[tuple[str, str], list[Record]]) -> CaseSummary:
    newest = [record for group in groups.values() for record in group][-1]
    return CaseSummary(
        name=newest.case,
        claim=newest.claim,
        baseline=newest.baseline,
        quality_name=newest.quality_name,
        better=newest.better,
        groups=tuple(_group_summary(group) for group in groups.values()),
    )


def _group_summary(records: list[Record]) -> GroupSummary:
    baseline = baseline_of(records)
    return GroupSummary(records[0].params, tuple(_row(r, baseline) for r in records))


def baseline_of(records: Iterable[Record]) -> Record | None:
    """Return the baseline's record among those of one group, if it was measured."""
    for record in records:
        if record.contender == record.baseline and record.status == "ok":
            return record
    return None


def _row(record: Record, baseline: Record | None) -> Row:
    if record.status != "ok":
        return Row(record, None, None)
    ratios = speeds(record, baseline)
    return Row(record, spread(record.times_s), spread(ratios) if ratios else None)
