"""Readers, on real recordings where they are at hand and on small files made here."""

import functools
import gzip
import hashlib
import http.server
import os
import pickle
import shutil
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from spike_core.data import (
    FileRecordings,
    HDF5Recordings,
    bin_recordings,
    dvs_gesture,
    nmnist,
    shd,
    split_by_group,
    ssc,
    unpack,
    verify,
)

h5py = pytest.importorskip("h5py", reason="h5py is not installed")

RNG = np.random.default_rng(0)
SHARED = Path(__file__).parents[4] / "shared" / "data"
DIGITS = SHARED / "spoken_digits" / "fsdd_spikes_140ch_test.h5"
shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the recordings (shared/data) are not at hand"
)


def write_hdf5(path, n=5, *, leave_out=(), extra=True, ragged=True):
    """Write a file of the published layout; recording i has i + 1 events of unit i."""
    sizes = [i + 1 if ragged else 1 for i in range(n)]
    spikes = {
        "times": [np.arange(size, dtype=np.float16) / 8 for size in sizes],
        "units": [np.full(size, i, np.uint16) for i, size in enumerate(sizes)],
    }
    with h5py.File(path, "w") as file:
        for name, rows in spikes.items():
            if f"spikes/{name}" not in leave_out:
                kind = h5py.vlen_dtype(rows[0].dtype)
                data = file.create_dataset(f"spikes/{name}", (n,), kind)
                for i, row in enumerate(rows):
                    data[i] = row
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
def test_spoken_digits_are_what_was_published():
    lines = (SHARED / "SHA256SUMS").read_text().splitlines()
    (digits,) = (line.split()[0] for line in lines if line.endswith(DIGITS.name))
    verify(DIGITS, f"sha256:{digits}")
    with pytest.raises(ValueError, match=r"140ch_test\.h5 is not the file that was"):
        verify(DIGITS, f"sha256:{digits[::-1]}")


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


# ---- archives


