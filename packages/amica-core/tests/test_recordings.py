"""Real recordings: AMICA against FastICA, Picard and extended Infomax."""

import amica_core as ac
import golden
import numpy as np
import pytest

EEG = golden.FOLDER.parent / "data" / "eeg"
pytestmark = pytest.mark.skipif(
    not EEG.is_dir(), reason="the recordings (shared/data) are not here"
)


def _fastica(x):
    from sklearn.decomposition import FastICA

    return FastICA(whiten=False, max_iter=500, random_state=0).fit(x).components_


def _picard(x):
    picard = pytest.importorskip("picard", reason="python-picard is not installed")
    _, W, _ = picard.picard(
        x.T,
        ortho=False,
        extended=True,
        whiten=False,
        centering=False,
        w_init=np.eye(x.shape[1]),
        max_iter=200,
    )
    return W


def _infomax(x):
    mne = pytest.importorskip("mne", reason="mne is not installed")
    random = {"random_state": 0}
    return mne.preprocessing.infomax(
        x, extended=True, max_iter=60, verbose="error", **random
    )


def _densities(X, n, W):
    """Fit AMICA's family of densities to the sources of another method."""
    A = np.linalg.inv(W)
    first = ac.initial_model(n)._replace(A=A / np.linalg.norm(A, axis=0))
    return ac.fit(X, n, init=first, fixed=("A", "c"), max_iter=60)


@pytest.fixture(
    scope="module",
    params=[("eeglab/eeglab_data.set", 400), ("eegmmidb/S001R04.edf", 1000)],
    ids=["eeglab", "eegmmidb"],
)
def recording(request):
    pytest.importorskip("mne", reason="mne is not installed")
    name, max_iter = request.param
    X = ac.read_samples(EEG / name, high_pass=1.0).data
    # The last 80 samples of the second are zeros. A part of each keeps this short.
    X = X[:12_000]
    n = 20
    fitted = ac.fit(X, n, max_iter=max_iter, newton=ac.Newton(20), random_state=0)
    return X, n, fitted


def test_the_log_likelihood_rises_and_settles(recording):
    _, _, fitted = recording
    course = fitted.history.log_likelihood
    assert np.mean(np.diff(course) > 0) > 0.9
    assert course[-1] - course[-50] < 0.1 * (course[49] - course[0])
    assert fitted.history.newton.mean() > 0.5


def test_the_quasi_newton_solver_is_there_sooner(recording):
    X, n, fitted = recording
    quick = ac.fit(X, n, solver="quasi_newton", max_iter=150, random_state=0)
    assert quick.log_likelihood > fitted.log_likelihood - 1e-4


@pytest.mark.filterwarnings("ignore")  # of the other programs
@pytest.mark.parametrize("method", [_fastica, _picard, _infomax])
def test_no_other_method_explains_more(recording, method):
    X, n, fitted = recording
    x = fitted.sphering.apply(X)
    W = method(x)
    assert fitted.log_likelihood > _densities(X, n, W).log_likelihood
    own = ac.mutual_information_reduction(x, fitted.model.unmixing(0))
    assert own >= ac.mutual_information_reduction(x, W)
