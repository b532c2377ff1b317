r"""The likelihood as a smooth function of all parameters: slope, curvature, steps.

A `Step` has the coordinates in which the curvature is simple:

* `mixing`: $W_h \leftarrow (I + E_h) W_h$,
* `mu`: in units of the term's scale, $\mu \leftarrow \mu + \delta / \beta$,
* `beta`: the logarithm of the inverse scale,
* `alpha`, `gm`: logarithms of the weights, which are then normalised,
* `rho`: the shape itself.

The gradient is that of the observed likelihood, exactly: by Fisher's identity it is the
gradient of the expected complete-data log-likelihood, whose sums an E-step returns. The
curvature is the Fisher information of the complete data, block by block: pairs of
entries of $E$ as in Newton's step for ICA (Palmer, Makeig, Kreutz-Delgado and Rao,
*Newton method for the ICA mixture model*, ICASSP 2008), and a number for every
parameter of a density. All are in nats per sample and component.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

from ._model import Array, Model
from ._settings import Bounds
from ._statistics import Density, Statistics

# Smallest curvature, against that of a unit Gaussian, of a pair of mixing entries.
# Sources that are close to Gaussian, as mixtures of sources are, could be turned almost
# freely; steps that far lead a search astray long before the sources come apart.
_LEAST_CURVATURE = 0.3
# The same for a parameter of a term to which no sample belongs.
_LEAST_MASS = 1e-6
# Longest step of any coordinate at which its curvature still says something.
_REACH = {
    "mixing": 0.5,
    "mu": 1.0,
    "beta": 1.0,
    "alpha": 2.0,
    "rho": 0.5,
    "gm": 1.0,
}


class Step(NamedTuple):
    """A change of all parameters, or the gradient in these coordinates."""

    mixing: Array
    """$E_h$, shape `(M, n, n)`."""
    mu: Array
    """Shape `(J, K)`, as the next three."""
    beta: Array
    alpha: Array
    rho: Array
    gm: Array
    """Shape `(M,)`."""

    def flat(self) -> Array:
        """Return all coordinates in one vector."""
        return np.concatenate([values.ravel() for values in self])

    @classmethod
    def of(cls, vector: Array, model: Model) -> "Step":
        """Undo `flat` for a step of `model`."""
        n, M = model.slots.shape
        start, parts = 0, []
        for shape in ((M, n, n), *[model.mu.shape] * 4, (M,)):
            stop = start + math.prod(shape)
            parts.append(vector[start:stop].reshape(shape))
            start = stop
        return cls(*parts)

    def within_reach(self) -> "Step":
        """Return the step, shortened so that the curvature still holds at its end."""
        excess = max(
            float(np.max(np.abs(values), initial=0.0)) / _REACH[name]
            for name, values in self._asdict().items()
        )
        return Step(*(values / max(1.0, excess) for values in self))


class Curvature(NamedTuple):
    """The complete data's Fisher information, block by block; see `Step`."""

    mixing: Array
    """That of $E_{ik}$, shape `(M, n, n)`; with $E_{ki}$ it has a product of 1."""
    weight: Array
    """What multiplies a model's `mixing`, shape `(M,)`."""
    mu: Array
    """Shape `(J, K)`, as the next three."""
    beta: Array
    alpha: Array
    rho: Array
    gm: Array
    """Shape `(M,)`."""

    def times(self, step: Step) -> Step:
        """Return curvature times step."""
        transposed = _off_diagonal(np.swapaxes(step.mixing, 1, 2))
        E = self.weight[:, None, None] * (self.mixing * step.mixing + transposed)
        return Step(E, *(c * s for c, s in zip(self[2:], step[1:], strict=True)))

    def solve(self, gradient: Step) -> Step:
        """Return the step at which curvature times step is the gradient."""
        H = gradient.mixing / self.weight[:, None, None]
        across = np.swapaxes(self.mixing, 1, 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            E = (across * H - np.swapaxes(H, 1, 2)) / (self.mixing * across - 1)
        n = np.arange(E.shape[1])
        E[:, n, n] = H[:, n, n] / self.mixing[:, n, n]
        return Step(E, *(g / c for g, c in zip(gradient[1:], self[2:], strict=True)))


def gradient(
    model: Model, sums: Statistics, fixed: frozenset[str], bounds: Bounds
) -> Step:
    """Return the gradient of the log-likelihood; 0 where a parameter cannot move."""
    n, M = model.slots.shape
    mass, rho = _by_slot(model, sums.mass), model.rho
    share = _by_slot(model, np.repeat(sums.posterior, n).reshape(M, n, 1))
    times_y = _by_slot(model, sums.score_times_y)
    adaptive = model.density == Density.GENERALIZED_GAUSSIAN
    # Above 2 the record holds abs(y)^rho in place of f y.
    times_y = np.where(adaptive & (rho > 2), rho * times_y, times_y)
    shape = (
        mass * digamma(1 + 1 / rho) / rho**2
        - _by_slot(model, sums.power_log_power) / rho
    )
    low, high = bounds.rho
    stuck = ((rho <= low) & (shape < 0)) | ((rho >= high) & (shape > 0))
    slope = Step(
        mixing=sums.posterior[:, None, None] * np.eye(n) - sums.phi,
        mu=_by_slot(model, sums.score),
        beta=mass - times_y,
        alpha=mass - model.alpha * share,
        rho=np.where(adaptive & ~stuck, shape, 0.0),
        gm=sums.posterior - model.gm * sums.count,
    )
    held = {"mixing" if name == "A" else name for name in fixed}
    return Step(
        *(
            np.zeros_like(values) if name in held else values / (sums.count * n)
            for name, values in slope._asdict().items()
        )
    )


def curvature(model: Model, sums: Statistics) -> Curvature:
    """Return the curvature at a model from the sums with Newton's."""
    assert sums.square is not None
    assert sums.score_square is not None
    assert sums.score_deviation is not None
    n = model.n_components
    mu, beta = (
        np.moveaxis(values[:, model.slots.T], 0, -1)  # (M, n, J)
        for values in (model.mu, model.beta)
    )
    posterior = np.maximum(sums.posterior, _LEAST_MASS * sums.count)
    mass = posterior[:, None, None]
    bend = beta**2 * sums.score_square / mass
    kappa = bend.sum(axis=2)
    lam = (sums.score_deviation / mass + bend * mu**2).sum(axis=2)
    pairs = kappa[:, :, None] * (sums.square / posterior[:, None])[:, None, :]
    across = np.swapaxes(pairs, 1, 2)
    least = (pairs + across) / 2 - np.sqrt(((pairs - across) / 2) ** 2 + 1)
    pairs = pairs + np.maximum(0.0, _LEAST_CURVATURE - least)
    i = np.arange(n)
    pairs[:, i, i] = np.maximum(lam, _LEAST_CURVATURE)
    by_slot = _by_slot(model, sums.mass) / sums.count
    terms = {
        "mu": np.maximum(
            _by_slot(model, sums.score_square) / sums.count, by_slot / 100
        ),
        "beta": np.maximum(
            _by_slot(model, sums.score_deviation) / sums.count, by_slot / 10
        ),
        "alpha": by_slot,
        "rho": by_slot * _shape_information(model.rho),
    }
    return Curvature(
        mixing=pairs,
        weight=posterior / (sums.count * n),
        gm=(sums.posterior / sums.count + _LEAST_MASS) / n,
        **{name: (values + _LEAST_MASS) / n for name, values in terms.items()},
    )


def move(model: Model, step: Step, length: float, bounds: Bounds) -> Model:
    """Return the model after `length` times the step.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the mixing matrix of a model has become singular.
    """
    n, M = model.slots.shape
    new: dict[str, Any] = {}
    if np.any(step.mixing):
        new["A"] = model.A.copy()
        for h in range(M):
            turn = np.eye(n) + length * step.mixing[h]
            new["A"][:, model.slots[:, h]] = np.linalg.solve(
                turn.T, model.mixing(h).T
            ).T
    if np.any(step.mu):
        new["mu"] = model.mu + length * step.mu / model.beta
    if np.any(step.beta):
        new["beta"] = np.clip(model.beta * np.exp(length * step.beta), *bounds.beta)
    if np.any(step.alpha):
        new["alpha"] = _normalized(model.alpha, length * step.alpha)
    if np.any(step.rho):
        new["rho"] = np.clip(model.rho + length * step.rho, *bounds.rho)
    if np.any(step.gm):
        new["gm"] = _normalized(model.gm, length * step.gm)
    return model._replace(**new)


def _normalized(weights: Array, change: Array) -> Array:
    new = weights * np.exp(change - change.max(axis=0))
    return new / new.sum(axis=0)


def _shape_information(rho: Array) -> Array:
    r"""Return the Fisher information on the shape that a sample of a term holds.

    The score is $\psi(1 + 1/\rho) / \rho^2 - q \log q / \rho$ with $q = |y|^\rho$,
    which is gamma distributed with the shape $1/\rho$.
    """
    k = 1 / rho
    first = k * digamma(k + 1)
    second = k * (k + 1) * (polygamma(1, k + 2) + digamma(k + 2) ** 2)
    return (second - first**2) / rho**2


def _off_diagonal(matrices: Array) -> Array:
    return matrices * ~np.eye(matrices.shape[1], dtype=bool)


def _by_slot(model: Model, values: Array) -> Array:
    """From `(M, n, J)` by source to `(J, K)` by slot, of which none is shared."""
    total = np.zeros((values.shape[2], model.A.shape[1]))
    total[:, model.slots.T.ravel()] = values.reshape(-1, values.shape[2]).T
    return total
