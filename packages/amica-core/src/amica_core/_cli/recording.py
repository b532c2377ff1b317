"""Recordings as the commands want them: samples, and what MNE knows of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._io.mne import import_mne, mne_samples
from .._read import read_samples

if TYPE_CHECKING:
    import mne


@dataclass(frozen=True)
class Recording:
    """A recording that was read, filtered and picked."""

    path: Path
    """Where it is."""
    X: NDArray
    """Samples by channels."""
    info: "mne.Info | None" = None
    """Of the channels picked; None for a bare array."""
    n_samples_in_file: int | None = None
    """Samples before some were left out; None where the time axis was changed."""

    @property
    def rate(self) -> float | None:
        """Samples a second, where it is known."""
        return None if self.info is None else float(self.info["sfreq"])

    @property
    def aligned(self) -> bool:
        """Whether `X` has every sample of the file."""
        return self.n_samples_in_file == len(self.X)


def read_recording(
    path: Path,
    *,
    highpass: float | None = None,
    resample: float | None = None,
    picks: list[str] | None = None,
) -> Recording:
    """Read a file, filter it, resample it, and pick channels.

    Parameters
    ----------
    path
        `.npy` (samples by channels), or anything that MNE reads; epochs too.
    highpass
        Border of a high-pass filter in Hz.
    resample
        New rate in Hz.
    picks
        Names or types of channels; None for the good EEG channels, or for all good
        data channels if there is no EEG.

    Raises
    ------
    ValueError
        If a bare array should be filtered, resampled or picked from.
    """
    if path.suffix.lower() == ".npy" or not path.is_file():
        for name, value in (("resample", resample), ("picks", picks)):
            if value is not None:
                raise ValueError(f"`--{name}` needs a file that MNE reads, got {path}")
        samples = read_samples(path, highpass)
        return Recording(path, samples.data, None, len(samples.data))
    inst = _read_with_mne(path)
    if highpass is not None:
        inst.filter(highpass, None, verbose="error")
    n_samples = inst.times.size * (len(inst) if hasattr(inst, "events") else 1)
    if resample is not None:
        inst.resample(resample, verbose="error")
    if picks is None and "eeg" in inst.get_channel_types(unique=True):
        picks = ["eeg"]
    X, info = mne_samples(inst, picks=picks)
    return Recording(path, X, info, n_samples if resample is None else None)


def _read_with_mne(path: Path) -> Any:
    mne = import_mne()
    try:
        if path.name.endswith(("-epo.fif", "_epo.fif")):
            return mne.read_epochs(path, verbose="error")
        return mne.io.read_raw(path, preload=True, verbose="error")
    except TypeError as error:
        if path.suffix.lower() == ".set" and "epochs" in str(error):
            return mne.io.read_epochs_eeglab(path, verbose="error")
        raise ValueError(f"{path}: MNE cannot read it ({error})") from error


def advice(X: NDArray) -> tuple[dict[str, Any], list[str]]:
    """Return the facts of samples that decide how a fit goes, and what to do about it.

    Parameters
    ----------
    X
        Samples by channels.
    """
    data = np.asarray(X, dtype=np.float64)
    finite = np.isfinite(data).all(axis=1)
    hints = []
    if not finite.all():
        first = int(np.argmin(finite))
        hints.append(
            f"{np.count_nonzero(~finite)} samples hold NaN or infinity, the first is "
            f"{first}: leave them out or interpolate them"
        )
        data = data[finite]
    variances = np.linalg.eigvalsh(np.cov(data.T, bias=True))[::-1]
    rank = int(np.count_nonzero(variances > 1e-12 * max(variances[0], 1e-300)))
    channels = data.shape[1]
    if rank < channels:
        hints.append(
            f"rank {rank} is below the {channels} channels (average reference, "
            f"interpolation?): {rank} components are fitted"
        )
    per_square = len(data) / rank**2
    if per_square < 20:
        keep = max(2, int((len(data) / 20) ** 0.5))
        hints.append(
            f"{per_square:.0f} samples for each squared component are few (20 to 30 "
            f"are advised): record longer, or keep {keep} components"
        )
    facts = {
        "samples": len(X),
        "channels": channels,
        "rank": rank,
        "samples_per_squared_component": per_square,
        "finite": bool(finite.all()),
        "bytes_sphered": len(X) * rank * 8,
    }
    return facts, hints
