"""Binned recordings, kept small on the host."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from .. import _check
from ._events import Events, Grid, cells_of, checked, counts_of, grid_of


class Recordings(Protocol):
    """What `bin_recordings` goes through: a list will do."""

    def __len__(self) -> int:
        """Return the number of recordings."""
        ...

    def __iter__(self) -> Iterator[tuple[Events, int]]:
        """Give the events and the label of each."""
        ...


@dataclass(frozen=True, eq=False)
class SpikeData:
    """Spikes and labels of many samples, on the host, eight cells a byte.

    Made by `bin_recordings` or `SpikeData.from_dense`. An index (a slice, an array of
    integers or a mask) selects samples.

    Parameters
    ----------
    values
        Sample first, then step. Bits as `np.packbits` packs the flat channels,
        ``[n, T, ceil(channels / 8)]``, or counts, ``[n, T, *channels]``; uint8.
    labels
        Class of each sample, ``[n]``, int32.
    lengths
        Steps up to the last spike of each sample, at least 1, ``[n]``, int32.
    channels
        Shape of the channels.
    dt
        Length of a step in milliseconds.
    packed
        Whether `values` holds bits.
    n_events
        Events of each recording, ``[n]``.
    n_outside
        Events of each recording that lie outside the window, ``[n]``.
    """

    values: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    lengths: np.ndarray = field(repr=False)
    channels: tuple[int, ...]
    dt: float
    packed: bool
    n_events: np.ndarray = field(repr=False)
    n_outside: np.ndarray = field(repr=False)

    @classmethod
    def from_dense(cls, spikes: Any, labels: Any, *, dt: float = 1.0) -> SpikeData:
        """Pack arrays of zeros and ones.

        Parameters
        ----------
        spikes
            Zeros and ones of any real dtype or bools, ``[n, T, *channels]``, all sizes
            positive.
        labels
            Class of each sample, ``[n]``, integers.
        dt
            Length of a step in milliseconds, positive.

        Returns
        -------
        SpikeData
            The same spikes, packed.

        Raises
        ------
        TypeError
            If labels are not integers.
        ValueError
            If a value is neither 0 nor 1, or shapes do not match.

        Examples
        --------
        >>> import numpy as np
        >>> from spike_core.data import SpikeData
        >>> SpikeData.from_dense(np.eye(3)[:, :, None], labels=[0, 1, 1])
        SpikeData(3 samples, 3 steps of 1 ms, 1 channel, bits)
        """
        spikes = np.asarray(spikes)
        if spikes.ndim < 3 or 0 in spikes.shape:
            raise ValueError(
                "`spikes` must have samples, steps and channels, at least one of each, "
                f"got shape {spikes.shape}"
            )
        bits = spikes != 0
        if not (bits == spikes).all():
            raise ValueError("`spikes` must be zeros and ones")
        _check.number("dt", dt, above=0)
        bits = bits.reshape(*spikes.shape[:2], -1)
        n_events = bits.sum((1, 2))
        return cls(
            values=np.packbits(bits, axis=-1),
            labels=_labels(labels, spikes.shape[0]),
            lengths=_lengths(bits.any(-1)),
            channels=spikes.shape[2:],
            dt=float(dt),
            packed=True,
            n_events=n_events,
            n_outside=np.zeros_like(n_events),
        )

    @property
    def n_steps(self) -> int:
        """Number of steps of every sample."""
        return self.values.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes that the spikes take on the host."""
        return self.values.nbytes

    def dense(self) -> np.ndarray:
        """Return every sample, ``[n, T, *channels]``, uint8."""
        if not self.packed:
            return self.values
        bits = np.unpackbits(self.values, axis=-1, count=int(np.prod(self.channels)))
        return bits.reshape(*self.values.shape[:2], *self.channels)

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, index: Any) -> SpikeData:
        rows = ("values", "labels", "lengths", "n_events", "n_outside")
        if np.ndim(index) != 1 and not isinstance(index, slice):
            raise TypeError(
                "`index` must be a slice, a row of integers or a mask; "
                f"for one sample write data[i : i + 1], got {index!r}"
            )
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = index.astype(np.int64) if index.size == 0 else index
        return replace(self, **{name: getattr(self, name)[index] for name in rows})

    def __repr__(self) -> str:
        total, outside = int(self.n_events.sum()), int(self.n_outside.sum())
        channels = " x ".join(map(str, self.channels))
        parts = [
            f"{len(self)} samples",
            f"{self.n_steps} steps of {self.dt:g} ms",
            f"{channels} channel{'s' * (channels != '1')}",
            "bits" if self.packed else "counts",
        ]
        if outside:
            parts.append(f"{outside} of {total} events outside")
        return f"SpikeData({', '.join(parts)})"


