"""A progress line on the terminal for long fits."""

import sys
import time
from typing import TextIO

from ._em import LoopState

_WIDTH = 24


class Progress:
    """Shows iteration, log-likelihood, change and gradient norm on one line.

    On a terminal the line is redrawn at most ten times a second; elsewhere a line is
    written every 50 iterations, so that log files stay readable.
    """

    def __init__(self, max_iter: int, stream: TextIO | None = None):
        self.max_iter = max_iter
        self.stream = sys.stderr if stream is None else stream
        self.redraws = self.stream.isatty()
        self.started = self.drawn = time.monotonic()
        self.first_iteration: int | None = None

    def __call__(self, state: LoopState) -> None:
        """Show the state after an iteration."""
        if self.first_iteration is None:
            self.first_iteration = state.iteration
        now = time.monotonic()
        ends = state.stop_reason is not None
        if self.redraws:
            if ends or now - self.drawn >= 0.1:
                self.drawn = now
                print("\r" + self._line(state, now), end="", file=self.stream)
        elif ends or state.iteration % 50 == 1:
            print(self._line(state, now), file=self.stream)
        self.stream.flush()

    def close(self, state: LoopState) -> None:
        """Finish the line and say why the fit ended."""
        print(
            f"{chr(10) if self.redraws else ''}{_WORDS[state.stop_reason or '']} "
            f"after {state.iteration} iterations",
            file=self.stream,
        )

    def _line(self, state: LoopState, now: float) -> str:
        done = state.iteration
        record = state.records[-1]
        filled = _WIDTH * done // self.max_iter
        change = 0.0
        if done > 1:
            change = record.log_likelihood - state.records[-2].log_likelihood
        line = (
            f"{'#' * filled:-<{_WIDTH}} {done}/{self.max_iter}  "
            f"LL {record.log_likelihood:.7f}  change {change:+.1e}  "
            f"gradient {record.gradient_norm:.1e}"
        )
        since_first = done - (self.first_iteration or 0)
        if since_first > 0:
            seconds = (now - self.started) / (since_first + 1)
            left = (self.max_iter - done) * seconds
            line += f"  {seconds:.2g} s/it, at most {_clock(left)} left"
        return line + "   "


_WORDS = {
    "max_iter": "ended at `max_iter`",
    "min_change": "converged: the log-likelihood no longer grows",
    "min_gradient": "converged: the gradient vanishes",
    "min_rate": "converged: no step size raises the log-likelihood",
    "not_finite": "gave up: the log-likelihood was not finite; kept the best model",
    "interrupted": "interrupted; kept the best model",
}


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
