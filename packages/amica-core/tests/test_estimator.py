"""AMICA among scikit-learn's estimators."""

import pickle

import amica_core as ac
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(600, 4)) @ rng.normal(size=(4, 4)) + 3


@pytest.fixture(scope="module")
def amica(X):
    return ac.AMICA(n_models=2, max_iter=30, random_state=0).fit(X)


# The checks fit rank-deficient data, of which the warning tells.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
# Skipped unless SciPy is told to take arrays of other libraries.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([ac.AMICA(max_iter=5), ac.AMICA(n_models=2, max_iter=5)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_sources_go_back_to_samples(amica, X):
    for model in (0, 1):
        sources = amica.transform(X, model=model)
        np.testing.assert_allclose(
            amica.inverse_transform(sources, model=model), X, atol=1e-10
        )
    np.testing.assert_allclose(amica.mixing_ @ amica.components_, np.eye(4), atol=1e-10)


def test_log_likelihoods(amica, X):
    joint = amica.score_samples(X, by_model=True)
    total = amica.score_samples(X)
    assert joint.shape == (600, 2)
    np.testing.assert_allclose(total, np.logaddexp(*joint.T))
    assert amica.score(X) == pytest.approx(total.mean())
    assert amica.score(X) == pytest.approx(4 * amica.log_likelihood_.max())
    posterior = amica.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_allclose(posterior, np.exp(joint - total[:, None]))
    np.testing.assert_allclose(
        posterior.mean(axis=0), amica.result_.model.gm, atol=0.02
    )
    assert amica.result_.model.gm[0] >= amica.result_.model.gm[1]


def test_pickling(amica, X):
    again = pickle.loads(pickle.dumps(amica))
    np.testing.assert_array_equal(again.transform(X), amica.transform(X))
    np.testing.assert_array_equal(again.score_samples(X), amica.score_samples(X))


def test_settings_survive_cloning():
    estimator = ac.AMICA(
        newton=ac.Newton(5),
        learning_rate=ac.LearningRate(0.1),
        rejection=ac.Rejection(),
        density=ac.Switching(),
    )
    assert clone(estimator).get_params() == estimator.get_params()


def test_warm_start(X):
    estimator = ac.AMICA(max_iter=20, random_state=0, warm_start=True).fit(X)
    before = estimator.log_likelihood_.max()
    estimator.fit(X)
    assert estimator.log_likelihood_[0] == pytest.approx(before, abs=1e-12)
    assert estimator.log_likelihood_.max() > before


def test_frames_and_pipelines(X):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(X, columns=["Fz", "Cz", "Pz", "Oz"])
    amica = ac.AMICA(max_iter=5, random_state=0).set_output(transform="pandas")
    out = amica.fit_transform(frame)
    assert out.columns.tolist() == ["amica0", "amica1", "amica2", "amica3"]
    assert amica.feature_names_in_.tolist() == ["Fz", "Cz", "Pz", "Oz"]


def test_pipelines(X):
    pipeline = make_pipeline(StandardScaler(), ac.AMICA(2, max_iter=5, random_state=0))
    assert pipeline.fit_transform(X).shape == (600, 2)
    assert pipeline[-1].get_feature_names_out().tolist() == ["amica0", "amica1"]
    assert np.isfinite(pipeline.score(X))
