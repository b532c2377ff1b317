"""What `compatibility="fortran"` changes, each with its size (docs/differences.md)."""

import amica_core as ac
import numpy as np
import pytest
from amica_core._density import log_normalizer


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return 5 * rng.laplace(size=(800, 3)) @ rng.normal(size=(3, 3))


def both(X, **arguments):
    arguments = {"random_state": 0} | arguments
    fortran = ac.fit(X, compatibility="fortran", **arguments)
    return fortran.history, ac.fit(X, **arguments).history


def test_constants_in_single_precision():
    sizes = {0: 3.0e-8, 1: -2.1e-8, 2: 1.1e-10, 3: 0.0, 4: 2.0e-8}
    for code, size in sizes.items():
        rho = np.array([2.0])
        exact = log_normalizer(ac.Density(code), rho)
        fortran = log_normalizer(ac.Density(code), rho, fortran=True)
        assert (fortran - exact)[0] == pytest.approx(size, rel=0.05)
    # The shapes 1 and 2 are the Laplacian and the normal density (at half variance).
    exact = log_normalizer(ac.Density(0), np.array([1.0, 2.0]))
    np.testing.assert_allclose(np.exp(exact), [2, np.sqrt(np.pi)])


def test_half_the_log_determinant_of_diagonal_sphering(X):
    fortran, right = both(X, sphering="diagonal", max_iter=3)
    half = np.log(X.std(axis=0)).mean() / 2
    np.testing.assert_allclose(
        fortran.log_likelihood - right.log_likelihood, half, atol=1e-6
    )


def test_mixing_is_frozen_for_six_iterations_in_a_hundred(X):
    fortran, right = both(X, max_iter=110, stopping=ac.Stopping(None, 0, None))
    frozen = 1 + np.flatnonzero(fortran.learning_rate == 0)
    np.testing.assert_array_equal(frozen, np.arange(100, 106))
    # The last iteration of the default evaluates the model and leaves it.
    assert 1 + np.flatnonzero(right.learning_rate == 0) == [110]
    np.testing.assert_allclose(
        fortran.log_likelihood[:99], right.log_likelihood[:99], atol=1e-6
    )


def test_rejection_begins_too_early(X):
    rejection = ac.Rejection(start=10, interval=1, rounds=3)
    fortran, right = both(X, rejection=rejection, max_iter=13)
    assert fortran.n_kept[1] < 800
    assert right.n_kept[9] == 800
    assert right.n_kept[10] < 800


def test_the_last_model_is_updated_once_more(X):
    fortran = ac.fit(X, compatibility="fortran", max_iter=5, random_state=0)
    right = ac.fit(X, max_iter=5, random_state=0)
    reported = fortran.history.log_likelihood[-1]
    assert fortran.joint_log_likelihood(X).mean() / 3 > reported + 1e-6
    assert right.joint_log_likelihood(X).mean() / 3 == pytest.approx(
        right.history.log_likelihood[-1], abs=1e-12
    )


def test_rank_of_average_referenced_data(X):
    # Rounding to float32 leaves a little variance where there should be none.
    referenced = (X - X.mean(axis=1, keepdims=True)).astype(np.float32)
    fortran = ac.fit(referenced, max_iter=2, compatibility="fortran", random_state=0)
    assert fortran.model.n_components == 3
    with pytest.warns(RuntimeWarning, match="rank 2"):
        assert ac.fit(referenced, max_iter=2, random_state=0).model.n_components == 2
