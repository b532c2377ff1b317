"""Recordings in the HDF5 layout of the Heidelberg spiking datasets."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._events import Events

_BLOCK = 256  # recordings read at once; a few megabytes


class HDF5Recordings:
    """Recordings in one HDF5 file, as SHD and SSC are published.

    The file holds ``spikes/times`` in seconds and ``spikes/units``, one array each a
    recording, ``labels``, and, if the speakers are known, ``extra/speaker`` and
    ``extra/keys``.

    The file is opened when a recording is first read, anew in each process, so that the
    object can be pickled and shared with workers, and one file is open however many
    recordings are read. Going through all of them reads many at once, which is many
    times as fast as one index after the other.

    Parameters
    ----------
    path
        The file. Nothing is downloaded.

    Attributes
    ----------
    labels : np.ndarray
        Class of each recording, ``[n]``, int32.
    speakers : np.ndarray or None
        Speaker of each recording, ``[n]``, int32; None if the file does not tell.
    classes : tuple of str
        Names of the classes; empty if the file does not tell.

    Raises
    ------
    ImportError
        If h5py is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a whole HDF5 file of this layout.

    References
    ----------
    Cramer et al., *The Heidelberg spiking data sets for the systematic evaluation of
    spiking neural networks* (2020), section II.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path).expanduser().absolute()
        self._opened: tuple[Any, Any] | None = None
        self._process = 0
        self.speakers: np.ndarray | None = None
        self.classes: tuple[str, ...] = ()
        with _open(self.path) as file:
            self._check(file)
            self.labels = file["labels"][:].astype(np.int32)
            if "extra/speaker" in file:
                self.speakers = file["extra/speaker"][:].astype(np.int32)
            if "extra/keys" in file:
                self.classes = tuple(key.decode() for key in file["extra/keys"][:])

    def __len__(self) -> int:
        return self.labels.size

    def __getitem__(self, index: int) -> tuple[Events, int]:
        row = range(len(self))[operator.index(index)]
        return next(self._read(slice(row, row + 1)))

    def __iter__(self) -> Iterator[tuple[Events, int]]:
        for start in range(0, len(self), _BLOCK):
            yield from self._read(slice(start, start + _BLOCK))

    def __repr__(self) -> str:
        return f"HDF5Recordings({str(self.path)!r}, {len(self)} recordings)"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _read(self, rows: slice) -> Iterator[tuple[Events, int]]:
        times, units = self._datasets()
        # Before the first is given away: a consumer may fork or pickle in between.
        block = times[rows], units[rows], self.labels[rows]
        for seconds, channels, label in zip(*block, strict=True):
            # Published times are float16: in float64 the product is exact.
            yield Events(seconds.astype(np.float64) * 1000.0, channels), int(label)

    def _datasets(self) -> tuple[Any, Any]:
        # A forked child closes what it inherited before it opens the file: the two
        # would share one descriptor, and one position in the file, with the parent.
        if self._opened is not None and self._process != os.getpid():
            self._opened[0].file.close()
            self._opened = None
        if self._opened is None:
            file = _open(self.path)
            self._opened = file["spikes/times"], file["spikes/units"]
            self._process = os.getpid()
        return self._opened

    def _check(self, file: Any) -> None:
        names = ("spikes/times", "spikes/units", "labels")
        sizes = {name: file[name].size for name in names if name in file}
        missing = [name for name in names if name not in file]
        if missing:
            raise ValueError(f"{self.path} has no {' and no '.join(missing)}")
        if len(set(sizes.values())) != 1:
            raise ValueError(
                f"{self.path} must have as many times and units as labels, got {sizes}"
            )


def _open(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise ImportError(
            'this needs h5py; install it with pip install "spike-core[data]"'
        ) from None
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(
            f"{path} is not a whole HDF5 file ({error}); unpack or download it again"
        ) from error
