"""Fits in every form that the commands read and write."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .._io.amicaout import read_amicaout, write_amicaout
from .._io.conversion import from_amicaout, to_amicaout
from .._io.eeglab import read_eeglab, write_eeglab
from .._io.mne import from_mne, import_mne, to_mne
from .._io.parameters import read_parameter_file
from .._result import Result
from .._statistics import Density
from .._storage import load_result, save_result

if TYPE_CHECKING:
    from .recording import Recording


def read_fit(path: Path) -> Result:
    """Read an archive, an output directory, a `.set` file or an ICA of MNE.

    Parameters
    ----------
    path
        What to read: `.npz`, a directory, `.set`, or `.fif`.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    ValueError
        If it is no fit.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no {str(path)!r}")
    if path.is_dir():
        density, n_samples = Density.GENERALIZED_GAUSSIAN, None
        if (path / "input.param").exists():
            parameters = read_parameter_file(path / "input.param")
            density, n_samples = Density(parameters["pdftype"]), parameters.n_samples
        output = read_amicaout(path)
        return from_amicaout(output, density=density, n_samples=n_samples).sorted()
    suffix = path.suffix.lower()
    if suffix == ".set":
        return read_eeglab(path)
    if suffix == ".fif":
        ica = import_mne().preprocessing.read_ica(path, verbose="error")
        return from_mne(ica).sorted()
    if suffix == ".npz":
        return load_result(path).sorted()
    raise ValueError(
        f"{str(path)!r} is no fit, which is an .npz, .set or .fif file or a directory"
    )


def check_output(path: Path, recording: Path, overwrite: bool) -> None:
    """Raise before a long fit if its result could not be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"`--output`: there is no folder {folder}")
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".set", ".fif", ""):
        raise ValueError(
            "`--output` must end in .npz, .set or .fif, or be a directory, got "
            f"{path.name!r}"
        )
    if suffix == ".set" and recording.suffix.lower() != ".set":
        raise ValueError(
            f"`--output` {path.name} needs a recording that is a .set file itself, got "
            f"{recording.name}"
        )
    if suffix == ".fif" and recording.suffix.lower() == ".npy":
        raise ValueError(f"`--output` {path.name} needs channels, which .npy has not")
    taken = path / "W" if path.is_dir() else path
    if taken.exists() and not overwrite:
        raise FileExistsError(
            f"`--output` {path} exists; pass `--overwrite` to replace it"
        )


def write_fit(result: Result, path: Path, recording: "Recording") -> list[Path]:
    """Write a fit in the form that `path` names; return what was written.

    Parameters
    ----------
    result
        A fit of `recording`.
    path
        `.npz`, `.set`, `.fif` (one ICA a model), or a directory.
    recording
        What was fitted.
    """
    suffix = path.suffix.lower()
    if suffix == ".npz":
        save_result(result, path)
    elif suffix == ".set":
        assert recording.info is not None
        write_eeglab(
            result,
            recording.path,
            path,
            X=recording.X if recording.aligned else None,
            channels=recording.info["ch_names"],
            overwrite=True,
        )
    elif suffix == ".fif":
        assert recording.info is not None
        written = []
        for h in range(result.model.n_models):
            name = path if h == 0 else path.with_name(_numbered(path.name, h + 1))
            ica = to_mne(result, recording.info, h)
            ica.save(name, overwrite=True, verbose="error")
            written.append(name)
        return written
    else:
        output = to_amicaout(result, recording.X)
        write_amicaout(output, path, overwrite=True)
    return [path]


def _numbered(name: str, number: int) -> str:
    """Put a number before the ending that MNE wants, `-ica.fif`."""
    stem, ending = os.path.splitext(name)
    for mark in ("-ica", "_ica"):
        if stem.endswith(mark):
            stem, ending = stem[: -len(mark)], mark + ending
    return f"{stem}-{number}{ending}"
