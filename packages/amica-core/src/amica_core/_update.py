r"""The M-step: from sums over samples to the next model, on the host in float64.

Palmer, Kreutz-Delgado and Makeig, *AMICA: an adaptive mixture of independent component
analyzers with shared components* (2011); the natural gradient is section 4, the Newton
direction section 5.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from ._model import Array, Model
from ._settings import Bounds
from ._statistics import Density, Statistics


class Direction(NamedTuple):
    r"""Where the mixing columns go; $A \leftarrow A - \mathrm{rate} \cdot dA$."""

    dA: Array
    """Shape `(n, K)`; 0 in slots that no model uses."""
    norm: float
    """Root mean square of the entries of `dA` in used slots."""
    newton: bool
    """Whether every model has a Newton direction."""


def mixing_direction(model: Model, sums: Statistics, newton: bool) -> Direction:
    """Return the natural-gradient or Newton direction of the mixing columns.

    A model whose Hessian is not positive definite keeps its natural gradient.
    """
    n, M = model.slots.shape
    weighted, weight = np.zeros_like(model.A), np.zeros(model.A.shape[1])
    all_newton = newton
    for h in range(M):
        H = np.eye(n) - sums.phi[h] / sums.posterior[h]
        step = _newton_step(H, model, sums, h) if newton else None
        all_newton &= step is not None
        D = model.mixing(h) @ (H if step is None else step)
        slots = model.slots[:, h]
        weighted[:, slots] += model.gm[h] * D
        weight[slots] += model.gm[h]
    used = _used_slots(model)
    dA = np.divide(weighted, weight, out=np.zeros_like(weighted), where=used)
    norm = float(np.sqrt(np.sum(dA[:, used] ** 2) / (n * used.sum())))
    return Direction(dA, norm, all_newton)


def _used_slots(model: Model) -> NDArray[np.bool_]:
    used = np.zeros(model.A.shape[1], bool)
    used[model.slots] = True
    return used


def _newton_step(H: Array, model: Model, sums: Statistics, h: int) -> Array | None:
    r"""Solve the block-diagonal Newton system, or None if it is not positive definite.

    $Z_{ik} = (\sigma_i^2 \kappa_k H_{ik} - H_{ki}) /
    (\sigma_i^2 \kappa_k \sigma_k^2 \kappa_i - 1)$, $Z_{ii} = H_{ii} / \lambda_i$.
    """
    assert sums.square is not None
    assert sums.score_square is not None
    assert sums.score_deviation is not None
    mu, beta = (p[:, model.slots[:, h]].T for p in (model.mu, model.beta))  # (n, J)
    mass = sums.posterior[h]
    variance = sums.square[h] / mass
    curvature = beta**2 * sums.score_square[h] / mass
    kappa = curvature.sum(axis=1)
    lam = (sums.score_deviation[h] / mass + curvature * mu**2).sum(axis=1)
    p = np.outer(variance, kappa)
    determinant = p * p.T - 1
    off_diagonal = ~np.eye(len(H), dtype=bool)
    if not np.all(determinant[off_diagonal] > 0):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        step = (p * H - H.T) / determinant
    np.fill_diagonal(step, np.diag(H) / lam)
    return step


def maximize(
    model: Model,
    sums: Statistics,
    *,
    mixing_step: Array | None,
    shape_rate: float,
    fixed: frozenset[str],
    bounds: Bounds,
    rescale: bool = True,
) -> Model:
    """Return the model after one M-step.

    Parameters
    ----------
    model, sums
        The model and its statistics.
    mixing_step
        What to subtract from `A`, shape `(n, K)`; None leaves `A` as it is.
    shape_rate
        Step size of `rho`.
    fixed
        Names of the fields of `Model` that keep their values.
    bounds
        Limits of `beta` and `rho`.
    rescale
        Give the columns of `A` unit norm.
    """
    new: dict[str, Any] = {}
    mass = _by_slot(model, sums.mass)
    used = _used_slots(model)

    def ratio(numerator: Array, denominator: Array) -> Array:
        # Slots that no model uses have sums of zero and keep their values.
        return np.divide(
            numerator, denominator, out=np.zeros_like(numerator), where=used
        )

    if "gm" not in fixed:
        new["gm"] = sums.posterior / sums.count
    if "alpha" not in fixed:
        total = _by_slot(
            model, np.broadcast_to(sums.posterior[:, None, None], sums.mass.shape)
        )
        new["alpha"] = np.where(used, ratio(mass, total), model.alpha)
    if "c" not in fixed:
        new["c"] = (sums.weighted_x / sums.posterior[:, None]).T
    if "A" not in fixed and mixing_step is not None:
        new["A"] = model.A - mixing_step
    if "mu" not in fixed:
        denominator = model.beta * _by_slot(model, sums.score_over_y)
        new["mu"] = model.mu + ratio(_by_slot(model, sums.score), denominator)
    if "beta" not in fixed:
        squared = ratio(mass, _by_slot(model, sums.score_times_y))
        new["beta"] = np.clip(
            np.where(used, model.beta * np.sqrt(squared), model.beta), *bounds.beta
        )
    adaptive = used & (model.density == Density.GENERALIZED_GAUSSIAN)
    if "rho" not in fixed and adaptive.any():
        slope = 1 - model.rho / digamma(1 + 1 / model.rho) * ratio(
            _by_slot(model, sums.power_log_power), mass
        )
        rho = np.clip(model.rho + shape_rate * slope, *bounds.rho)
        new["rho"] = np.where(adaptive, rho, model.rho)
    model = model._replace(**new)
    return _unit_columns(model) if rescale else model


def in_standard_form(
    model: Model, sums: Statistics, fixed: frozenset[str], rescale: bool
) -> Model:
    """Return the same distribution with centres and scales as `maximize` has them.

    Centres go to the means of the models' samples and the mixing columns get unit norm;
    the densities take up what the sources are moved and scaled by.

    Parameters
    ----------
    model, sums
        The model and its statistics.
    fixed
        Names of the fields of `Model` that keep their values.
    rescale
        Give the columns of `A` unit norm.
    """
    if not fixed & {"c", "mu"}:
        c = (sums.weighted_x / sums.posterior[:, None]).T
        mu = model.mu.copy()
        for h in range(model.n_models):
            mu[:, model.slots[:, h]] -= model.unmixing(h) @ (c[:, h] - model.c[:, h])
        model = model._replace(c=c, mu=mu)
    return _unit_columns(model) if rescale else model


def _unit_columns(model: Model) -> Model:
    norm = np.linalg.norm(model.A, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    return model._replace(A=model.A / norm, mu=model.mu * norm, beta=model.beta / norm)


def _by_slot(model: Model, values: NDArray[np.float64]) -> Array:
    """Add up `(M, n, J)` by source into `(J, K)` by slot."""
    total = np.zeros((values.shape[2], model.A.shape[1]))
    for h in range(model.n_models):
        # A slot occurs at most once in a model.
        total[:, model.slots[:, h]] += values[h].T
    return total
