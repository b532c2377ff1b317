r"""The parameters that AMICA learns, their initial values, and what an E-step needs.

Everything that belongs to a source is kept by *slot*: source $i$ of model $h$ uses slot
`slots[i, h]`, and models that share a component point to the same slot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._check import check_integer, check_number
from ._density import log_normalizer
from ._statistics import Density, Parameters

Array = NDArray[np.float64]


class Model(NamedTuple):
    """A mixture of ICA models in sphered space; `K` slots, `J` mixture terms."""

    A: Array
    """Mixing columns, shape `(n, K)`."""
    slots: NDArray[np.int64]
    """Slot of source `i` of model `h`, shape `(n, M)`."""
    c: Array
    """Centres of the models, shape `(n, M)`."""
    gm: Array
    """Prior probabilities of the models, shape `(M,)`."""
    alpha: Array
    """Mixture weights, shape `(J, K)`; columns sum to 1."""
    mu: Array
    """Centres of the mixture terms, shape `(J, K)`."""
    beta: Array
    """Inverse scales, shape `(J, K)`."""
    rho: Array
    """Shapes of the generalised Gaussian, shape `(J, K)`."""
    density: NDArray[np.int64]
    """A `Density` code for each slot, shape `(K,)`."""

    @property
    def n_components(self) -> int:
        """Components of each model."""
        return self.slots.shape[0]

    @property
    def n_models(self) -> int:
        """ICA models."""
        return self.slots.shape[1]

    @property
    def n_mixtures(self) -> int:
        """Mixture terms of each source density."""
        return self.alpha.shape[0]

    def mixing(self, h: int) -> Array:
        """Return the mixing matrix of model `h` in sphered space, shape `(n, n)`."""
        return self.A[:, self.slots[:, h]]

    def unmixing(self, h: int) -> Array:
        """Return $W_h$, the inverse of `mixing(h)`, shape `(n, n)`."""
        return np.asarray(np.linalg.inv(self.mixing(h)), np.float64)


def initial_model(
    n_components: int,
    n_models: int = 1,
    n_mixtures: int = 3,
    *,
    density: Density = Density.GENERALIZED_GAUSSIAN,
    rho: float = 1.5,
    random_state: np.random.Generator | int | None = None,
) -> Model:
    """Return the values that a fit starts from.

    Parameters
    ----------
    n_components, n_models, n_mixtures
        Sizes, all positive.
    density
        Density of every mixture term.
    rho
        First shape of the generalised Gaussian terms.
    random_state
        Generator or seed of the jitter that tells sources and models apart; None for
        none at all: identity mixing, equal scales, evenly spaced centres.
    """
    check_integer("n_components", n_components, 1)
    check_integer("n_models", n_models, 1)
    check_integer("n_mixtures", n_mixtures, 1)
    check_number("rho", rho)
    n, M, J, K = n_components, n_models, n_mixtures, n_components * n_models
    spacing = np.arange(J, dtype=np.float64) - (J - 1) / 2
    mu: Array = np.tile(spacing[:, None], (1, K))
    beta = np.ones((J, K))
    A = np.tile(np.eye(n), (1, M))
    if random_state is not None:
        rng = np.random.default_rng(random_state)
        mu += 0.05 * (1 - 2 * rng.random((J, K)))
        beta += 0.1 * (0.5 - rng.random((J, K)))
        jitter = 0.01 * (0.5 - rng.random((n, K)))
        A = np.where(A == 1, 1.0, jitter)
        A /= np.linalg.norm(A, axis=0)
    return Model(
        A=A,
        slots=np.arange(K).reshape(M, n).T.copy(),
        c=np.zeros((n, M)),
        gm=np.full(M, 1 / M),
        alpha=np.full((J, K), 1 / J),
        mu=mu,
        beta=beta,
        rho=np.full((J, K), rho),
        density=np.full(K, int(density)),
    )


def expectation_parameters(
    model: Model, log_det_sphere: float, *, centred: bool = True, fortran: bool = False
) -> Parameters:
    """Return the model as a backend reads it; `centred=False` leaves $c$ out."""
    M = model.n_models
    unmixing = np.stack([model.unmixing(h) for h in range(M)])
    offset = np.einsum("hij,jh->hi", unmixing, model.c)
    with np.errstate(divide="ignore"):
        log_weight = np.linalg.slogdet(unmixing)[1] + log_det_sphere + np.log(model.gm)
        log_scale = np.log(model.alpha) + np.log(model.beta)
    log_scale -= _log_normalizer(model, fortran)
    by_source = model.slots.T  # (M, n)
    return Parameters(
        unmixing=unmixing,
        offset=offset if centred else np.zeros_like(offset),
        log_weight=log_weight,
        log_scale=_gather(log_scale, by_source),
        mu=_gather(model.mu, by_source),
        beta=_gather(model.beta, by_source),
        rho=_gather(model.rho, by_source),
        density=model.density[by_source],
    )


def _log_normalizer(model: Model, fortran: bool) -> Array:
    log_z = np.empty_like(model.rho)
    for code in np.unique(model.density):
        rows = model.density == code
        log_z[:, rows] = log_normalizer(Density(code), model.rho[:, rows], fortran)
    return log_z


def _gather(values: Array, by_source: NDArray[np.int64]) -> Array:
    """From `(J, K)` by slot to `(M, n, J)` by source."""
    return np.ascontiguousarray(np.moveaxis(values[:, by_source], 0, -1))
