"""Which model rules when, and which samples none of them explains."""

from typing import TYPE_CHECKING

import numpy as np
import scipy.ndimage
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from .._result import Result
from ._matplotlib import check_samples, colour, seconds, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_posteriors(
    result: Result, X: ArrayLike, rate: float | None = None, *, smooth: float = 1.0
) -> "Figure":
    """Draw the posterior of each model over time, stacked.

    Parameters
    ----------
    result
        A fit.
    X
        Samples, shape `(samples, channels)`.
    rate
        Samples a second; None for an axis in samples.
    smooth
        Seconds (or hundreds of samples) over which log-likelihoods are averaged first.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `X` has other channels than the fit.
    """
    X = check_samples(result, X)
    joint = result.joint_log_likelihood(X)
    width = max(1, round(smooth * (rate or 100.0)))
    joint = scipy.ndimage.uniform_filter1d(joint, width, axis=0)
    posterior = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    times, label = seconds(len(X), rate)
    figure, axes = subplots(figsize=(9, 2.2))
    ax = axes[0, 0]
    step = max(1, len(X) // 4000)  # more points than pixels show nothing
    M = posterior.shape[1]
    ax.stackplot(
        times[::step],
        posterior[::step].T,
        colors=[colour(h) for h in range(M)],
        labels=[f"model {h + 1}" for h in range(M)],
    )
    ax.set(xlabel=label, ylabel="posterior", ylim=(0, 1))
    ax.margins(x=0)
    ax.legend(loc="upper right", fontsize=8)
    return figure


def plot_rejected(result: Result, X: ArrayLike, rate: float | None = None) -> "Figure":
    """Draw the log-likelihood of every sample and mark those that were rejected.

    Parameters
    ----------
    result
        A fit of these samples.
    X
        Samples, shape `(samples, channels)`.
    rate
        Samples a second; None for an axis in samples.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `X` are not the samples of the fit.
    """
    X = check_samples(result, X)
    kept = result.kept
    if len(X) != len(kept):
        raise ValueError(
            f"`X` must have the {len(kept)} samples of the fit, got {len(X)}"
        )
    values = logsumexp(result.joint_log_likelihood(X), axis=1)
    values /= result.model.n_components
    times, label = seconds(len(X), rate)
    figure, axes = subplots(figsize=(9, 2.4))
    ax = axes[0, 0]
    ax.plot(times, np.where(kept, values, np.nan), lw=0.5, color=colour(0))
    ax.plot(times[~kept], values[~kept], ".", ms=3, color=colour(1),
            label=f"{np.count_nonzero(~kept)} rejected")  # fmt: skip
    ax.set(xlabel=label, ylabel="log-likelihood / components")
    ax.margins(x=0)
    ax.legend(loc="lower right", fontsize=8)
    return figure
