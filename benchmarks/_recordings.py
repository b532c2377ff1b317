"""The real recordings that benchmarks of AMICA read."""

import os
from pathlib import Path

from bench_harness import Unavailable

# EEGLAB's tutorial recording; two runs of PhysioNet's EEG Motor Movement/Imagery
# Dataset, each of which ends with 80 zeros.
FILES = {
    "eeglab": (["eeglab/eeglab_data.set"], None),
    "eegmmidb": (["eegmmidb/S001R04.edf", "eegmmidb/S001R08.edf"], -80),
}


def read_recording(name):
    """Return a recording, high-passed at 1 Hz, `(samples, channels)` in microvolts.

    It lies in the folder that the variable AMICA_DATA names, or in `shared/data/eeg`
    beside the checkout.
    """
    import amica_core
    import numpy as np

    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "eeg"
    folder = Path(os.environ.get("AMICA_DATA", beside))
    files, end = FILES[name]
    parts = []
    for file in files:
        if not (folder / file).is_file():
            raise Unavailable(f"no recording {file}: set AMICA_DATA to its folder")
        try:
            parts.append(amica_core.read_samples(folder / file, high_pass=1.0))
        except ImportError as error:
            raise Unavailable(str(error)) from error
    return np.concatenate([part.data[:end] for part in parts])
