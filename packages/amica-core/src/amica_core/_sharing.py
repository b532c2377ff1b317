"""Sharing: components that two models have in common are learnt once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._check import check_integer, check_number
from ._model import Model


@dataclass(frozen=True)
class Sharing:
    """Let models use one slot for components whose maps are nearly parallel.

    Parameters
    ----------
    start
        Iteration of the first comparison (`share_start`).
    interval
        Iterations between comparisons (`share_iter`).
    threshold
        Absolute cosine of two maps on the sensors from which they are one component
        (`comp_thresh`).
    """

    start: int = 100
    interval: int = 100
    threshold: float = 0.99

    def __post_init__(self) -> None:
        """Check the values."""
        check_integer("Sharing.start", self.start, 1)
        check_integer("Sharing.interval", self.interval, 1)
        check_number("Sharing.threshold", self.threshold, 0, 1, closed=True)

    def is_due(self, iteration: int) -> bool:
        """Tell whether maps are compared after this iteration."""
        distance = iteration - self.start
        return distance >= 0 and distance % self.interval == 0


def share(model: Model, sphere_inverse: NDArray[np.float64], threshold: float) -> Model:
    """Return the model with near-parallel components of two models merged.

    A component joins the slot of the first model that has one like it; nothing is
    averaged, and no model uses a slot twice.

    Parameters
    ----------
    model
        A mixture of models.
    sphere_inverse
        Pseudo-inverse of the sphering matrix, shape `(channels, n)`; takes columns of
        `A` to maps on the sensors.
    threshold
        Absolute cosine from which two maps are one component.
    """
    maps = sphere_inverse @ model.A
    maps = maps / np.linalg.norm(maps, axis=0)
    cosine = np.abs(maps.T @ maps)
    slots = model.slots.copy()
    n, M = slots.shape
    for h in range(M):
        for other in range(h + 1, M):
            for i in range(n):
                for k in range(n):
                    keep, drop = slots[i, h], slots[k, other]
                    if keep == drop or not cosine[keep, drop] >= threshold:
                        continue
                    together = (slots == keep).any(axis=0) & (slots == drop).any(axis=0)
                    if not together.any():
                        slots[slots == drop] = keep
    return model._replace(slots=slots)