def bin_recordings(
    recordings: Recordings,
    *,
    duration: float,
    n_steps: int,
    n_channels: int | Sequence[int],
    counts: bool = False,
    progress: bool = True,
) -> SpikeData:
    """Put the events of every recording on the same grid of steps.

    The rules are those of `bin_events`: half-open steps, compared in float64; what is
    outside the window is left out and counted, in `SpikeData.n_outside`.

    Parameters
    ----------
    recordings
        Anything with a length that gives ``(events, label)`` when gone through:
        `HDF5Recordings`, `FileRecordings`, or a list of such pairs.
    duration
        Length of the window in milliseconds, positive.
    n_steps
        Number of steps in the window, at least 1.
    n_channels
        Number of channels, or the shape of the sensor.
    counts
        Keep the number of events of a cell, a byte each, and not only whether there
        was one, a bit each.
    progress
        Show a progress bar, if it takes longer than two seconds and tqdm is installed.

    Returns
    -------
    SpikeData
        All recordings, in their order.

    Raises
    ------
    TypeError, ValueError
        As `bin_events` does, with the recording named; and if there are no recordings,
        one is not a pair, or a label is not an integer.

    Warns
    -----
    UserWarning
        If more than half of the events are outside.

    Examples
    --------
    >>> import numpy as np
    >>> from spike_core.data import Events, bin_recordings
    >>> first = Events(times=[1.0, 12.0], channels=np.array([8, 3]))
    >>> second = Events(times=[25.0], channels=np.array([9]))
    >>> recordings = [(first, 0), (second, 1)]
    >>> bin_recordings(recordings, duration=20.0, n_steps=4, n_channels=10)
    SpikeData(2 samples, 4 steps of 5 ms, 10 channels, bits, 1 of 3 events outside)

    What is done to events before they are binned is a list, too. Here two channels are
    merged into one:

    >>> merged = [(Events(e.times, e.channels // 2), label) for e, label in recordings]
    >>> bin_recordings(merged, duration=30.0, n_steps=6, n_channels=5)
    SpikeData(2 samples, 6 steps of 5 ms, 5 channels, bits)
    """
    grid = grid_of(duration, n_steps, n_channels)
    if not hasattr(recordings, "__len__"):
        raise TypeError(
            "`recordings` must have a length, such as a list has, "
            f"got {type(recordings).__name__}"
        )
    n = len(recordings)
    if n == 0:
        raise ValueError("`recordings` must have at least one, got none")
    width = grid.n_cells // grid.n_steps
    row = grid.shape if counts else (-(-width // 8),)
    values = np.empty((n, grid.n_steps, *row), np.uint8)
    labels, lengths = [], np.empty(n, np.int32)
    n_events, n_outside = np.empty(n, np.int64), np.empty(n, np.int64)
    if progress and find_spec("tqdm") is not None:
        from tqdm.auto import tqdm

        recordings = tqdm(recordings, "binning", delay=2, unit=" recordings")
    for i, recording in enumerate(recordings):
        try:
            events, label = recording
            times, channels = checked(events)
            cells = cells_of(times, channels, grid)
            values[i] = counts_of(cells, grid) if counts else _bits_of(cells, grid)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"recording {i}: {error}") from error
        labels.append(label)
        lengths[i] = cells.max(initial=0) // width + 1
        n_events[i], n_outside[i] = times.size, times.size - cells.size
    data = SpikeData(
        values=values,
        labels=_labels(labels, n),
        lengths=lengths,
        channels=grid.shape,
        dt=float(duration) / grid.n_steps,
        packed=not counts,
        n_events=n_events,
        n_outside=n_outside,
    )
    if 2 * n_outside.sum() > n_events.sum():
        warnings.warn(
            f"more than half of the events are outside: {n_outside.sum()} of "
            f"{n_events.sum()}; `duration` is in milliseconds",
            stacklevel=2,
        )
    return data


def _bits_of(cells: np.ndarray, grid: Grid) -> np.ndarray:
    hit = np.zeros(grid.n_cells, np.bool_)
    hit[cells] = True
    return np.packbits(hit.reshape(grid.n_steps, -1), axis=-1)


def _lengths(active: np.ndarray) -> np.ndarray:
    """Return the steps up to the last active one, ``[n, T]`` to ``[n]``."""
    last = active.shape[1] - np.argmax(active[:, ::-1], axis=1)
    return np.where(active.any(1), last, 1).astype(np.int32)


def _labels(labels: Any, n: int) -> np.ndarray:
    labels = np.asarray(labels)
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"`labels` must be integers, got {labels.dtype}")
    if labels.shape != (n,):
        raise ValueError(
            f"`labels` must be one row of {n}, one a sample, got shape {labels.shape}"
        )
    return labels.astype(np.int32)
