"""Recordings of event cameras, one file each."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from .. import _check
from ._events import Events


class FileRecordings:
    """Recordings of an event camera in one file each.

    Two formats are read, told apart by the ending of the name. ``.bin`` is that of
    N-MNIST: five bytes an event, x, y, one bit of polarity and 23 bits of microseconds.
    ``.npy`` is that in which tonic keeps DVS Gesture: rows of x, y, polarity and
    milliseconds. Files are opened when a recording is read, and closed again.

    Parameters
    ----------
    paths
        The files, in the order of the recordings.
    labels
        Class of each recording, ``[n]``, integers.
    shape
        Rows, columns and polarities of the sensor, such as ``(34, 34, 2)``: the
        `n_channels` to bin with, and the order in which channels are counted.
    groups
        Group of each recording, ``[n]``, integers, such as the person recorded.

    Attributes
    ----------
    labels : np.ndarray
        Class of each recording, ``[n]``, int32.
    groups : np.ndarray or None
        Group of each recording, ``[n]``, int32.
    shape : tuple of int
        Rows, columns and polarities.

    Raises
    ------
    FileNotFoundError
        If a file is not there.
    TypeError
        If labels or groups are not integers.
    ValueError
        If there are no files, labels do not match, or, when a recording is read, the
        file is damaged or its events do not lie on the sensor.

    References
    ----------
    Orchard et al., *Converting static image datasets to spiking neuromorphic datasets
    using saccades* (2015); the format is described with the data set.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from spike_core.data import FileRecordings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "one.bin")
    ...     _ = path.write_bytes(bytes([1, 0, 0x80, 3, 0xE8]))  # x, y, 1, 1000 us
    ...     recordings = FileRecordings([path], labels=[7], shape=(34, 34, 2))
    ...     (times, channels), label = recordings[0]
    >>> times.tolist(), channels.tolist(), label
    ([1.0], [3], 7)
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        labels: ArrayLike,
        *,
        shape: Sequence[int],
        groups: ArrayLike | None = None,
    ):
        if isinstance(paths, str | os.PathLike):
            raise TypeError(f"`paths` must be several files, got only {str(paths)!r}")
        self.paths = tuple(Path(path).expanduser().absolute() for path in paths)
        if not self.paths:
            raise ValueError("`paths` must have at least one file, got none")
        for path in self.paths:
            if path.suffix not in _READERS:
                raise ValueError(f"`paths` must end in .bin or .npy, got {path}")
            if not path.is_file():
                raise FileNotFoundError(f"there is no file {path}")
        self.shape = _check.shape_of("shape", shape)
        if len(self.shape) != 3:
            raise ValueError(
                f"`shape` must be rows, columns and polarities, got {self.shape}"
            )
        self.labels = self._one_each("labels", labels)
        self.groups = None if groups is None else self._one_each("groups", groups)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Events, int]:
        index = operator.index(index)
        path = self.paths[index]
        x, y, polarity, times = _READERS[path.suffix](path)
        for name, values, size in zip(
            ("row", "column", "polarity"), (y, x, polarity), self.shape, strict=True
        ):
            if values.size and (values.min() < 0 or values.max() >= size):
                raise ValueError(
                    f"{path} has {name} {values.min()} to {values.max()}, which is not "
                    f"on a sensor of `shape` {self.shape}"
                )
        channels = np.ravel_multi_index((y, x, polarity), self.shape)
        return Events(times, channels), int(self.labels[index])

    def __iter__(self) -> Iterator[tuple[Events, int]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"FileRecordings({len(self)} files of a sensor {self.shape})"

    def _one_each(self, name: str, values: ArrayLike) -> np.ndarray:
        values = np.asarray(values)
        if not np.issubdtype(values.dtype, np.integer):
            raise TypeError(f"`{name}` must be integers, got {values.dtype}")
        if values.shape != (len(self),):
            raise ValueError(
                f"`{name}` must have one integer a file, {len(self)}, "
                f"got shape {values.shape}"
            )
        return values.astype(np.int32)


def _read_bin(path: Path) -> tuple[np.ndarray, ...]:
    content = np.fromfile(path, np.uint8)
    if content.size % 5:
        raise ValueError(
            f"{path} is damaged: {content.size} bytes, not a multiple of the 5 of "
            "an event"
        )
    x, y, high, middle, low = content.reshape(-1, 5).T.astype(np.int64)
    microseconds = (high & 0x7F) << 16 | middle << 8 | low
    # Row 240 is no event: it says that the clock of the sensor, 13 bits wide, wrapped.
    wrapped = y == 240
    microseconds += np.cumsum(wrapped) << 13
    events = ~wrapped
    return x[events], y[events], high[events] >> 7, microseconds[events] / 1000.0


def _read_npy(path: Path) -> tuple[np.ndarray, ...]:
    try:
        rows = np.load(path)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(
            f"{path} must have rows of x, y, polarity and time, got shape {rows.shape}"
        )
    x, y, polarity = rows[:, :3].T.astype(np.int64)
    return x, y, polarity, rows[:, 3].astype(np.float64)


_READERS = {".bin": _read_bin, ".npy": _read_npy}
