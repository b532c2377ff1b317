"""Recordings from files, as samples by channels."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MNE_READERS = {
    ".set": "read_raw_eeglab",
    ".edf": "read_raw_edf",
    ".bdf": "read_raw_bdf",
    ".vhdr": "read_raw_brainvision",
    ".fif": "read_raw_fif",
}
_MICROVOLTS = 1e6


class Samples(NamedTuple):
    """A recording."""

    data: NDArray
    """Shape `(samples, channels)`; EEG in microvolts."""
    channels: list[str]
    """Channel names; empty where the file has none."""
    rate: float | None
    """Samples a second; None where the file does not say."""


def read_samples(
    path: str | os.PathLike[str], high_pass: float | None = None
) -> Samples:
    """Read a recording.

    Parameters
    ----------
    path
        `.npy` (samples by channels, mapped into memory), or `.set`, `.edf`, `.bdf`,
        `.vhdr` or `.fif`, which MNE reads: EEG channels that are not marked bad (all
        data channels if there is no EEG).
    high_pass
        Border of a high-pass filter in Hz; None for no filter.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If MNE is needed and missing.
    ValueError
        If the kind of file is not known, or cannot be filtered.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a file, found none at {path}")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        if high_pass is not None:
            raise ValueError(
                "`high_pass` needs a sampling rate, which .npy files do not hold"
            )
        return Samples(np.load(path, mmap_mode="r"), [], None)
    if suffix not in _MNE_READERS:
        known = ", ".join([".npy", *_MNE_READERS])
        raise ValueError(f"`path` must end in one of {known}, got {path.name!r}")
    return _read_with_mne(path, _MNE_READERS[suffix], high_pass)


def _read_with_mne(path: Path, reader: str, high_pass: float | None) -> Samples:
    try:
        import mne
    except ModuleNotFoundError as error:
        raise ImportError(
            f"reading {path.suffix} files needs MNE; install it with "
            '`pip install "amica-core[mne]"`'
        ) from error
    raw: Any = getattr(mne.io, reader)(path, preload=True, verbose="error")
    has_eeg = "eeg" in raw.get_channel_types(unique=True)
    raw.pick("eeg" if has_eeg else "data", exclude="bads", verbose="error")
    if high_pass is not None:
        raw.filter(high_pass, None, verbose="error")
    scale = _MICROVOLTS if has_eeg else 1.0
    return Samples(raw.get_data().T * scale, list(raw.ch_names), raw.info["sfreq"])
