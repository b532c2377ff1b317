"""MNE: fits of its recordings, its ICA from a fit and back."""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import amica_core as ac
import numpy as np
import pytest

mne = pytest.importorskip("mne")
from amica_core import (  # noqa: E402
    annotate_models,
    annotate_rejected,
    fit_mne,
    from_mne,
    mne_samples,
    posteriors_to_mne,
    to_mne,
)

EEG = Path(__file__).parents[4] / "shared" / "data" / "eeg"
needs_recordings = pytest.mark.skipif(
    not EEG.is_dir(), reason="shared/data is not beside the checkout"
)
BACKEND = "native" if find_spec("amica_native") else "numpy"
NAMES = "Fp1 Fp2 F3 F4 C3 C4 O1 O2".split()


def montage(kind):
    """A template under the name it has in this version of MNE."""
    known = mne.channels.get_builtin_montages()
    return next(n for n in (f"colin27_{kind}", f"standard_{kind}") if n in known)


def make_raw(n_times=3000, seed=0, types="eeg"):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(8, 8))
    data = 1e-5 * mixing @ rng.laplace(size=(8, n_times))
    info = mne.create_info(NAMES, 100.0, types)
    with info._unlock():
        info["highpass"] = 1.0
    raw = mne.io.RawArray(data, info, verbose="error")
    return raw.set_montage(montage("1020")) if types == "eeg" else raw


@pytest.fixture(scope="module")
def raw():
    return make_raw()


def settings(**changes):
    return dict(max_iter=25, random_state=0) | changes


@pytest.fixture(scope="module")
def ica(raw):
    return fit_mne(raw, **settings())


def test_ica_has_the_sources_and_maps_of_the_fit(raw, ica):
    result = ica.amica_
    before = raw.get_data()
    X, _ = mne_samples(raw)
    np.testing.assert_allclose(X, before.T * 1e6)
    np.testing.assert_array_equal(raw.get_data(), before)
    sources = ica.get_sources(raw).get_data()
    np.testing.assert_allclose(sources, result.sources(X).T, atol=1e-9)
    np.testing.assert_allclose(ica.get_components(), result.mixing(), atol=1e-9)
    assert ica.n_samples_ == raw.n_times
    assert ica.method == "amica"
    order = result.variances()
    assert np.all(np.diff(order) <= 0)


def test_ica_saves_and_reloads(raw, ica, tmp_path):
    ica.save(tmp_path / "rest-ica.fif", verbose="error")
    again = mne.preprocessing.read_ica(tmp_path / "rest-ica.fif", verbose="error")
    np.testing.assert_allclose(
        again.get_sources(raw).get_data(), ica.get_sources(raw).get_data(), atol=1e-6
    )
    assert again.method == "amica"
    assert again.ch_names == NAMES
    assert again.n_iter_ == ica.n_iter_


def test_ica_applies_and_plots(raw, ica):
    import matplotlib

    matplotlib.use("agg")
    everything = ica.apply(raw.copy(), exclude=[], verbose="error")
    np.testing.assert_allclose(everything.get_data(), raw.get_data(), atol=1e-14)
    cleaned = ica.apply(raw.copy(), exclude=[0], verbose="error")
    removed = raw.get_data() - cleaned.get_data()
    assert np.linalg.matrix_rank(removed, tol=1e-10) == 1
    from matplotlib import pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of matplotlib and MNE, about fonts and heads
        assert ica.plot_components(show=False)
    plt.close("all")


def test_components_that_are_left_out_stay_in_the_data(raw):
    ica = fit_mne(raw, 5, **settings())
    assert ica.n_components_ == 5
    applied = ica.apply(raw.copy(), exclude=[], verbose="error")
    np.testing.assert_allclose(applied.get_data(), raw.get_data(), atol=1e-14)
    variances = ica.pca_explained_variance_
    assert len(variances) == 8
    assert np.all(np.diff(variances) <= 1e-9)
    X, _ = mne_samples(raw)
    np.testing.assert_allclose(
        ica.get_sources(raw).get_data(), ica.amica_.sources(X).T, atol=1e-9
    )


