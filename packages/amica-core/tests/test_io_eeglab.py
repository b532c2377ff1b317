"""EEGLAB's .set files: written, read by SciPy and MNE, and read back."""

import shutil
from pathlib import Path

import amica_core as ac
import numpy as np
import pytest
import scipy.io
from amica_core import read_eeglab, write_eeglab

SET = Path(__file__).parents[4] / "shared" / "data" / "eeg" / "eeglab"
needs_recording = pytest.mark.skipif(
    not SET.is_dir(), reason="shared/data is not beside the checkout"
)
LABELS = ["Fz", "Cz", "Pz", "Oz"]


def write_set(path, X, *, fdt=True, top_level=False):
    """Write a recording as EEGLAB does."""
    locations = np.array(
        [(name, 0.0) for name in LABELS], [("labels", "O"), ("theta", "O")]
    )
    eeg = {
        "setname": "planted",
        "filename": path.name,
        "filepath": "",
        "nbchan": 4.0,
        "pnts": float(len(X)),
        "trials": 1.0,
        "srate": 100.0,
        "xmin": 0.0,
        "xmax": (len(X) - 1) / 100,
        "times": np.arange(len(X))[None] * 10.0,
        "data": path.with_suffix(".fdt").name if fdt else X.T,
        "datfile": path.with_suffix(".fdt").name if fdt else np.zeros((0, 0)),
        "icaact": np.zeros((0, 0)),
        "icawinv": np.zeros((0, 0)),
        "icasphere": np.zeros((0, 0)),
        "icaweights": np.zeros((0, 0)),
        "icachansind": np.zeros((0, 0)),
        "chanlocs": locations[None],
        "event": np.zeros((0, 0)),
        "epoch": np.zeros((0, 0)),
        "ref": "common",
        "history": "",
        "etc": {"eeglabvers": "2024.0", "note": {"number": 7.0}},
    }
    if fdt:
        X.astype("<f4").tofile(path.with_suffix(".fdt"))
    scipy.io.savemat(path, eeg if top_level else {"EEG": eeg}, appendmat=False)
    return path


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = (rng.laplace(size=(900, 4)) @ rng.normal(size=(4, 4)) + 3).astype(np.float32)
    return X, ac.fit(X, n_models=2, max_iter=12, random_state=0).sorted()


