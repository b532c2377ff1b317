"""What a fit returns."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ._backend.numpy import Backend as NumpyBackend
from ._density import unit_variance
from ._em import expectation
from ._history import History
from ._model import Array, Model
from ._schedule import StopReason
from ._sphere import Recording, Sphering
from ._statistics import Density, Options


@dataclass(frozen=True)
class Result:
    """A fitted mixture of ICA models with its sphering and its course."""

    model: Model
    """Parameters in sphered space."""
    sphering: Sphering
    """From channels to sphered space."""
    history: History
    """Log-likelihood and steps of every iteration."""
    kept: NDArray[np.bool_]
    """Samples that were not rejected, shape `(samples,)`."""
    stop_reason: StopReason
    """Why the fit ended."""
    fortran: bool = False
    """Whether log-likelihoods use the Fortran program's constants."""
    best_iteration: int = 0
    """The iteration that began with `model`; 0 where that is not known."""

    @property
    def n_iter(self) -> int:
        """Iterations that were run."""
        return len(self.history.log_likelihood)

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the model, per sample and component.

        The highest since samples last were rejected, if `best_iteration` is not known.
        """
        values = self.history.log_likelihood
        if self.best_iteration > 0:
            return float(values[self.best_iteration - 1])
        return float(np.nanmax(values[self.history.n_kept == self.history.n_kept[-1]]))

    def unmixing(self, h: int = 0) -> Array:
        """Return the unmixing matrix of model `h`, shape `(n, channels)`.

        Sources are `unmixing @ (X - mean).T - offset`; see `sources`.
        """
        return self.model.unmixing(h) @ self.sphering.matrix

    def mixing(self, h: int = 0) -> Array:
        """Return the maps of model `h` on the channels, shape `(channels, n)`."""
        return self.sphering.inverse @ self.model.mixing(h)

    def sources(self, X: NDArray, h: int = 0) -> Array:
        """Return the sources of model `h`, shape `(samples, n)`.

        The centre of the model is taken off, so that densities apply as they are.
        """
        offset = self.model.unmixing(h) @ self.model.c[:, h]
        return (X - self.sphering.mean) @ self.unmixing(h).T - offset

    def recording(self, sources: NDArray, h: int = 0) -> Array:
        """Return what sources of model `h` sum to on the channels; undoes `sources`.

        Parameters
        ----------
        sources
            Shape `(samples, n)`.
        h
            The model.
        """
        offset = self.model.unmixing(h) @ self.model.c[:, h]
        return (sources + offset) @ self.mixing(h).T + self.sphering.mean

    def joint_log_likelihood(self, X: NDArray) -> Array:
        r"""Return $\log \gamma_h p_h(X)$ of each sample, shape `(samples, models)`.

        The density is that of the `n` components kept, in units of the data.
        """
        recording = Recording(X, self.sphering)
        backend = NumpyBackend()
        options = Options(joint=True, fortran=self.fortran)
        sums = expectation(
            backend.place(recording), self.model, recording, backend, options, None
        )
        assert sums.joint is not None
        return sums.joint

    def posterior(self, X: NDArray) -> Array:
        """Return the posterior of each model, shape `(samples, models)`."""
        joint = self.joint_log_likelihood(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def variances(self, h: int = 0) -> Array:
        r"""Return what each component of model `h` adds to the channels' variance.

        $|a_i|^2 \sum_j \alpha (\mu^2 + \sigma^2_\rho / \beta^2)$ with the map $a_i$,
        as EEGLAB's loader orders components; shape `(n,)`.
        """
        slots = self.model.slots[:, h]
        alpha, mu, beta, rho = (
            values[:, slots]
            for values in (
                self.model.alpha,
                self.model.mu,
                self.model.beta,
                self.model.rho,
            )
        )
        spread = np.empty_like(rho)
        for i, code in enumerate(self.model.density[slots]):
            spread[:, i] = unit_variance(Density(code), rho[:, i])
        power = np.sum(self.mixing(h) ** 2, axis=0)
        return power * np.sum(alpha * (mu**2 + spread / beta**2), axis=0)

    def sorted(self) -> "Result":
        """Return the fit with models by prior and components by variance, descending.

        Slots stay where they are; only the order in which models use them changes.
        """
        model = self.model
        slots, c = model.slots.copy(), model.c.copy()
        for h in range(model.n_models):
            order = np.argsort(-self.variances(h), kind="stable")
            slots[:, h] = slots[order, h]
        by_prior = np.argsort(-model.gm, kind="stable")
        return replace(
            self,
            model=model._replace(
                slots=slots[:, by_prior], c=c[:, by_prior], gm=model.gm[by_prior]
            ),
        )
