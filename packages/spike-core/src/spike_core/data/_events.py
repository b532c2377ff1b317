"""Events of a sensor, and their place on a grid of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import _check


class Events(NamedTuple):
    """Events of one recording.

    Parameters
    ----------
    times
        Milliseconds from the start of the recording, ``[n]``, in any order.
    channels
        Index of the channel of each event, ``[n]``, integers. Where the sensor has more
        than one axis, the index counts its cells in row-major order.
    """

    times: np.ndarray
    channels: np.ndarray


class Grid(NamedTuple):
    """Steps by channels, the cells that events are counted in."""

    edges: np.ndarray
    shape: tuple[int, ...]

    @property
    def n_steps(self) -> int:
        return self.edges.size - 1

    @property
    def n_cells(self) -> int:
        return self.n_steps * int(np.prod(self.shape))


def bin_events(
    events: Events,
    *,
    duration: float,
    n_steps: int,
    n_channels: int | Sequence[int],
) -> tuple[np.ndarray, int]:
    r"""Count the events in each step and channel.

    Step $k$ holds the times $t$ with $k D / T \le t < (k + 1) D / T$, for the duration
    $D$ and $T$ steps. An event at $D$ or later, before zero, or of a channel that is
    not there, is counted as outside and is not moved into the grid.

    Parameters
    ----------
    events
        Times in milliseconds and channels. Times of any real dtype are compared in
        float64, so that float16 or whole microseconds end where exact arithmetic
        puts them.
    duration
        Length of the window in milliseconds, positive.
    n_steps
        Number of steps in the window, at least 1. A step lasts ``duration / n_steps``.
    n_channels
        Number of channels, or the shape of the sensor.

    Returns
    -------
    tuple[np.ndarray, int]
        Counts, uint8, ``[n_steps, *n_channels]``, and the number of events outside.

    Raises
    ------
    TypeError
        If times are not real numbers or channels not integers.
    ValueError
        If a time is not finite, the two arrays do not match, an argument is out of
        range, or a cell holds more than 255 events.

    Examples
    --------
    >>> from spike_core.data import Events, bin_events
    >>> events = Events(times=[0.0, 4.9, 5.0, 10.0], channels=[0, 0, 1, 1])
    >>> counts, outside = bin_events(events, duration=10.0, n_steps=2, n_channels=2)
    >>> counts.tolist(), outside
    ([[2, 0], [0, 1]], 1)
    """
    grid = grid_of(duration, n_steps, n_channels)
    times, channels = checked(events)
    cells = cells_of(times, channels, grid)
    return counts_of(cells, grid), times.size - cells.size


def grid_of(duration: float, n_steps: int, n_channels: int | Sequence[int]) -> Grid:
    """Check what a user says of the grid."""
    _check.number("duration", duration, above=0)
    if np.ndim(duration) != 0 or isinstance(duration, str):
        raise ValueError(f"`duration` must be one number, got {duration!r}")
    n_steps = _check.whole("n_steps", n_steps, least=1)
    # Multiplied before it is divided: each edge is then the float64 nearest to the
    # exact one, and comparing with it is exact for times of whole microseconds.
    edges = np.arange(n_steps + 1) * float(duration) / n_steps
    return Grid(edges, _check.shape_of("n_channels", n_channels))


def checked(events: Events) -> tuple[np.ndarray, np.ndarray]:
    """Return times as float64 and channels as integers, or say what is wrong."""
    if not isinstance(events, tuple | list) or len(events) != 2:
        raise TypeError(
            "`events` must be a pair (times, channels), such as `Events`, "
            f"got {type(events).__name__}"
        )
    times, channels = _times(events[0]), np.asarray(events[1])
    if channels.size == 0:
        channels = channels.astype(np.int64)  # an empty list is floating
    if not np.issubdtype(channels.dtype, np.integer):
        raise TypeError(f"`events.channels` must be integers, got {channels.dtype}")
    if times.ndim != 1 or channels.shape != times.shape:
        raise ValueError(
            "`events.times` and `events.channels` must be one row each, of the same "
            f"length, got shapes {times.shape} and {channels.shape}"
        )
    return times, channels


def cells_of(times: np.ndarray, channels: np.ndarray, grid: Grid) -> np.ndarray:
    """Return the flat index of the cell of each event that is inside."""
    steps = np.searchsorted(grid.edges, times, side="right") - 1
    width = grid.n_cells // grid.n_steps
    inside = (steps >= 0) & (steps < grid.n_steps) & (channels < width)
    inside &= channels >= 0
    return steps[inside] * width + channels[inside].astype(np.int64)


def counts_of(cells: np.ndarray, grid: Grid) -> np.ndarray:
    """Count the events in each cell."""
    counts = np.bincount(cells, minlength=grid.n_cells)
    if counts.max() > 255:
        raise ValueError(
            f"a cell holds {counts.max()} events, more than the 255 that uint8 holds; "
            "take a larger `n_steps`, or keep whether there was an event"
        )
    return counts.astype(np.uint8).reshape(grid.n_steps, *grid.shape)


def _times(times: ArrayLike) -> np.ndarray:
    times = np.asarray(times)
    real = np.issubdtype(times.dtype, np.floating)
    if not real and not np.issubdtype(times.dtype, np.integer):
        raise TypeError(f"`events.times` must be real numbers, got {times.dtype}")
    times = times.astype(np.float64)
    if not np.isfinite(times).all():
        raise ValueError(
            f"`events.times` must be finite, got {times[~np.isfinite(times)].flat[0]}"
        )
    return times