def as_tree(value):
    """Return a MATLAB value as nested Python objects, dtypes and shapes included."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        return [{k: as_tree(x[k]) for k in value.dtype.names} for x in value.ravel()]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [as_tree(x) for x in value.ravel()]
    if isinstance(value, np.ndarray) and value.dtype.kind == "U" and not value.size:
        return ""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return value.ravel().tolist()
    return (value.dtype.str, value.shape, value.tolist())


ICA = {"icaact", "icawinv", "icasphere", "icaweights", "icachansind"}
CHANGED = ICA | {"etc", "filename", "filepath", "data", "datfile", "saved"}


@pytest.mark.parametrize("fdt", [True, False])
@pytest.mark.parametrize("top_level", [True, False])
def test_round_trip(fitted, tmp_path, fdt, top_level):
    X, result = fitted
    source = write_set(tmp_path / "rest.set", X, fdt=fdt, top_level=top_level)
    folder = tmp_path / "with blanks"
    folder.mkdir()
    target = folder / "rest amica.set"
    write_eeglab(result, source, target, X=X)
    again = read_eeglab(target)
    for h in range(2):
        norm = np.linalg.norm(result.mixing(h), axis=0)
        np.testing.assert_allclose(
            again.unmixing(h), result.unmixing(h) * norm[:, None], rtol=1e-9
        )
        np.testing.assert_allclose(again.mixing(h) * norm, result.mixing(h), rtol=1e-9)
    np.testing.assert_allclose(
        again.joint_log_likelihood(X), result.joint_log_likelihood(X), rtol=1e-9
    )
    np.testing.assert_array_equal(
        again.history.log_likelihood, result.history.log_likelihood
    )
    np.testing.assert_allclose(again.variances(), result.variances(), rtol=1e-9)
    assert len(again.kept) == 900
    old, new = (scipy.io.loadmat(p, mat_dtype=True) for p in (source, target))
    assert ("EEG" in new) == (not top_level)
    if not top_level:
        old, new = (
            {k: m["EEG"][k][0, 0] for k in m["EEG"].dtype.names} for m in (old, new)
        )
    for key in set(old) - CHANGED - {"__header__", "__globals__", "__version__"}:
        assert as_tree(new[key]) == as_tree(old[key]), key
    assert new["etc"]["note"][0, 0]["number"][0, 0][0, 0] == 7
    if fdt:
        assert new["datfile"].tolist() == ["rest amica.fdt"]
        assert np.array_equal(np.fromfile(folder / "rest amica.fdt", "<f4"), X.ravel())
    else:
        assert sorted(p.name for p in folder.iterdir()) == ["rest amica.set"]


def test_fields_are_what_eeglab_expects(fitted, tmp_path):
    X, result = fitted
    source = write_set(tmp_path / "rest.set", X)
    write_eeglab(result, source, X=X)
    eeg = scipy.io.loadmat(source, mat_dtype=True)["EEG"][0, 0]
    np.testing.assert_allclose(
        eeg["icawinv"] @ eeg["icaweights"] @ eeg["icasphere"], np.eye(4), atol=1e-9
    )
    np.testing.assert_allclose(np.linalg.norm(eeg["icawinv"], axis=0), 1)
    assert eeg["icachansind"].tolist() == [[1, 2, 3, 4]]
    amica = eeg["etc"]["amica"][0, 0][0, 0]
    np.testing.assert_array_equal(amica["W"][:, :, 0], eeg["icaweights"])
    assert amica["num_models"].item() == 2
    assert amica["v"].shape == (2, 900)
    assert amica["alpha"].shape == (3, 4, 2)
    variances = amica["svar"][:, 0]
    assert np.all(np.diff(variances) <= 0)
    for value in (eeg["srate"], eeg["icaweights"], amica["LL"]):
        assert value.dtype == np.float64


def test_chosen_channels(fitted, tmp_path):
    X, _ = fitted
    result = ac.fit(X[:, [2, 0, 3]], max_iter=5, random_state=0).sorted()
    source = write_set(tmp_path / "rest.set", X)
    write_eeglab(result, source, channels=["Pz", "Fz", "Oz"])
    eeg = scipy.io.loadmat(source, mat_dtype=True)["EEG"][0, 0]
    assert eeg["icachansind"].tolist() == [[3, 1, 4]]
    for channels, message in (
        (None, "must name the 3 channels .* has 4"),
        (["Fz"], "must name the 3 channels of the fit, got 1"),
        (["Pz", "Fz", "Xz"], r"lacks \['Xz'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            write_eeglab(result, source, channels=channels, overwrite=True)


def test_nothing_is_lost_by_accident(fitted, tmp_path):
    X, result = fitted
    source = write_set(tmp_path / "rest.set", X)
    write_eeglab(result, source)
    with pytest.raises(FileExistsError, match="holds a decomposition"):
        write_eeglab(result, source)
    write_eeglab(result, source, overwrite=True)
    other = write_set(tmp_path / "other.set", X)
    with pytest.raises(FileExistsError, match="exists"):
        write_eeglab(result, source, other)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_files_that_cannot_be_read(fitted, tmp_path):
    X, result = fitted
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_eeglab(tmp_path / "nowhere.set")
    (tmp_path / "text.set").write_text("hello")
    with pytest.raises(ValueError, match=r"is no \.set file"):
        read_eeglab(tmp_path / "text.set")
    scipy.io.savemat(tmp_path / "other.set", {"x": 1.0}, appendmat=False)
    with pytest.raises(ValueError, match="no EEG structure"):
        read_eeglab(tmp_path / "other.set")
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400)
    (tmp_path / "new.set").write_bytes(header)
    with pytest.raises(ValueError, match=r"MATLAB 7\.3 file; save it once"):
        read_eeglab(tmp_path / "new.set")
    source = write_set(tmp_path / "rest.set", X)
    with pytest.raises(ValueError, match=r"holds no AMICA result in EEG\.etc\.amica$"):
        read_eeglab(source)
    with pytest.raises(ValueError, match=r"must end in \.set"):
        write_eeglab(result, source, tmp_path / "out.mat")
    source.with_suffix(".fdt").unlink()
    with pytest.raises(FileNotFoundError, match="the samples"):
        write_eeglab(result, source, tmp_path / "out.set")
    assert not (tmp_path / "out.set").exists()


@needs_recording
def test_real_recording(tmp_path):
    mne = pytest.importorskip("mne")
    for suffix in ("set", "fdt"):
        shutil.copy(SET / f"eeglab_data.{suffix}", tmp_path)
    source = tmp_path / "eeglab_data.set"
    X = np.fromfile(source.with_suffix(".fdt"), "<f4").reshape(-1, 32)
    result = ac.fit(X, max_iter=2, random_state=0).sorted()
    write_eeglab(result, source, tmp_path / "amica.set", X=X)
    raw = mne.io.read_raw_eeglab(tmp_path / "amica.set", preload=True, verbose="error")
    np.testing.assert_allclose(raw.get_data().T * 1e6, X, atol=1e-3)
    assert len(raw.annotations) == 154
    ica = mne.preprocessing.read_ica_eeglab(tmp_path / "amica.set", verbose="error")
    maps = result.mixing() / np.linalg.norm(result.mixing(), axis=0)
    np.testing.assert_allclose(ica.get_components(), maps, atol=1e-8)
    again = read_eeglab(tmp_path / "amica.set")
    np.testing.assert_allclose(
        again.joint_log_likelihood(X[:500]), result.joint_log_likelihood(X[:500])
    )
    old, new = (
        scipy.io.loadmat(p, mat_dtype=True)["EEG"][0, 0]
        for p in (source, tmp_path / "amica.set")
    )
    for key in set(old.dtype.names) - CHANGED:
        assert as_tree(new[key]) == as_tree(old[key]), key


@needs_recording
def test_other_decomposition_is_named():
    with pytest.raises(ValueError, match="read_ica_eeglab"):
        read_eeglab(SET / "eeglab_data_epochs_ica.set")