def make_archive(folder, kind):
    """Return an archive with two entries, and its checksum."""
    (folder / "source" / "Train").mkdir(parents=True)
    (folder / "source" / "Train" / "0.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "source" / "labels.txt").write_text("0 1 2")
    path = Path(shutil.make_archive(folder / "archive", kind, folder / "source"))
    return path, "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "xztar"])
def test_unpacks_what_the_checksum_admits(tmp_path, kind):
    path, checksum = make_archive(tmp_path, kind)
    made = unpack(path, tmp_path / "a" / "b", checksum=checksum)
    assert [p.name for p in made] == ["Train", "labels.txt"]
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == [
        "Train",
        "labels.txt",
    ]
    assert (made[0] / "0.bin").stat().st_size == 256 * 40
    with pytest.raises(FileExistsError, match="Train is already there"):
        unpack(path, tmp_path / "a" / "b")


def test_unpacks_one_compressed_file(tmp_path):
    path = tmp_path / "shd_test.h5.gz"
    path.write_bytes(gzip.compress(b"content"))
    (made,) = unpack(path, tmp_path)
    assert made == tmp_path / "shd_test.h5" and made.read_bytes() == b"content"


@pytest.mark.parametrize("kind", ["zip", "gztar", "xztar", "gz"])
@pytest.mark.parametrize("checked", [True, False])
def test_refuses_a_truncated_archive_and_leaves_nothing(tmp_path, kind, checked):
    if kind == "gz":
        path, content = tmp_path / "a.h5.gz", gzip.compress(os.urandom(5000))
    else:
        path = make_archive(tmp_path, kind)[0]
        content = path.read_bytes()
    checksum = "md5:" + hashlib.md5(content).hexdigest() if checked else None
    path.write_bytes(content[: len(content) * 2 // 3])
    (tmp_path / "mine").mkdir()
    message = "not all of it: its md5" if checked else "download it again"
    for folder in (tmp_path / "mine", tmp_path / "new" / "folder"):
        with pytest.raises(ValueError, match=message):
            unpack(path, folder, checksum=checksum)
    assert list((tmp_path / "mine").iterdir()) == []
    assert not (tmp_path / "new").exists()


def test_refuses_bad_arguments_of_unpack(tmp_path):
    path, checksum = make_archive(tmp_path, "zip")
    for sums in (None, checksum):
        with pytest.raises(FileNotFoundError, match=r"no file .*absent"):
            unpack(tmp_path / "absent.zip", tmp_path / "new", checksum=sums)
    wrong_ones = ("1503a5064faa34311c398fb0a1ed0a6f", "sha1:00", "md5:00", "sha256", 1)
    for wrong in (*wrong_ones, "md5:" + 32 * "z"):
        with pytest.raises(ValueError, match="`checksum` must be"):
            unpack(path, tmp_path / "new", checksum=wrong)
    (tmp_path / "text.zip").write_text("not an archive")
    with pytest.raises(ValueError, match=r"not a whole \.zip, \.tar or \.gz"):
        unpack(tmp_path / "text.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert unpack(path, tmp_path / "new", checksum=checksum)


# ---- one file a recording


def bin_event(x, y, polarity, microseconds):
    high, low = divmod(microseconds, 1 << 16)
    return bytes([x, y, polarity << 7 | high, low >> 8, low & 255])


def test_reads_five_bytes_an_event(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(
        bin_event(33, 2, 1, 8_388_607)
        + bin_event(0, 240, 0, 0)  # the clock wrapped: 8192 microseconds
        + bin_event(1, 33, 0, 5)
    )
    recordings = FileRecordings([path, path], [3, 4], shape=(34, 34, 2), groups=[0, 1])
    (times, channels), label = recordings[1]
    assert times.tolist() == [8388.607, 8.197] and label == 4
    assert channels.tolist() == [(2 * 34 + 33) * 2 + 1, (33 * 34 + 1) * 2]
    assert recordings.groups.tolist() == [0, 1] and len(list(recordings)) == 2


def test_reads_rows_of_numpy(tmp_path):
    rows = np.array([[127, 3, 1, 0], [0, 127, 0, 6000]], np.int32)
    np.save(tmp_path / "10.npy", rows)
    recordings = FileRecordings([tmp_path / "10.npy"], [10], shape=(128, 128, 2))
    (times, channels), _ = recordings[0]
    assert times.tolist() == [0.0, 6000.0] and times.dtype == np.float64
    assert channels.tolist() == [(3 * 128 + 127) * 2 + 1, 127 * 128 * 2]


def test_refuses_damaged_files(tmp_path):
    path, shape = tmp_path / "a.bin", (34, 34, 2)
    path.write_bytes(bin_event(33, 2, 1, 9)[:4])
    with pytest.raises(ValueError, match=r"a\.bin is damaged: 4 bytes"):
        FileRecordings([path], [0], shape=shape)[0]
    path.write_bytes(bin_event(33, 34, 1, 9))
    with pytest.raises(ValueError, match=r"row 34 to 34.*not on a sensor"):
        FileRecordings([path], [0], shape=shape)[0]
    path.write_bytes(b"")
    assert FileRecordings([path], [0], shape=shape)[0][0].times.size == 0
    array = tmp_path / "a.npy"
    np.save(array, np.zeros((3, 5)))
    with pytest.raises(ValueError, match="must have rows of x, y"):
        FileRecordings([array], [0], shape=shape)[0]
    array.write_bytes(array.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        FileRecordings([array], [0], shape=shape)[0]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"paths": []}, ValueError, "`paths` must have at least one"),
        ({"paths": "a.bin"}, TypeError, "`paths` must be several files"),
        ({"paths": ["a.txt"]}, ValueError, r"end in \.bin or \.npy"),
        ({"paths": ["a.bin"]}, FileNotFoundError, "no file"),
        ({"labels": [0, 1]}, ValueError, "`labels` must have one integer a file, 1"),
        ({"labels": [0.0]}, TypeError, "`labels` must be integers"),
        ({"groups": ["a"]}, TypeError, "`groups` must be integers"),
        ({"shape": (34, 34)}, ValueError, "`shape` must be rows, columns"),
    ],
)
def test_refuses_bad_arguments_of_files(tmp_path, settings, error, message):
    path = tmp_path / "a.bin"
    path.touch()
    good = {"paths": [path], "labels": [0], "shape": (34, 34, 2)}
    with pytest.raises(error, match=message):
        FileRecordings(**{**good, **settings})


# ---- the published sets


@pytest.mark.parametrize(
    ("load", "split", "name"),
    [
        (shd, "train", "shd_train.h5"),
        (ssc, "valid", "ssc_valid.h5"),
        (nmnist, "test", "Test"),
        (dvs_gesture, "train", "ibmGestureTrain"),
    ],
)
def test_published_sets_come_from_the_folder_and_are_complete(
    tmp_path, load, split, name
):
    with pytest.raises(FileNotFoundError, match=rf"no .*{name}.*download=True"):
        load(tmp_path / "absent", split)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="`split` must be one of"):
        load(tmp_path, "validation")
    if name.endswith("h5"):
        write_hdf5(tmp_path / name)
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=rf"{name} has [05] of the \d+ recordings"):
        load(tmp_path, split)


