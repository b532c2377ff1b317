"""The published data sets: where their files are, how many, and how to get them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .. import _check
from ._archive import DAMAGED, move_into, staging
from ._files import FileRecordings
from ._hdf5 import HDF5Recordings

CHECKSUMS = {
    "shd_train.h5.zip": "md5:f3252aeb598ac776c1b526422d90eecb",
    "shd_test.h5.zip": "md5:1503a5064faa34311c398fb0a1ed0a6f",
    "ssc_train.h5.zip": "md5:d102be95e7144fcc0553d1f45ba94170",
    "ssc_valid.h5.zip": "md5:b4eee3516a4a90dd0c71a6ac23a8ae43",
    "ssc_test.h5.zip": "md5:a35ff1e9cffdd02a20eb850c17c37748",
    "n-mnist/train.zip": "md5:20959b8e626244a1b502305a9e6e2031",
    "n-mnist/test.zip": "md5:69ca8762b2fe404d9b9bad1103e97832",
    "ibmGestureTrain.tar.gz": "md5:3a8f0d4120a166bac7591f77409cb105",
    "ibmGestureTest.tar.gz": "md5:56070e45dadaa85fff82e0fbfbc06de5",
}
"""Checksums of the archives, as published, for `unpack`."""


def shd(
    folder: str | os.PathLike[str], split: str, *, download: bool = False
) -> HDF5Recordings:
    """Open the Spiking Heidelberg Digits: 20 spoken digits, 700 channels.

    Recordings last up to about 1.4 s; published results bin the first 1.0 or 1.4 s,
    ``duration=1400.0, n_channels=700``.

    Parameters
    ----------
    folder
        The folder with ``shd_train.h5`` and ``shd_test.h5``.
    split
        ``"train"`` (8156 recordings) or ``"test"`` (2264).
    download
        Fetch the file through tonic if the folder does not have it. It is verified, and
        appears in the folder when it is complete.

    Returns
    -------
    HDF5Recordings
        The recordings of this split.

    Raises
    ------
    FileNotFoundError
        If the file is not there and `download` is not asked for.
    ImportError
        If h5py, or for a download tonic, is not installed.
    OSError
        If the download fails; nothing of it is kept.
    ValueError
        If the file is not whole, or does not have as many recordings as published.

    References
    ----------
    Cramer et al., *The Heidelberg spiking data sets for the systematic evaluation of
    spiking neural networks* (2020).
    """
    return _heidelberg("SHD", folder, split, {"train": 8156, "test": 2264}, download)


def ssc(
    folder: str | os.PathLike[str], split: str, *, download: bool = False
) -> HDF5Recordings:
    """Open the Spiking Speech Commands: 35 spoken words, 700 channels.

    Recordings last about 1 s: ``duration=1000.0, n_channels=700``.

    Parameters
    ----------
    folder
        The folder with ``ssc_train.h5``, ``ssc_valid.h5`` and ``ssc_test.h5``.
    split
        ``"train"`` (75466 recordings), ``"valid"`` (9981) or ``"test"`` (20382).
    download
        As `shd` does.

    Returns
    -------
    HDF5Recordings
        The recordings of this split.

    Raises
    ------
    FileNotFoundError, ImportError, OSError, ValueError
        As `shd` does.

    References
    ----------
    Cramer et al., *The Heidelberg spiking data sets for the systematic evaluation of
    spiking neural networks* (2020).
    """
    sizes = {"train": 75466, "valid": 9981, "test": 20382}
    return _heidelberg("SSC", folder, split, sizes, download)


def nmnist(
    folder: str | os.PathLike[str], split: str, *, download: bool = False
) -> FileRecordings:
    """Open N-MNIST: handwritten digits seen by a moving event camera, 34 x 34 x 2.

    Recordings last a little over 300 ms: ``duration=300.0, n_channels=(34, 34, 2)``.

    Parameters
    ----------
    folder
        The folder with ``Train/0/*.bin`` to ``Train/9/*.bin``, and ``Test`` likewise.
    split
        ``"train"`` (60000 recordings) or ``"test"`` (10000).
    download
        As `shd` does.

    Returns
    -------
    FileRecordings
        The recordings of this split. For a part of them, give `FileRecordings` the
        files.

    Raises
    ------
    FileNotFoundError, ImportError, OSError, ValueError
        As `shd` does.

    References
    ----------
    Orchard et al., *Converting static image datasets to spiking neuromorphic datasets
    using saccades* (2015).
    """
    sizes = {"train": 60000, "test": 10000}
    _check.one_of("split", split, sizes)
    top = _find("NMNIST", folder, split, split.capitalize(), download)
    paths = sorted(top.glob("[0-9]/*.bin"))
    _complete("N-MNIST", split, top, len(paths), sizes)
    labels = [int(path.parent.name) for path in paths]
    return FileRecordings(paths, labels, shape=(34, 34, 2))


def dvs_gesture(
    folder: str | os.PathLike[str], split: str, *, download: bool = False
) -> FileRecordings:
    """Open DVS Gesture as tonic has cut it: 11 gestures, 128 x 128 x 2.

    Recordings last about 6 s, in whole milliseconds. `FileRecordings.groups` is the
    person recorded.

    Parameters
    ----------
    folder
        The folder with ``ibmGestureTrain/user*/*.npy`` and ``ibmGestureTest``.
    split
        ``"train"`` (1077 recordings) or ``"test"`` (264).
    download
        As `shd` does.

    Returns
    -------
    FileRecordings
        The recordings of this split.

    Raises
    ------
    FileNotFoundError, ImportError, OSError, ValueError
        As `shd` does.

    References
    ----------
    Amir et al., *A low power, fully event-based gesture recognition system* (2017).
    """
    sizes = {"train": 1077, "test": 264}
    _check.one_of("split", split, sizes)
    name = f"ibmGesture{split.capitalize()}"
    top = _find("DVSGesture", folder, split, name, download)
    paths = sorted(top.glob("user*_*/*.npy"))
    _complete("DVS Gesture", split, top, len(paths), sizes)
    return FileRecordings(
        paths,
        labels=[int(path.stem) for path in paths],
        groups=[int(path.parent.name[4:].split("_")[0]) for path in paths],
        shape=(128, 128, 2),
    )


def _heidelberg(name, folder, split, sizes, download) -> HDF5Recordings:
    _check.one_of("split", split, sizes)
    file = _find(name, folder, split, f"{name.lower()}_{split}.h5", download)
    recordings = HDF5Recordings(file)
    _complete(name, split, file, len(recordings), sizes)
    return recordings


def _find(name: str, folder: Any, split: str, entry: str, download: bool) -> Path:
    path = Path(folder).expanduser() / entry
    if not path.exists():
        if not download:
            raise FileNotFoundError(
                f"there is no {path}; unpack the published archive there with "
                "`spike_core.data.unpack`, or say `download=True`"
            )
        _download(name, path, split)
    return path


def _complete(name: str, split: str, path: Path, found: int, sizes: dict) -> None:
    if found != sizes[split]:
        raise ValueError(
            f"{path} has {found} of the {sizes[split]} recordings of {name}, {split}; "
            "remove it and unpack it again"
        )


def _download(name: str, path: Path, split: str) -> None:
    try:
        import tonic
    except ImportError:
        raise ImportError(
            'a download needs tonic; install it with pip install "spike-core[data]"'
        ) from None
    which = {"split": split} if name == "SSC" else {"train": split == "train"}
    # tonic writes under the final name from the start, and later takes a part for the
    # whole. In a folder of its own that does no harm.
    with staging(path.parent) as stage:
        try:
            getattr(tonic.datasets, name)(save_to=str(stage), **which)
        except (*DAMAGED, RuntimeError) as error:
            raise OSError(
                f"the download of {path.name} failed ({error}); nothing of it was kept"
            ) from error
        move_into(path.parent, [stage / name / path.name])
