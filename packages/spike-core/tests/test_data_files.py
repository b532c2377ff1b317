"""Readers, on real recordings where they are at hand and on small files made here."""

import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from spike_core.data import HDF5Recordings, bin_recordings, split_by_group

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

SHARED = Path(__file__).parents[4] / "shared" / "data"
DIGITS = SHARED / "spoken_digits" / "fsdd_spikes_140ch_test.h5"
shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the recordings (shared/data) are not at hand"
)


def write_hdf5(path, n=5, *, leave_out=(), extra=True):
    """Write a file of the published layout; recording i has i + 1 events of unit i."""
    with h5py.File(path, "w") as file:
        kinds = {"times": np.float16, "units": np.uint16}
        rows = (
            [np.arange(i + 1) / 8 for i in range(n)],
            [[i] * (i + 1) for i in range(n)],
        )
        for (name, kind), values in zip(kinds.items(), rows, strict=True):
            if f"spikes/{name}" not in leave_out:
                data = file.create_dataset(
                    f"spikes/{name}", (n,), h5py.vlen_dtype(np.dtype(kind))
                )
                for i, row in enumerate(values):
                    data[i] = np.asarray(row, kind)
        file["labels"] = np.arange(n, dtype=np.uint16)
        if extra:
            file["extra/speaker"] = np.arange(n, dtype=np.uint16) % 2
            file["extra/keys"] = np.array([b"zero", b"one"])
    return path


def test_reads_hdf5(tmp_path):
    recordings = HDF5Recordings(write_hdf5(tmp_path / "small.h5"))
    assert len(recordings) == 5 and recordings.classes == ("zero", "one")
    assert recordings.speakers.tolist() == [0, 1, 0, 1, 0]
    (times, channels), label = recordings[2]
    assert times.dtype == np.float64 and times.tolist() == [0.0, 125.0, 250.0]
    assert channels.tolist() == [2, 2, 2] and label == 2
    assert recordings[-1][1] == 4
    assert [label for _, label in recordings] == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError):
        recordings[5]
    with pytest.raises(TypeError):
        recordings[1.0]
    plain = HDF5Recordings(write_hdf5(tmp_path / "plain.h5", extra=False))
    assert plain.speakers is None and plain.classes == ()


def test_refuses_what_is_not_the_layout(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*absent\.h5"):
        HDF5Recordings(tmp_path / "absent.h5")
    with pytest.raises(FileNotFoundError):
        HDF5Recordings(tmp_path)
    path = write_hdf5(tmp_path / "a.h5", leave_out=["spikes/units"])
    with pytest.raises(ValueError, match=r"has no spikes/units"):
        HDF5Recordings(path)
    with h5py.File(path, "r+") as file:
        file["spikes/units"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"as many times and units as labels"):
        HDF5Recordings(path)
    whole = write_hdf5(tmp_path / "whole.h5").read_bytes()
    for content in (whole[: len(whole) // 2], b"PK\x03\x04 an archive", b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a whole HDF5 file.*again"):
            HDF5Recordings(path)


def test_workers_open_the_file_themselves(tmp_path, monkeypatch):
    path = write_hdf5(tmp_path / "small.h5", 300)
    recordings = HDF5Recordings(path)
    assert recordings[3][1] == 3
    copy = pickle.loads(pickle.dumps(recordings))
    assert recordings._opened is not None and copy._opened is None
    for (a, i), (b, j) in zip(recordings, copy, strict=True):
        np.testing.assert_array_equal(a.times, b.times)
        assert i == j
    # What a forked child sees: an open handle and another process. A fork proper would
    # lose the threads of JAX here.
    inherited = recordings._opened
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert recordings[299][1] == 299
    assert not inherited[0] and recordings._process == -1


@shared
def test_spoken_digits_end_where_exact_arithmetic_puts_them():
    recordings = HDF5Recordings(DIGITS)
    assert len(recordings) == 1000 and recordings.classes[3] == "three"
    n_steps, duration = 700, 1400
    grid = {"duration": float(duration), "n_steps": n_steps, "n_channels": 140}
    data = bin_recordings(recordings, **grid)
    narrow_wrong = cells = 0
    with h5py.File(DIGITS) as file:
        for i in range(0, 1000, 40):
            seconds, units = file["spikes/times"][i], file["spikes/units"][i]
            steps = np.array(
                [Fraction(float(t)) * 1000 * n_steps // duration for t in seconds], int
            )
            inside = steps < n_steps
            want = np.zeros((n_steps, 140), bool)
            want[steps[inside], units[inside]] = True
            np.testing.assert_array_equal(data[i : i + 1].dense()[0], want)
            assert data.n_outside[i] == (~inside).sum()
            assert data.lengths[i] == steps[inside].max() + 1
            narrow = seconds / np.float16(duration / 1000) * np.float16(n_steps)
            inside &= narrow < n_steps
            narrow = narrow[inside].astype(int)
            narrow_wrong += (~want[narrow, units[inside]]).sum()
            cells += want.sum()
    assert narrow_wrong > 0  # in float16 some would not
    assert data.n_outside.sum() > 0 and "events outside" in repr(data)
    assert data.nbytes == 1000 * 700 * 18
    train, test = split_by_group(recordings.speakers, 5)
    assert set(recordings.speakers[train]) == {4} and train.size + test.size == 1000
