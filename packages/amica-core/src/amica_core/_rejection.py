"""Rejection of samples that no model explains."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._check import check_integer, check_number
from ._group import Group


@dataclass(frozen=True)
class Rejection:
    """Leave samples out for good whose log-likelihood is far below the mean.

    Parameters
    ----------
    start
        Iteration of the first round (`rejstart`).
    interval
        Iterations between rounds (`rejint`).
    rounds
        Number of rounds (`numrej`).
    threshold
        Distance below the mean, in standard deviations (`rejsig`).
    """

    start: int = 2
    interval: int = 3
    rounds: int = 5
    threshold: float = 3.0

    def __post_init__(self) -> None:
        """Check the values."""
        check_integer("Rejection.start", self.start, 1)
        check_integer("Rejection.interval", self.interval, 1)
        check_integer("Rejection.rounds", self.rounds, 1)
        check_number("Rejection.threshold", self.threshold)

    def is_due(self, iteration: int, rounds_done: int, fortran: bool = False) -> bool:
        """Tell whether samples are rejected after this iteration.

        The Fortran program clamps the distance to `start` at 1, and so with an
        interval of 1 it rejects before `start`.
        """
        if iteration == self.start:
            return True
        distance = iteration - self.start
        if fortran:
            distance = max(1, distance)
        on_grid = distance > 0 and distance % self.interval == 0
        return on_grid and rounds_done < self.rounds


def reject(
    log_likelihood: NDArray[np.float64],
    kept: NDArray[np.bool_],
    threshold: float,
    group: Group,
) -> NDArray[np.bool_]:
    """Return which samples stay in use.

    Parameters
    ----------
    log_likelihood
        Of every sample of this process, shape `(samples,)`.
    kept
        Which samples are in use now, shape `(samples,)`.
    threshold
        Distance below the mean, in standard deviations.
    group
        Processes that share the samples; mean and deviation run over all of them.
    """
    values = log_likelihood[kept]
    count, total, square = group.sum(
        np.array([len(values), values.sum(), values @ values])
    )
    mean = total / count
    deviation = np.sqrt(max(square / count - mean**2, 0.0))
    return kept & (log_likelihood >= mean - threshold * deviation)
