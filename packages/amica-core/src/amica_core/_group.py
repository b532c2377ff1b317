"""Processes that share the samples of one fit: how their sums are joined."""

from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._statistics import Statistics


class Group(Protocol):
    """Processes that fit together, each with samples of its own."""

    rank: int
    """Number of this process; 0 leads."""

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the elementwise sum over all processes, the same in each."""
        ...


class Alone:
    """The group of a fit in one process."""

    rank = 0

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `values`."""
        return values


def sum_statistics(sums: Statistics, group: Group) -> Statistics:
    """Add up the records of all processes; `joint` stays behind."""
    if isinstance(group, Alone):
        return replace(sums, joint=None)
    names = [
        f.name
        for f in fields(sums)
        if f.name != "joint" and getattr(sums, f.name) is not None
    ]
    values = [np.atleast_1d(getattr(sums, name)) for name in names]
    total = group.sum(np.concatenate([v.ravel() for v in values]))
    ends = np.cumsum([v.size for v in values])
    parts = np.split(total, ends[:-1])
    summed: dict[str, Any] = {
        name: float(part[0])
        if np.ndim(getattr(sums, name)) == 0
        else part.reshape(value.shape)
        for name, value, part in zip(names, values, parts, strict=True)
    }
    return replace(sums, joint=None, **summed)
