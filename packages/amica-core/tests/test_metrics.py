"""Measures of decompositions."""

import amica_core as ac
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

seeds = st.integers(0, 10_000)


def scrambled(A, rng):
    """Return `A` with columns in another order, sign and scale, and that order."""
    order = rng.permutation(A.shape[1])
    factors = rng.choice([-1, 1], A.shape[1]) * rng.uniform(0.1, 10, A.shape[1])
    return A[:, order] * factors, order


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(2, 6))
def test_amari_distance_ignores_order_sign_and_scale(seed, n):
    rng = np.random.default_rng(seed)
    A, W = rng.normal(size=(2, n, n))
    value = ac.amari_distance(W, A)
    assert 0 <= value <= 1
    assert ac.amari_distance(W, scrambled(A, rng)[0]) <= 1
    permuted = A[:, rng.permutation(n)]
    assert ac.amari_distance(W, permuted) == pytest.approx(value)
    perfect = np.linalg.inv(scrambled(A, rng)[0])
    assert ac.amari_distance(perfect, A) == pytest.approx(0, abs=1e-8)


def test_amari_distance_of_the_worst_case():
    assert ac.amari_distance(np.ones((3, 3)), np.eye(3)) == pytest.approx(1)
    assert ac.amari_distance([[2.0]], [[3.0]]) == 0


@settings(deadline=None, max_examples=20)
@given(seeds, st.integers(1, 6))
def test_matching_finds_the_permutation(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(9, n))
    B, order = scrambled(A, rng)
    found = ac.match_components(A, B)
    np.testing.assert_array_equal(order[found.order], np.arange(n))
    np.testing.assert_allclose(found.similarity, 1)
    assert np.all(np.sum(B[:, found.order] * found.sign * A, axis=0) > 0)


def test_reduction_is_the_mutual_information_of_a_mixture():
    # Two normals with correlation r have -log(1 - r^2) / 2 nats in common.
    rng = np.random.default_rng(0)
    r = 0.8
    mixing = np.linalg.cholesky([[1, r], [r, 1]])
    X = rng.normal(size=(50_000, 2)) @ mixing.T
    expected = -np.log(1 - r**2) / 2
    unmixing = np.linalg.inv(mixing)
    assert ac.mutual_information_reduction(X, unmixing) == pytest.approx(
        expected, abs=0.02
    )
    assert ac.mutual_information_reduction(X, np.eye(2)) == 0
    scaled = np.diag([3.0, -0.2]) @ unmixing
    assert ac.mutual_information_reduction(X, scaled) == pytest.approx(
        expected, abs=0.02
    )


def test_pairwise_information():
    rng = np.random.default_rng(0)
    r = 0.9
    S = (
        rng.normal(size=(40_000, 3))
        @ np.linalg.cholesky([[1, r, 0], [r, 1, 0], [0, 0, 1]]).T
    )
    found = ac.pairwise_mutual_information(S, n_bins=32)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0)
    # Bins lose a little of the information.
    assert found[0, 1] == pytest.approx(-np.log(1 - r**2) / 2, abs=0.03)
    assert np.abs(found[2]).max() < 0.005
    # Any increasing function of a signal carries the same information.
    np.testing.assert_array_equal(
        ac.pairwise_mutual_information(np.exp(S), n_bins=32), found
    )


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (ac.amari_distance, (np.eye(2), np.eye(3)), ValueError, "`mixing` must have"),
        (ac.amari_distance, (np.zeros((2, 2)), np.eye(2)), ValueError, "zero rows"),
        (ac.amari_distance, (np.eye(2) * 1j, np.eye(2)), TypeError, "`unmixing`"),
        (ac.match_components, (np.ones((3, 2)), np.ones((4, 2))), ValueError, "3 rows"),
        (ac.match_components, (np.ones((3, 2)), np.ones((3, 1))), ValueError, "2 col"),
        (ac.match_components, (np.ones(3), np.ones(3)), ValueError, "`maps`"),
        (ac.match_components, ([["a"]], [["b"]]), TypeError, "`maps` must hold"),
        (
            ac.mutual_information_reduction,
            (np.ones((9, 2)), np.ones((2, 3))),
            ValueError,
            r"shape \(2, 2\)",
        ),
        (
            ac.mutual_information_reduction,
            (np.ones((9, 2)), np.ones((2, 2))),
            ValueError,
            "singular",
        ),
        (
            ac.mutual_information_reduction,
            (np.full((9, 2), np.nan), np.eye(2)),
            ValueError,
            "`X` must be finite",
        ),
        (ac.pairwise_mutual_information, (np.ones((0, 2)),), ValueError, "`sources`"),
        (ac.pairwise_mutual_information, (np.ones((9, 2)),), ValueError, "at most 9"),
    ],
)
def test_bad_input(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)
