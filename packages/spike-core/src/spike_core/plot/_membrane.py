"""Membrane potentials over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _check
from ._axes import ACCENT, axes, over_time, steps


def membrane(
    v: Any,
    *,
    threshold: float | None = None,
    spikes: Any = None,
    dt: float = 1.0,
    time_axis: int = 0,
    ax: Any = None,
) -> Any:
    """Draw a line for each membrane.

    Parameters
    ----------
    v
        Potentials of one sample, ``[T, neurons]``; NaN leaves a gap.
    threshold
        Where to draw a dashed line; none if None.
    spikes
        Spikes of the same shape, drawn as marks above the lines; none if None.
    dt
        Length of a step in milliseconds.
    time_axis
        Where time is in `v` and `spikes`.
    ax
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        If `v` or `spikes` is not an array or `ax` not axes.
    ValueError
        If `v` is not of one sample, `spikes` has another shape, or `dt` is not
        positive.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    The state of each step, by a scan of one's own:

    >>> import jax, jax.numpy as jnp
    >>> from spike_core import LIF, plot
    >>> lif = LIF(2, tau=5.0)
    >>> def step(state, x):
    ...     state, spikes = lif(state, x)
    ...     return state, (state.v, spikes)
    >>> xs = jnp.full((50, 2), 2, jnp.float32)
    >>> _, (v, spikes) = jax.lax.scan(step, lif.initial_state(), xs)
    >>> ax = plot.membrane(v, threshold=1.0, spikes=spikes)
    >>> len(ax.lines)  # two membranes, the threshold, two rows of spikes
    5
    """
    v = over_time("v", v, time_axis)
    times = steps(len(v), dt)
    if spikes is not None:
        spikes = over_time("spikes", spikes, time_axis)
        if spikes.shape != v.shape:
            raise ValueError(
                f"`spikes` must have the shape {v.shape} of `v`, got {spikes.shape}"
            )
    if threshold is not None:
        _check.number("threshold", threshold)
    ax = axes(ax)
    lines = ax.plot(times, v, linewidth=1)
    if threshold is not None:
        ax.axhline(threshold, color=ACCENT, linestyle="--", linewidth=1)
    if spikes is not None:
        highest = np.nanmax(v) if threshold is None else max(np.nanmax(v), threshold)
        room = 0.04 * (highest - np.nanmin(v) or 1)
        for row, (line, fired) in enumerate(zip(lines, spikes.T, strict=True), start=1):
            at = times[fired != 0]
            level = np.full(at.size, highest + row * room)
            ax.plot(at, level, "|", color=line.get_color(), markersize=6)
    ax.set(xlabel="time (ms)", ylabel="membrane potential")
    return ax
