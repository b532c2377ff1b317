"""The course of a fit."""

from typing import TYPE_CHECKING

import numpy as np

from .._result import Result
from ._matplotlib import DATA_COLOUR, colour, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_log_likelihood(result: Result) -> "Figure":
    """Draw log-likelihood, gradient norm and step size over the iterations.

    Grey lines mark where samples were rejected, after which log-likelihoods are those
    of the samples that were kept.

    Parameters
    ----------
    result
        A fit.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    history = result.history
    iterations = np.arange(1, result.n_iter + 1)
    figure, axes = subplots(1, 2, figsize=(9, 3.2))
    left, right = axes[0]
    left.plot(iterations, history.log_likelihood, color=colour(0))
    left.set(xlabel="iteration", ylabel="log-likelihood / (samples x components)")
    for iteration in np.flatnonzero(np.diff(history.n_kept)):
        left.axvline(iteration + 1.5, color=DATA_COLOUR, zorder=0)
    for values, name, h in (
        (history.gradient_norm, "gradient norm", 0),
        (history.learning_rate, "step size", 1),
    ):
        positive = np.where(values > 0, values, np.nan)
        if np.isfinite(positive).any():
            right.semilogy(iterations, positive, color=colour(h), label=name)
    if right.get_lines():
        right.legend(frameon=False)
    right.set(xlabel="iteration")
    return figure
