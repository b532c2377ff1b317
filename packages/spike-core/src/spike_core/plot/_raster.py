"""Spikes as marks over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._axes import COLOR, axes, over_time, steps


def raster(spikes: Any, *, dt: float = 1.0, time_axis: int = 0, ax: Any = None) -> Any:
    """Draw a mark for each spike.

    Parameters
    ----------
    spikes
        Spikes of one sample, ``[T, neurons]``: whatever is not zero.
    dt
        Length of a step in milliseconds.
    time_axis
        Where time is in `spikes`.
    ax
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        If `spikes` is not an array or `ax` not axes.
    ValueError
        If `spikes` is not of one sample, is empty or has NaN, or `dt` is not positive.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from spike_core import plot
    >>> ax = plot.raster(np.eye(5), dt=2.0)
    >>> ax.get_xlabel(), ax.lines[0].get_xdata().tolist()
    ('time (ms)', [0.0, 2.0, 4.0, 6.0, 8.0])
    """
    spikes = over_time("spikes", spikes, time_axis)
    if np.isnan(spikes).any():
        raise ValueError("`spikes` must be numbers, got nan")
    times = steps(len(spikes), dt)
    ax = axes(ax)
    step, neuron = np.nonzero(spikes)
    height = ax.bbox.height * 72 / ax.figure.dpi  # in points
    size = float(np.clip(height / spikes.shape[1], 1, 12))
    ax.plot(times[step], neuron, "|", color=COLOR, markersize=size, rasterized=True)
    ax.set(
        xlabel="time (ms)",
        ylabel="neuron",
        xlim=(-dt / 2, times[-1] + dt / 2),
        ylim=(-0.5, spikes.shape[1] - 0.5),
    )
    return ax
