"""Step sizes and stop rules: what follows from the course of the log-likelihood."""

from dataclasses import dataclass
from typing import Literal

from ._settings import LearningRate, Newton, Stopping

StopReason = Literal[
    "max_iter",
    "min_change",
    "min_gradient",
    "min_rate",
    "not_finite",
    "interrupted",
]


@dataclass
class Schedule:
    """The rates of the next update, and whether there should be one.

    `judge` is called once an iteration before the update, `mixing_rate` in the update.
    """

    learning_rate: LearningRate
    newton: Newton | None
    stopping: Stopping
    rate: float
    ceiling: float
    newton_ceiling: float
    shape_rate: float
    shape_ceiling: float
    n_decreases: int = 0
    n_small_changes: int = 0

    @classmethod
    def start(
        cls, learning_rate: LearningRate, newton: Newton | None, stopping: Stopping
    ) -> "Schedule":
        """Return the schedule before the first iteration."""
        return cls(
            learning_rate,
            newton,
            stopping,
            rate=learning_rate.rate,
            ceiling=learning_rate.rate,
            newton_ceiling=newton.rate if newton else 0.0,
            shape_rate=learning_rate.shape_rate,
            shape_ceiling=learning_rate.shape_rate,
        )

    def uses_newton(self, iteration: int) -> bool:
        """Tell whether this iteration asks for Newton directions."""
        return self.newton is not None and iteration >= self.newton.start

    def judge(
        self, iteration: int, change: float | None, gradient_norm: float
    ) -> StopReason | None:
        """Adapt the rates to the last change; return why to stop, or None.

        Parameters
        ----------
        iteration
            Number of this iteration, counted from 1.
        change
            Log-likelihood of this iteration less that of the one before; None if there
            is none to compare with.
        gradient_norm
            Norm of the direction of this iteration.
        """
        if change is not None:
            reason = self._judge_change(iteration, change, gradient_norm)
            if reason is not None:
                return reason
        if self.newton is not None and iteration == self.newton.start:
            self.n_decreases = 0
        return None

    def _judge_change(
        self, iteration: int, change: float, gradient_norm: float
    ) -> StopReason | None:
        stopping = self.stopping
        if change < 0:
            if self.rate <= self.learning_rate.minimum:
                return "min_rate"
            if stopping.min_gradient is not None and (
                gradient_norm <= stopping.min_gradient
            ):
                return "min_gradient"
            self._after_fall(iteration)
        if stopping.min_change is not None:
            small = change < stopping.min_change
            self.n_small_changes = self.n_small_changes + 1 if small else 0
            if self.n_small_changes > stopping.patience:
                return "min_change"
        if stopping.min_gradient is not None and gradient_norm <= stopping.min_gradient:
            return "min_gradient"
        return None

    def _after_fall(self, iteration: int) -> None:
        self.rate *= self.learning_rate.factor
        self.shape_rate *= self.learning_rate.shape_factor
        self.n_decreases += 1
        if self.n_decreases >= self.learning_rate.max_decreases:
            self.cut_ceilings(iteration)

    def cut_ceilings(self, iteration: int) -> None:
        """Lower what the rates may grow to."""
        start = self.newton.start if self.newton else 0
        self.ceiling *= self.learning_rate.factor
        if iteration > start:
            self.newton_ceiling *= self.learning_rate.factor
            self.shape_ceiling *= self.learning_rate.shape_factor
        self.n_decreases = 0

    def mixing_rate(self, newton: bool) -> float:
        """Let the rates grow; return that of a Newton or of a gradient step."""
        ceiling = self.newton_ceiling if newton else self.ceiling
        self.rate = min(
            ceiling, self.rate + min(1 / self.learning_rate.ramp, self.rate)
        )
        self.shape_rate = self.shape_ceiling
        return self.rate