def test_epochs(raw):
    events = np.column_stack([np.arange(0, 2800, 200), np.zeros(14), np.ones(14)])
    epochs = mne.Epochs(
        raw, events.astype(int), tmin=0, tmax=1.99, baseline=None, preload=True,
        verbose="error",
    )  # fmt: skip
    before = epochs.get_data()
    X, _ = mne_samples(epochs)
    np.testing.assert_array_equal(epochs.get_data(), before)
    assert X.shape == (len(epochs) * 200, 8)
    np.testing.assert_array_equal(X[:200], raw.get_data()[:, :200].T * 1e6)
    ica = fit_mne(epochs, **settings())
    assert ica.current_fit == "epochs"
    assert ica.get_sources(epochs).get_data().shape == (len(epochs), 8, 200)


def test_annotations_are_respected(raw):
    marked = raw.copy()
    marked._data[:, 1000:1500] = 1.0  # a volt
    marked.set_annotations(mne.Annotations([10.0], [5.0], ["BAD_artefact"]))
    X, _ = mne_samples(marked)
    assert len(X) == 2500
    assert np.abs(X).max() < 1e4
    assert len(mne_samples(marked, reject_by_annotation=False)[0]) == 3000
    ica = fit_mne(marked, **settings(max_iter=5))
    assert ica.n_samples_ == 2500


def test_rejected_samples_become_annotations(raw):
    noisy = raw.copy()
    noisy._data[:, 700:720] += 1e-3 * np.random.default_rng(1).normal(size=(8, 20))
    noisy.set_annotations(mne.Annotations([2.0], [1.0], ["bad"]))
    ica = fit_mne(noisy, **settings(rejection=ac.Rejection(rounds=2)))
    annotations = annotate_rejected(ica.amica_, noisy)
    assert set(annotations.description) == {"BAD_amica"}
    rejected = np.zeros(3000, dtype=bool)
    for onset, duration in zip(annotations.onset, annotations.duration, strict=True):
        start = round(onset * 100)
        rejected[start : start + round(duration * 100)] = True
    assert rejected[700:720].all()
    assert rejected.sum() == (~ica.amica_.kept).sum()
    assert not rejected[200:300].any()
    with pytest.raises(ValueError, match="were its annotations changed"):
        annotate_rejected(ica.amica_, raw)


def test_models_as_icas_channels_and_annotations():
    a, b = make_raw(2000, seed=1), make_raw(2000, seed=2)
    raw = mne.concatenate_raws([a, b], verbose="error")
    raw.set_annotations(None)
    raw.set_meas_date(1e9)
    raw.crop(0.5)
    ica = fit_mne(raw, **settings(n_models=2, max_iter=60))
    result = ica.amica_
    icas = [to_mne(result, ica.info, h) for h in range(2)]
    X, _ = mne_samples(raw)
    for h in range(2):
        np.testing.assert_allclose(
            icas[h].get_sources(raw).get_data(), result.sources(X, h).T, atol=1e-8
        )
    channels = posteriors_to_mne(result, raw)
    assert channels.ch_names == ["AMICA model 1", "AMICA model 2"]
    assert channels.first_samp == raw.first_samp
    np.testing.assert_allclose(channels.get_data().sum(axis=0), 1)
    both = raw.copy().add_channels([channels])
    assert len(both.ch_names) == 10
    annotations = annotate_models(result, raw)
    both.set_annotations(annotations)
    assert set(annotations.description) == {"AMICA model 1", "AMICA model 2"}
    assert sum(annotations.duration) == pytest.approx(raw.n_times / 100)
    first = annotations[0]["description"]
    longest = max(
        (x for x in annotations if x["description"] == first),
        key=lambda x: x["duration"],
    )
    assert longest["duration"] == pytest.approx(19.5, abs=1.0)
    with pytest.raises(ValueError, match="`model` must be below 2"):
        to_mne(result, ica.info, 2)


def test_fit_goes_on_from_another_ica(raw):
    other = mne.preprocessing.ICA(
        8, method="infomax", random_state=0, max_iter=200, verbose="error",
        fit_params=dict(extended=True),
    )  # fmt: skip
    other.fit(raw, verbose="error")
    start = from_mne(other)
    X, _ = mne_samples(raw)
    theirs = other.get_sources(raw).get_data()
    ours = start.sources(X).T
    correlation = np.corrcoef(theirs, ours)[:8, 8:]
    np.testing.assert_allclose(correlation, np.eye(8), atol=1e-2)
    assert np.allclose(np.diag(correlation), 1)
    warm = ac.fit(X, init=start, max_iter=10)
    cold = ac.fit(X, max_iter=10, random_state=0)
    assert warm.log_likelihood > cold.log_likelihood