def test_dvs_gesture_knows_its_people(tmp_path):
    rows = np.zeros((1, 4), np.int64)
    for i in range(264):
        folder = tmp_path / "ibmGestureTest" / f"user{24 + i // 44:02d}_led_{i % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{i % 44 // 4}.npy", rows)
    recordings = dvs_gesture(tmp_path, "test")
    assert set(recordings.groups) == set(range(24, 30))
    assert np.bincount(recordings.labels).tolist() == [24] * 11


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve a folder, as the host of the data sets does."""
    (tmp_path / "served").mkdir()
    handler = functools.partial(Quiet, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


def test_a_download_is_whole_or_nothing(tmp_path, server, monkeypatch):
    tonic = pytest.importorskip("tonic", reason="tonic is not installed")
    served, url = server
    (tmp_path / "source").mkdir()
    write_hdf5(tmp_path / "source" / "shd_test.h5", 2264, ragged=False)
    archive = shutil.make_archive(
        served / "shd_test.h5", "zip", tmp_path / "source", "shd_test.h5"
    )
    content = Path(archive).read_bytes()
    monkeypatch.setattr(tonic.datasets.SHD, "base_url", url)
    monkeypatch.setattr(
        tonic.datasets.SHD, "test_md5", hashlib.md5(content).hexdigest()
    )
    folder = tmp_path / "data" / "shd"
    Path(archive).write_bytes(content[:-100])
    with pytest.raises(OSError, match=r"shd_test\.h5 failed .* nothing of it was kept"):
        shd(folder, "test", download=True)
    assert not (tmp_path / "data").exists()
    with pytest.raises(OSError, match=r"shd_train\.h5 failed .*404"):
        shd(folder, "train", download=True)
    assert not (tmp_path / "data").exists()
    Path(archive).write_bytes(content)
    assert len(shd(folder, "test", download=True)) == 2264
    assert [path.name for path in folder.iterdir()] == ["shd_test.h5"]
    Path(archive).unlink()
    assert len(shd(folder, "test", download=True)) == 2264  # not fetched again


# ---- real recordings


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Unpack the real recordings, verified."""
    if not SHARED.is_dir():
        pytest.skip("the recordings (shared/data) are not at hand")
    lines = (SHARED / "SHA256SUMS").read_text().splitlines()
    sums = {Path(name).name: digits for digits, name in map(str.split, lines)}
    folder = tmp_path_factory.mktemp("events")
    for name in ("nmnist_small.tar.xz", "dvs_gesture_clips.tar.xz"):
        unpack(SHARED / "events" / name, folder, checksum=f"sha256:{sums[name]}")
    return folder


def test_real_nmnist(unpacked):
    paths = sorted(unpacked.glob("nmnist_small/Test/*/*.bin"))
    labels = [int(path.parent.name) for path in paths]
    recordings = FileRecordings(paths, labels, shape=(34, 34, 2))
    assert len(recordings) == 100
    grid = {"duration": 300.0, "n_steps": 30, "n_channels": recordings.shape}
    counts = bin_recordings(recordings, **grid, counts=True)
    for i in range(0, 100, 9):
        raw = np.fromfile(paths[i], np.uint8).reshape(-1, 5).astype(int)
        ticks = (raw[:, 2] & 127) << 16 | raw[:, 3] << 8 | raw[:, 4]
        want = np.zeros((30, 34, 34, 2), int)
        inside = ticks < 300_000
        place = ticks // 10_000, raw[:, 1], raw[:, 0], raw[:, 2] >> 7
        np.add.at(want, tuple(axis[inside] for axis in place), 1)
        np.testing.assert_array_equal(counts.dense()[i], want)
        assert counts.n_outside[i] == (~inside).sum() > 0
    bits = bin_recordings(recordings, **grid)
    np.testing.assert_array_equal(bits.dense(), counts.dense() > 0)
    assert bits.nbytes == 100 * 30 * 289


def test_real_gestures(unpacked):
    paths = sorted(unpacked.glob("dvs_gesture_clips/*.bin"))
    recordings = FileRecordings(paths, range(10), shape=(128, 128, 2))
    sizes = [path.stat().st_size // 5 for path in paths]
    data = bin_recordings(
        recordings, duration=1450.0, n_steps=29, n_channels=(128, 128, 2), counts=True
    )
    assert data.n_events.tolist() == sizes and data.n_outside.sum() == 0
    assert data.values.sum(axis=(1, 2, 3, 4)).tolist() == sizes
    with pytest.raises(ValueError, match="not on a sensor"):
        FileRecordings(paths, range(10), shape=(64, 128, 2))[0]


def test_readers_agree_with_tonic(unpacked, tmp_path):
    tonic = pytest.importorskip("tonic", reason="tonic is not installed")
    kind = np.dtype([("x", int), ("y", int), ("t", int), ("p", int)])
    wrapped = tmp_path / "wrapped.bin"
    x, y = RNG.integers(0, 34, (2, 200))
    y[::9] = 240
    events = zip(x, y, x % 2, range(0, 20_000, 100), strict=True)
    wrapped.write_bytes(b"".join(bin_event(*map(int, event)) for event in events))
    for path in (*sorted(unpacked.glob("nmnist_small/Test/*/*.bin"))[::20], wrapped):
        theirs = tonic.io.read_mnist_file(str(path), dtype=kind)
        (times, channels), _ = FileRecordings([path], [0], shape=(34, 34, 2))[0]
        np.testing.assert_array_equal(times, theirs["t"] / 1000)
        want = (theirs["y"] * 34 + theirs["x"]) * 2 + theirs["p"]
        np.testing.assert_array_equal(channels, want)
