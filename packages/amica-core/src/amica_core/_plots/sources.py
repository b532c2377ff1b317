"""What the components do over time, and at which frequencies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.signal
from numpy.typing import ArrayLike

from .._result import Result
from ._matplotlib import (
    check_components,
    check_model,
    check_samples,
    colour,
    seconds,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_sources(
    result: Result,
    X: ArrayLike,
    rate: float | None = None,
    *,
    model: int = 0,
    components: Sequence[int] | None = None,
    start: int = 0,
    n_samples: int = 1000,
) -> "Figure":
    """Draw a stretch of the sources, and their power spectra over all samples.

    Parameters
    ----------
    result
        A fit.
    X
        Samples, shape `(samples, channels)`.
    rate
        Samples a second; None for axes in samples.
    model
        Which model, counted from 0.
    components
        Which components, counted from 0; None for the first 10.
    start, n_samples
        Stretch of the time courses.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `X` has other channels than the fit, or there is no such model or component.
    """
    check_model(result, model)
    shown = check_components(result, components, 10)
    X = check_samples(result, X)
    sources = result.sources(X, model)[:, shown]
    sources = sources / sources.std(axis=0)
    times, label = seconds(len(X), rate)
    figure, axes = subplots(
        1, 2, figsize=(11, 1 + 0.5 * len(shown)), width_ratios=[2, 1]
    )
    left, right = axes[0]
    stretch = slice(start, start + n_samples)
    step = 7.0  # standard deviations between traces
    offsets = -step * np.arange(len(shown))
    left.plot(times[stretch], sources[stretch] + offsets, lw=0.7, color=colour(model))
    left.set_yticks(offsets, [f"IC{i:03d}" for i in shown])
    left.set(xlabel=label)
    left.margins(x=0)
    segment = min(len(X), 512)
    frequencies, power = scipy.signal.welch(
        sources, fs=rate or 1.0, nperseg=segment, axis=0
    )
    decibels = 10 * np.log10(np.maximum(power[1:], np.finfo(float).tiny))
    right.plot(frequencies[1:], decibels, lw=0.8)
    right.set(
        xlabel="frequency in Hz" if rate else "frequency in cycles a sample",
        ylabel="power of the standardised source in dB",
    )
    right.margins(x=0)
    return figure
