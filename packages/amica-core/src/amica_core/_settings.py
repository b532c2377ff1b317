"""Settings of a fit, grouped by what they govern; the Fortran names in parentheses."""

from dataclasses import dataclass

from ._check import check_integer, check_number


@dataclass(frozen=True)
class LearningRate:
    """Step sizes and how they react to a log-likelihood that falls.

    After a fall the rate is multiplied by `factor`; every step lets it grow again by
    at most its own size and `1 / ramp`, up to its ceiling. After `max_decreases` falls
    the ceiling itself is multiplied.

    Parameters
    ----------
    rate
        Ceiling of the natural-gradient step (`lrate`).
    minimum
        A fall at a rate as small as this ends the fit (`minlrate`).
    factor
        What a fall multiplies the rate by (`lratefact`).
    ramp
        Updates in which the rate may grow from 0 to 1 (`newt_ramp`).
    max_decreases
        Falls until the ceilings are cut (`max_decs`).
    shape_rate
        Step size of the shapes rho (`rholrate`).
    shape_factor
        What cuts the ceiling of `shape_rate` (`rholratefact`).
    """

    rate: float = 0.05
    minimum: float = 1e-8
    factor: float = 0.5
    ramp: int = 10
    max_decreases: int = 3
    shape_rate: float = 0.05
    shape_factor: float = 0.5

    def __post_init__(self) -> None:
        """Check the values."""
        check_number("LearningRate.rate", self.rate)
        check_number("LearningRate.minimum", self.minimum)
        check_number("LearningRate.factor", self.factor, 0, 1)
        check_integer("LearningRate.ramp", self.ramp, 1)
        check_integer("LearningRate.max_decreases", self.max_decreases, 1)
        check_number("LearningRate.shape_rate", self.shape_rate)
        check_number("LearningRate.shape_factor", self.shape_factor, 0, 1)


@dataclass(frozen=True)
class Newton:
    """When and how far the Newton direction is followed.

    Parameters
    ----------
    start
        First iteration, counted from 1 (`newt_start`).
    rate
        Ceiling of the Newton step (`newtrate`).
    """

    start: int = 50
    rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the values."""
        check_integer("Newton.start", self.start, 1)
        check_number("Newton.rate", self.rate)


@dataclass(frozen=True)
class Stopping:
    """When a fit has converged; None switches a rule off.

    Parameters
    ----------
    min_change
        A log-likelihood that gains less than this (nats per sample and component) in
        more than `patience` iterations in a row ends the fit (`min_dll`).
    patience
        See `min_change` (`max_incs`).
    min_gradient
        A gradient norm this small ends the fit (`min_grad_norm`).
    """

    min_change: float | None = 1e-9
    patience: int = 5
    min_gradient: float | None = 1e-7

    def __post_init__(self) -> None:
        """Check the values."""
        if self.min_change is not None:
            check_number("Stopping.min_change", self.min_change)
        check_integer("Stopping.patience", self.patience, 0)
        if self.min_gradient is not None:
            check_number("Stopping.min_gradient", self.min_gradient)


@dataclass(frozen=True)
class Bounds:
    """Limits of the density parameters.

    Parameters
    ----------
    beta
        Smallest and largest inverse scale (`invsigmin`, `invsigmax`).
    rho
        Smallest and largest shape (`minrho`, `maxrho`).
    """

    beta: tuple[float, float] = (1e-8, 100.0)
    rho: tuple[float, float] = (1.0, 2.0)

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("beta", "rho"):
            low, high = getattr(self, name)
            check_number(f"Bounds.{name}[0]", low)
            check_number(f"Bounds.{name}[1]", high)
            if low > high:
                raise ValueError(
                    f"`Bounds.{name}` must be ascending, got {(low, high)}"
                )
