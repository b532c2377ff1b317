"""Switching between sub- and super-Gaussian densities, as extended Infomax does."""

from dataclasses import dataclass

import numpy as np

from ._check import check_integer
from ._model import Model
from ._statistics import Density, Statistics


@dataclass(frozen=True)
class Switching:
    """When the density of a source follows the sign of its kurtosis.

    The Fortran program reads these settings and does nothing with them.

    Parameters
    ----------
    start
        Iteration of the first round (`kurt_start`).
    interval
        Iterations between rounds (`kurt_int`).
    rounds
        Number of rounds; None for no end (`num_kurt`).
    """

    start: int = 3
    interval: int = 10
    rounds: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_integer("Switching.start", self.start, 1)
        check_integer("Switching.interval", self.interval, 1)
        if self.rounds is not None:
            check_integer("Switching.rounds", self.rounds, 1)

    def is_due(self, iteration: int) -> bool:
        """Tell whether densities may switch after this iteration."""
        rounds_before, offset = divmod(iteration - self.start, self.interval)
        if rounds_before < 0 or offset != 0:
            return False
        return self.rounds is None or rounds_before < self.rounds


def switch(model: Model, sums: Statistics) -> Model:
    r"""Return the model with each slot's density chosen by its sources' kurtosis.

    A source with $E[b^4] < 3 E[b^2]^2$ gets the sub-Gaussian density (Lee, Girolami
    and Sejnowski, *Neural Computation* 11, 1999, whose criterion has the same sign).
    """
    assert sums.square is not None
    assert sums.fourth is not None
    mass, square, fourth = np.zeros((3, model.A.shape[1]))
    for h in range(model.n_models):
        slots = model.slots[:, h]
        mass[slots] += sums.posterior[h]
        square[slots] += sums.square[h]
        fourth[slots] += sums.fourth[h]
    sub_gaussian = fourth * mass < 3 * square**2
    density = np.where(sub_gaussian, Density.SUB_GAUSSIAN, Density.SUPER_GAUSSIAN)
    return model._replace(density=np.where(mass > 0, density, model.density))