def test_round_trip_through_mne(raw, ica):
    start = from_mne(ica)
    maps = start.mixing() / np.linalg.norm(start.mixing(), axis=0)
    wanted = ica.amica_.mixing() / np.linalg.norm(ica.amica_.mixing(), axis=0)
    np.testing.assert_allclose(maps, wanted, atol=1e-8)
    again = to_mne(start, ica.info)
    maps = again.get_components() / np.linalg.norm(again.get_components(), axis=0)
    np.testing.assert_allclose(maps, wanted, atol=1e-8)


def test_rank_after_average_reference_and_interpolation(raw):
    referenced = raw.copy().set_eeg_reference(verbose="error")
    with pytest.warns(RuntimeWarning, match="rank 7"):
        ica = fit_mne(referenced, **settings(max_iter=5))
    assert ica.n_components_ == 7
    projected = raw.copy().set_eeg_reference(projection=True, verbose="error")
    with pytest.warns(RuntimeWarning, match="rank 7"):
        again = fit_mne(projected, **settings(max_iter=5))
    assert again.n_components_ == 7
    np.testing.assert_allclose(
        again.get_sources(projected).get_data(),
        ica.get_sources(referenced).get_data(),
        atol=1e-6,
    )
    repaired = raw.copy()
    repaired.info["bads"] = ["C3"]
    repaired.interpolate_bads(verbose="error")
    with pytest.warns(RuntimeWarning, match="rank 7"):
        assert fit_mne(repaired, **settings(max_iter=5)).n_components_ == 7


def test_channels_of_several_types():
    raw = make_raw(types=["eeg"] * 4 + ["eog"] * 2 + ["misc", "stim"])
    ica = fit_mne(raw, **settings(max_iter=3))
    assert ica.ch_names == NAMES[:4]
    ica = fit_mne(raw, picks=["eeg", "eog"], **settings(max_iter=3))
    assert ica.ch_names == NAMES[:6]
    raw.info["bads"] = ["Fp1"]
    assert fit_mne(raw, **settings(max_iter=3)).ch_names == NAMES[1:4]


def test_bad_input(raw, ica):
    with pytest.raises(TypeError, match="`inst` must be Raw or Epochs"):
        fit_mne(raw.get_data())
    slow = make_raw()
    with slow.info._unlock():
        slow.info["highpass"] = 0.0
    with pytest.warns(RuntimeWarning, match="high-pass filtered"):
        fit_mne(slow, **settings(max_iter=2))
    with pytest.raises(ValueError, match="`info` must have the 8 channels"):
        to_mne(ica.amica_, mne.create_info(3, 100.0))
    with pytest.raises(ValueError, match="must be fitted"):
        from_mne(mne.preprocessing.ICA())


def test_missing_mne_is_named(raw, monkeypatch):
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(ImportError, match=r'pip install "amica-core\[mne\]"'):
        fit_mne(raw)


def eeglab_raw():
    return mne.io.read_raw_eeglab(
        EEG / "eeglab" / "eeglab_data.set", preload=True, verbose="error"
    )


def eegbci_raw():
    path = EEG / "eegmmidb" / "S001R04.edf"
    raw = mne.io.read_raw_edf(path, preload=True, verbose="error")
    raw.crop(tmax=raw.times[-81])  # it ends with 80 samples of zeros
    mne.datasets.eegbci.standardize(raw)
    return raw.set_montage(montage("1005"))


@needs_recordings
@pytest.mark.parametrize("read", [eeglab_raw, eegbci_raw])
def test_real_recording_goes_through_mne(read, tmp_path):
    raw = read().filter(1.0, None, verbose="error")
    ica = fit_mne(raw, backend=BACKEND, **settings(max_iter=3))
    ica.save(tmp_path / "a-ica.fif", verbose="error")
    again = mne.preprocessing.read_ica(tmp_path / "a-ica.fif", verbose="error")
    n = len(raw.ch_names)
    assert ica.n_components_ == n
    sources = ica.get_sources(raw, stop=2000).get_data()
    np.testing.assert_allclose(
        again.get_sources(raw, stop=2000).get_data(), sources, atol=1e-5
    )
    back = again.apply(raw.copy(), exclude=[], verbose="error")
    np.testing.assert_allclose(back.get_data(), raw.get_data(), atol=1e-12)
