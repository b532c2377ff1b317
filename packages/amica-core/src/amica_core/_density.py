r"""Source densities: unnormalised log-density, score, and what the M-step sums of them.

Every density is $p(y) = \tilde p(y) / Z$ with $\tilde p(0) = 1$; the score is
$f = -\mathrm{d}\log p / \mathrm{d}y$ (Palmer et al., *AMICA*, 2011, section 3).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammaln

from ._statistics import Density

_Array = NDArray[np.float64]

_TINY_POWER = 1e-16

# log Z of the densities without a shape parameter. Of the sub- and super-Gaussian,
# exp(-y^2/2) cosh(y) integrates to sqrt(2 pi e) exactly, and
# exp(-y^2/2) / cosh(y) to 1.858... (trapezoidal rule, exact to rounding here).
_LOG_Z = {
    Density.SUPER_GAUSSIAN: float(np.log(1.8580739884965012)),
    Density.GAUSSIAN: float(0.5 * np.log(2 * np.pi)),
    Density.LOGISTIC: float(np.log(4.0)),
    Density.SUB_GAUSSIAN: float(0.5 * np.log(2 * np.pi * np.e)),
}

# The sub-Gaussian is the mean of two unit normals around +1 and -1.
_UNIT_VARIANCE = {
    Density.SUPER_GAUSSIAN: 0.5918341149305851,
    Density.GAUSSIAN: 1.0,
    Density.LOGISTIC: np.pi**2 / 3,
    Density.SUB_GAUSSIAN: 2.0,
}

# The Fortran program spells these constants as single-precision literals.
_LOG_Z_FORTRAN = {
    Density.SUPER_GAUSSIAN: float(np.log(np.float64(np.float32(1.858073988)))),
    Density.GAUSSIAN: float(np.log(np.float64(np.float32(2.506628274)))),
    Density.LOGISTIC: float(np.log(4.0)),
    Density.SUB_GAUSSIAN: float(np.log(np.float64(np.float32(4.132731354)))),
}
_LOG_SQRT_PI_FORTRAN = float(np.log(np.float64(np.float32(1.772453851))))


class Terms(NamedTuple):
    """What a density gives at the points `y`, all of the shape of `y`."""

    log_kernel: _Array
    """log p~(y)"""
    score: _Array
    """f"""
    score_over_y: _Array
    """f / y, or f^2 where rho > 2"""
    score_times_y: _Array
    """f y, or abs(y)^rho where rho > 2"""
    power_log_power: _Array | None
    """q log q, q = abs(y)^rho; None where there is no shape"""


def log_normalizer(density: Density, rho: _Array, fortran: bool = False) -> _Array:
    """Return log Z for each shape in `rho` (which only type 0 reads)."""
    if density != Density.GENERALIZED_GAUSSIAN:
        return np.full(rho.shape, (_LOG_Z_FORTRAN if fortran else _LOG_Z)[density])
    log_z = gammaln(1 + 1 / rho) + np.log(2.0)
    if fortran:
        log_z = np.where(rho == 2.0, _LOG_SQRT_PI_FORTRAN, log_z)
    return log_z


def unit_variance(density: Density, rho: _Array) -> _Array:
    """Return the variance at unit scale for each shape in `rho`."""
    if density == Density.GENERALIZED_GAUSSIAN:
        return gamma(3 / rho) / gamma(1 / rho)
    return np.full(rho.shape, _UNIT_VARIANCE[density])


def evaluate(density: Density, y: _Array, rho: _Array, fortran: bool = False) -> Terms:
    """Evaluate a density; `rho` broadcasts against `y`."""
    if density == Density.GENERALIZED_GAUSSIAN:
        return _generalized_gaussian(y, rho, fortran)
    if density == Density.GAUSSIAN:
        log_kernel, score, slope = -0.5 * y**2, y, 1.0
    elif density == Density.LOGISTIC:
        log_kernel, score, slope = -2 * _log_cosh(y / 2), np.tanh(y / 2), 0.5
    elif density == Density.SUB_GAUSSIAN:
        log_kernel, score, slope = -0.5 * y**2 + _log_cosh(y), y - np.tanh(y), 0.0
    else:
        log_kernel, score, slope = -0.5 * y**2 - _log_cosh(y), y + np.tanh(y), 2.0
    at_zero = np.nan if fortran else slope  # f / y tends to f'(0)
    over_y = np.divide(score, y, out=np.full_like(y, at_zero), where=y != 0)
    return Terms(log_kernel, score, over_y, score * y, None)


def _generalized_gaussian(y: _Array, rho: _Array, fortran: bool) -> Terms:
    with np.errstate(divide="ignore", invalid="ignore"):
        log_y = np.log(np.abs(y))
        power = np.exp(rho * log_y)
        times_y = rho * power  # f y
        score = times_y / y
        over_y = score / y
        power_log_power = times_y * log_y
    power_log_power[power < _TINY_POWER] = 0.0
    zero = y == 0
    if zero.any():
        at_zero = np.broadcast_to(rho, y.shape)[zero]
        if fortran:
            # sign(0) = +1 makes the Laplacian's score 1; other shapes give 0/0.
            score[zero] = np.where(at_zero == 1.0, 1.0, 0.0)
            over_y[zero] = np.where(at_zero == 1.0, np.inf, np.nan)
        else:
            score[zero] = 0.0
            over_y[zero] = np.where(at_zero == 2.0, 2.0, 0.0)
    if np.any(rho > 2):
        over_y = np.where(rho > 2, score**2, over_y)
        times_y = np.where(rho > 2, power, times_y)
    return Terms(-power, score, over_y, times_y, power_log_power)


def _log_cosh(y: _Array) -> _Array:
    """Log cosh y without overflow."""
    magnitude = np.abs(y)
    return magnitude + np.log1p(np.exp(-2 * magnitude)) - np.log(2.0)
