"""What a fit recorded of every iteration."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Record(NamedTuple):
    """One iteration."""

    log_likelihood: float
    gradient_norm: float
    learning_rate: float
    newton: bool
    n_kept: int


class History(NamedTuple):
    """Course of a fit; every array has one entry an iteration."""

    log_likelihood: NDArray[np.float64]
    """Nats per sample and component, of the model before the iteration's update.

    With the quasi-Newton solver some are trials that failed, and lower than before.
    """
    gradient_norm: NDArray[np.float64]
    """Root mean square of the direction of the mixing columns."""
    learning_rate: NDArray[np.float64]
    """Step size of the iteration's update; 0 where the mixing columns stayed.

    With the quasi-Newton solver, the part of its direction that is tried next.
    """
    newton: NDArray[np.bool_]
    """Whether all models moved along Newton directions of EM."""
    n_kept: NDArray[np.int64]
    """Samples in use."""

    @classmethod
    def of(cls, records: list[Record]) -> "History":
        """Collect the records of a run."""
        ll, norm, rate, newton, kept = (
            zip(*records, strict=True) if records else [()] * 5
        )
        return cls(
            np.array(ll, np.float64),
            np.array(norm, np.float64),
            np.array(rate, np.float64),
            np.array(newton, np.bool_),
            np.array(kept, np.int64),
        )

    def records(self) -> list[Record]:
        """Return the iterations one by one."""
        return [Record(*row) for row in zip(*(c.tolist() for c in self), strict=True)]
