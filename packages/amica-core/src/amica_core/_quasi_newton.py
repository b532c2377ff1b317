r"""A quasi-Newton search over all parameters at once, one E-step at a time.

Limited-memory BFGS (Nocedal and Wright, *Numerical Optimization*, 2nd ed., algorithms
7.4 and 18.2) whose first guess of the inverse Hessian is the inverse of the curvature
in `_coordinates`, as Picard preconditions ICA (Ablin, Cardoso and Gramfort, *Faster
independent component analysis by preconditioning with Hessian approximations*, 2018),
here with the densities, and the models' weights, as unknowns too. EM takes a step of
about that first guess; what the memory adds is the information that the hidden
variables hide, which is what makes EM slow. The log-likelihood never falls: a trial
that lowers it is taken back and its step shortened.
"""

from dataclasses import dataclass, field

import numpy as np

from ._coordinates import Curvature, Step, curvature, gradient, move
from ._model import Array, Model
from ._settings import Bounds
from ._statistics import Statistics

# Pairs of steps and gradient changes that are kept.
_MEMORY = 10
# Least curvature along a step, as a part of the complete data's. Where the likelihood
# is flatter than that, or bends the wrong way, a step may not grow without limit.
_DAMPING = 0.02
# Trials along a direction before the memory, or else the search, is given up.
_MAX_TRIALS = 8


@dataclass
class Search:
    """Where a quasi-Newton search stands between two E-steps.

    After the E-step of a trial that `improves`, it is to be `accept`ed; `propose` then
    gives the next trial.
    """

    base: Model | None = None
    """The last model that raised the log-likelihood; None before the first E-step."""
    log_likelihood: float = -np.inf
    slope: Array = field(default_factory=lambda: np.empty(0))
    """Gradient at `base`."""
    bend: Curvature | None = None
    """Curvature at `base`."""
    direction: Array = field(default_factory=lambda: np.empty(0))
    length: float = 0.0
    """The trial is `length` times `direction` away from `base`."""
    n_trials: int = 0
    """Trials along `direction` that have failed."""
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    """What each of `steps` took off the gradient."""

    def reset(self) -> None:
        """Forget everything: log-likelihoods do not compare with earlier ones."""
        self.base, self.log_likelihood = None, -np.inf
        self.steps, self.changes, self.n_trials = [], [], 0

    def improves(self, log_likelihood: float) -> bool:
        """Tell whether a trial with this log-likelihood is a step forward."""
        return bool(log_likelihood > self.log_likelihood)

    def accept(
        self,
        model: Model,
        sums: Statistics,
        log_likelihood: float,
        fixed: frozenset[str],
        bounds: Bounds,
    ) -> None:
        """Make a trial the base, and learn from the step to it."""
        slope = gradient(model, sums, fixed, bounds).flat()
        if self.base is not None:
            self._remember(model, slope)
        self.base, self.log_likelihood, self.slope = model, log_likelihood, slope
        self.bend = curvature(model, sums)
        self.n_trials = 0

    def propose(
        self, accepted: bool, log_likelihood: float, bounds: Bounds
    ) -> Model | None:
        """Return the next trial; None where none can raise the log-likelihood.

        Parameters
        ----------
        accepted
            Whether the last trial was.
        log_likelihood
            That of the last trial, which need not be finite.
        bounds
            Limits of the densities.
        """
        assert self.base is not None
        if accepted:
            self._turn()
        elif not self._shorten(log_likelihood):
            if not self.steps:
                return None
            self.steps, self.changes = [], []
            self._turn()
        if not np.any(self.direction):
            return None
        step = Step.of(self.direction, self.base)
        while True:
            try:
                return move(self.base, step, self.length, bounds)
            except np.linalg.LinAlgError:
                self.length /= 2

    def _turn(self) -> None:
        """Choose a direction from the base."""
        assert self.base is not None
        assert self.bend is not None
        direction = self._times_inverse_hessian(self.slope)
        if direction @ self.slope <= 0:
            self.steps, self.changes = [], []
            direction = self._times_inverse_hessian(self.slope)
        self.direction = Step.of(direction, self.base).within_reach().flat()
        self.length, self.n_trials = 1.0, 0

    def _shorten(self, log_likelihood: float) -> bool:
        """Shorten the step to where a parabola has its peak; False after too many."""
        self.n_trials += 1
        if self.n_trials >= _MAX_TRIALS:
            return False
        assert self.base is not None
        rise = self.length * float(self.slope @ self.direction)
        fall = self.log_likelihood + rise - log_likelihood
        peak = rise / (2 * fall) if np.isfinite(fall) and fall > 0 else 0.0
        self.length *= min(max(peak, 0.1), 0.5)
        return True

    def _remember(self, model: Model, slope: Array) -> None:
        """Store the step from the base and its change of slope, damped."""
        assert self.base is not None
        assert self.bend is not None
        step = Step.of(self.length * self.direction, self.base)
        step = step._replace(rho=model.rho - self.base.rho)  # it may have hit a bound
        s, y = step.flat(), self.slope - slope
        Bs = self.bend.times(step).flat()
        seen, expected = float(s @ y), float(s @ Bs)
        if seen < _DAMPING * expected:
            part = (1 - _DAMPING) * expected / (expected - seen)
            y = part * y + (1 - part) * Bs
        self.steps = [*self.steps, s][-_MEMORY:]
        self.changes = [*self.changes, y][-_MEMORY:]

    def _times_inverse_hessian(self, vector: Array) -> Array:
        """Run the two loops of L-BFGS."""
        assert self.base is not None
        assert self.bend is not None
        pairs = list(zip(self.steps, self.changes, strict=True))
        q, along = vector.copy(), []
        for s, y in reversed(pairs):
            along.append((s @ q) / (s @ y))
            q -= along[-1] * y
        r = self.bend.solve(Step.of(q, self.base)).flat()
        for (s, y), a in zip(pairs, reversed(along), strict=True):
            r += (a - (y @ r) / (s @ y)) * s
        return r
