"""Pictures: what they show is what was fitted."""

import sys

import amica_core as ac
import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from amica_core import (  # noqa: E402
    plot_densities,
    plot_log_likelihood,
    plot_maps,
    plot_match,
    plot_posteriors,
    plot_rejected,
    plot_sources,
    source_density,
)
from amica_core._plots.match import matched_pairs  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(4)
    X = rng.laplace(size=(1200, 4)) @ rng.normal(size=(4, 4))
    X[600:605] *= 20
    return X


@pytest.fixture(scope="module")
def result(X):
    rejection = ac.Rejection(rounds=2)
    return ac.fit(X, n_models=2, max_iter=15, random_state=0, rejection=rejection)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def info():
    mne = pytest.importorskip("mne")
    info = mne.create_info(["Fz", "Cz", "Pz", "Oz"], 100.0, "eeg")
    for channel, y in zip(info["chs"], (0.05, 0.0, -0.05, -0.09), strict=True):
        channel["loc"][:3] = (0.01, y, 0.08)
    return info


def test_course(result):
    left, right = plot_log_likelihood(result).axes
    np.testing.assert_array_equal(
        left.get_lines()[0].get_ydata(), result.history.log_likelihood
    )
    marks = [line.get_xdata()[0] for line in left.get_lines()[1:]]
    changes = np.flatnonzero(np.diff(result.history.n_kept)) + 1.5
    assert marks == changes.tolist()
    assert marks
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert labels == ["gradient norm", "step size"]


def test_course_that_was_not_recorded(result):
    bare = ac.from_amicaout(ac.to_amicaout(result))
    assert len(plot_log_likelihood(bare).axes) == 2


def test_maps_as_an_image(result):
    figure = plot_maps(result, model=1, components=[2, 0])
    image = figure.axes[0].get_images()[0].get_array()
    wanted = result.mixing(1)[:, [2, 0]]
    np.testing.assert_allclose(image, wanted / np.abs(wanted).max(axis=0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # MNE, of an odd head
def test_maps_on_the_scalp(result, info):
    figure = plot_maps(result, info)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["IC000", "IC001", "IC002", "IC003"]
    assert all(ax.get_images() for ax in figure.axes)


def test_channels_without_positions(result):
    mne = pytest.importorskip("mne")
    info = mne.create_info(4, 100.0, "eeg")
    ax = plot_maps(result, info).axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == info["ch_names"]


def test_sources(result, X):
    figure = plot_sources(result, X, 50.0, components=[1], n_samples=100)
    line = figure.axes[0].get_lines()[0]
    sources = result.sources(X)[:, 1]
    np.testing.assert_allclose(line.get_ydata(), sources[:100] / sources.std())
    np.testing.assert_allclose(line.get_xdata(), np.arange(100) / 50)
    spectrum = figure.axes[1].get_lines()[0]
    assert spectrum.get_xdata()[-1] == 25.0
    assert np.isfinite(spectrum.get_ydata()).all()


@pytest.mark.parametrize(
    "density", ["generalized_gaussian", "logistic", "sub_gaussian"]
)
def test_density_is_normalised_and_that_of_the_likelihood(X, density):
    result = ac.fit(X, n_mixtures=2, density=density, max_iter=5, random_state=0)
    points = np.linspace(-60, 60, 40001)
    for i in range(4):
        values = source_density(result, points, i)
        assert np.trapezoid(values, points) == pytest.approx(1, abs=1e-4)
    sources = result.sources(X)
    log_density = sum(
        np.log(source_density(result, sources[:, i], i)) for i in range(4)
    )
    volume = np.linalg.slogdet(result.unmixing())[1]
    np.testing.assert_allclose(
        log_density + volume, result.joint_log_likelihood(X)[:, 0], rtol=1e-9
    )


def test_densities(result, X):
    figure = plot_densities(result, X, model=1, components=[0, 3])
    assert [ax.get_title() for ax in figure.axes] == ["IC000", "IC003"]
    for ax in figure.axes:
        heights, edges = ax.patches[0].get_data()[:2]
        assert np.sum(heights * np.diff(edges)) == pytest.approx(1, abs=0.01)
        points, density = ax.get_lines()[0].get_data()
        middle = np.interp((edges[:-1] + edges[1:]) / 2, points, density)
        assert np.corrcoef(middle, heights)[0, 1] > 0.9


def test_posteriors(result, X):
    figure = plot_posteriors(result, X, 100.0, smooth=0.01)
    ax = figure.axes[0]
    assert len(ax.collections) == 2
    bottom = ax.collections[0].get_paths()[0].vertices
    posterior = result.posterior(X)[:, 0]
    found = {round(x, 6): y for x, y in bottom if y > 0}
    assert found[5.0] == pytest.approx(posterior[500], abs=1e-9)


def test_rejected(result, X):
    ax = plot_rejected(result, X).axes[0]
    dots = ax.get_lines()[1].get_xdata()
    assert dots.tolist() == np.flatnonzero(~result.kept).tolist()
    assert set(range(600, 605)) <= set(dots)
    with pytest.raises(ValueError, match="`X` must have the 1200 samples"):
        plot_rejected(result, X[:-1])


def test_match(result, X):
    same = matched_pairs(result, result)
    assert all(pair.first == pair.second for pair in same)
    np.testing.assert_allclose([pair.similarity for pair in same], 1)
    across = matched_pairs(result, result, models=(0, 1))
    similarity = [pair.similarity for pair in across]
    assert similarity == sorted(similarity, reverse=True)
    figure = plot_match(result, result, models=(0, 1))
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == similarity
    fewer = ac.fit(X, 2, max_iter=2, random_state=0)
    there, back = matched_pairs(result, fewer), matched_pairs(fewer, result)
    assert [(p.second, p.first) for p in back] == [(p.first, p.second) for p in there]
    small = ac.fit(X[:, :3], max_iter=2)
    with pytest.raises(ValueError, match="`second` must have the 4 channels"):
        plot_match(result, small)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_match_with_maps(result, info):
    figure = plot_match(result, result, info, models=(0, 1), n_pairs=2)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert [title[0] for title in titles] == ["A", "A", "B", "B"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": 2}, "`model` must be below 2"),
        ({"model": -1}, "`model` must be at least 0"),
        ({"components": [4]}, "`components` must be numbers from 0 to 3"),
        ({"components": []}, "`components` must be numbers"),
    ],
)
@pytest.mark.parametrize("plot", [plot_maps, plot_sources, plot_densities])
def test_what_is_not_there(result, X, plot, settings, message):
    samples = () if plot is plot_maps else (X,)
    with pytest.raises(ValueError, match=message):
        plot(result, *samples, **settings)


@pytest.mark.parametrize("plot", [plot_sources, plot_densities, plot_posteriors])
def test_samples_of_other_channels(result, X, plot):
    with pytest.raises(ValueError, match=r"`X` must be \(samples, 4\)"):
        plot(result, X[:, :3])


def test_missing_matplotlib_is_named(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "amica-core\[plot\]"'):
        plot_log_likelihood(result)
