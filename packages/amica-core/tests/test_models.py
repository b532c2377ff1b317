"""What is planted in data is found again."""

import amica_core as ac
import numpy as np
import pytest


def mixtures_in_turn(seed, n=3, n_samples=3000, shared=0, length=500):
    """Return samples of two mixtures in alternation, their matrices, and which."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, n, n))
    A[1][:, :shared] = A[0][:, :shared]
    which = np.arange(n_samples) // length % 2
    sources = rng.laplace(size=(n_samples, n))
    return np.einsum("tij,tj->ti", A[which], sources), A, which


@pytest.mark.parametrize("seed", [0, 1])
def test_two_models_find_both_mixtures(seed):
    X, A, which = mixtures_in_turn(seed)
    result = ac.fit(X, n_models=2, max_iter=120, newton=ac.Newton(20), random_state=0)
    distance = np.array(
        [[ac.amari_distance(result.unmixing(h), a) for a in A] for h in (0, 1)]
    )
    own = distance.argmin(axis=1)
    assert sorted(own) == [0, 1]
    assert distance.min(axis=1).max() < 0.07  # 1500 samples for each
    # Single samples near the origin fit both models; runs of 25 do not.
    posterior = result.posterior(X)
    assert np.mean(own[posterior.argmax(axis=1)] == which) > 0.8
    runs = posterior.reshape(-1, 25, 2).mean(axis=1)
    assert np.mean(own[runs.argmax(axis=1)] == which[::25]) > 0.99
    np.testing.assert_allclose(result.model.gm, 0.5, atol=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_sharing_merges_the_shared_component(seed):
    X, A, _ = mixtures_in_turn(seed, shared=1)
    arguments = {"n_models": 2, "newton": ac.Newton(20), "random_state": 0}
    sharing = ac.Sharing(start=100, interval=20, threshold=0.98)
    result = ac.fit(X, max_iter=140, sharing=sharing, **arguments)
    slots = result.model.slots
    common = np.intersect1d(slots[:, 0], slots[:, 1])
    assert len(common) == 1
    column = result.sphering.inverse @ result.model.A[:, common]
    assert ac.match_components(A[0][:, :1], column).similarity[0] > 0.999
    apart = ac.fit(X, max_iter=140, **arguments)
    # The planted structure costs little likelihood.
    assert result.log_likelihood > apart.log_likelihood - 2e-3


def test_rejection_removes_planted_artefacts():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(4000, 4)) @ rng.normal(size=(4, 4))
    artefact = np.zeros(len(X), bool)
    artefact[::97] = True
    X[artefact] += 40 * rng.normal(size=(artefact.sum(), 4))
    result = ac.fit(X, max_iter=60, rejection=ac.Rejection(), random_state=0)
    rejected = ~result.kept
    assert rejected[artefact].mean() > 0.9
    assert rejected[~artefact].mean() < 0.05
    assert result.history.n_kept[-1] == result.kept.sum()
    without = ac.fit(X, max_iter=60, random_state=0)
    assert result.log_likelihood > without.log_likelihood


def test_switching_finds_sub_and_super_gaussian_sources():
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=(3000, 2)), rng.uniform(-1, 1, (3000, 2))])
    A = rng.normal(size=(4, 4))
    arguments = {"n_mixtures": 1, "max_iter": 80, "newton": ac.Newton(30)}
    result = ac.fit(S @ A.T, density="switching", random_state=0, **arguments)
    assert ac.amari_distance(result.unmixing(), A) < 0.04
    order = ac.match_components(S, result.sources(S @ A.T)).order
    codes = result.model.density[result.model.slots[:, 0]][order]
    np.testing.assert_array_equal(codes, [1, 1, 4, 4])
    # One kind for all cannot do it.
    stuck = ac.fit(S @ A.T, density="super_gaussian", random_state=0, **arguments)
    assert stuck.log_likelihood < result.log_likelihood


@pytest.mark.parametrize(
    "density", ["generalized_gaussian", "super_gaussian", "gaussian", "logistic"]
)
@pytest.mark.parametrize("sphering", ["symmetric", "principal", "diagonal"])
def test_super_gaussian_sources_are_separated(density, sphering):
    rng = np.random.default_rng(0)
    S, A = rng.laplace(size=(2000, 3)), rng.normal(size=(3, 3))
    result = ac.fit(
        S @ A.T,
        density=density,
        sphering=sphering,
        max_iter=100,
        newton=ac.Newton(30),
        random_state=0,
    )
    assert ac.amari_distance(result.unmixing(), A) < 0.05


def test_the_log_likelihood_is_that_of_a_density():
    """The density of one channel integrates to 1, whatever its type."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(500, 1))
    grid = np.linspace(-60, 60, 24_001)[:, None]
    for density in ("generalized_gaussian", "logistic", "gaussian", "sub_gaussian"):
        result = ac.fit(X, density=density, max_iter=20, random_state=0)
        p = np.exp(result.joint_log_likelihood(grid)[:, 0])
        assert np.sum(p) * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-4)


def test_sphering_kinds_agree_on_the_likelihood():
    # The same model in three coordinate systems has one likelihood.
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(500, 3)) @ rng.normal(size=(3, 3))
    result = ac.fit(X, max_iter=5, random_state=0)
    for kind in ("principal", "diagonal"):
        sphering = ac.sphere(X, kind=kind)
        change = sphering.matrix @ result.sphering.inverse
        model = result.model
        moved = ac.Result(
            model._replace(A=change @ model.A, c=change @ model.c),
            sphering,
            result.history,
            result.kept,
            result.stop_reason,
        )
        np.testing.assert_allclose(
            moved.joint_log_likelihood(X), result.joint_log_likelihood(X), atol=1e-9
        )


@pytest.mark.parametrize("max_iter", [4, 40])
def test_a_switched_model_has_the_reported_likelihood(max_iter):
    """Also where the densities before the switch explained the samples better."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 3)) @ rng.normal(size=(3, 3))
    result = ac.fit(X, density="switching", max_iter=max_iter, random_state=0)
    total = np.logaddexp.reduce(result.joint_log_likelihood(X), axis=1).mean() / 3
    assert total == pytest.approx(result.log_likelihood, abs=1e-12)


def test_the_returned_model_has_the_reported_likelihood():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(600, 3)) @ rng.normal(size=(3, 3))
    for arguments in ({}, {"n_models": 2}, {"density": "logistic"}):
        result = ac.fit(X, max_iter=30, random_state=0, **arguments)
        total = np.logaddexp.reduce(result.joint_log_likelihood(X), axis=1).mean() / 3
        assert total == pytest.approx(result.log_likelihood, abs=1e-12)
        assert result.log_likelihood == np.max(result.history.log_likelihood)


def test_components_are_ordered_by_the_variance_they_explain():
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(4000, 4))
    A = rng.normal(size=(5, 4)) * [1, 5, 3, 0.5]
    X = S @ A.T + 1e-3 * rng.normal(size=(4000, 5))
    result = ac.fit(X, 4, max_iter=100, newton=ac.Newton(20), random_state=0).sorted()
    variances = result.variances()
    assert np.all(np.diff(variances) <= 0)
    # Independent sources: the variances are those of the maps, and sum to the total.
    planted = np.sort(2 * np.sum(A**2, axis=0))[::-1]
    np.testing.assert_allclose(variances, planted, rtol=0.15)
    assert variances.sum() == pytest.approx(X.var(axis=0).sum(), rel=0.05)
    again = result.sorted()
    np.testing.assert_array_equal(again.model.slots, result.model.slots)
    # Order does not change the fit.
    np.testing.assert_allclose(
        again.joint_log_likelihood(X), result.joint_log_likelihood(X)
    )


def test_warm_start_goes_on_from_a_fit():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(800, 3)) @ rng.normal(size=(3, 3))
    first = ac.fit(X, max_iter=20, random_state=0)
    second = ac.fit(X, max_iter=20, init=first)
    assert second.history.log_likelihood[0] == pytest.approx(
        first.log_likelihood, abs=1e-12
    )
    assert second.log_likelihood > first.log_likelihood
    with pytest.raises(ValueError, match="3 channels of `init`"):
        ac.fit(rng.laplace(size=(50, 4)), init=first)
    # New samples are read with the sphering that the model belongs to.
    other = ac.fit(X[:400] + 5, max_iter=5, init=first)
    np.testing.assert_array_equal(other.sphering.mean, first.sphering.mean)


def test_fixed_parameters_stay():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(400, 3)) @ rng.normal(size=(3, 3))
    names = ("A", "c", "gm", "alpha", "mu", "beta", "rho")
    first = ac.initial_model(3, 2, 3, random_state=1)
    for name in names:
        result = ac.fit(
            X, n_models=2, init=first, fixed=(name,), rescale=False, max_iter=4
        )
        for other in names:
            same = np.array_equal(getattr(result.model, other), getattr(first, other))
            assert same == (other == name), (name, other)


def test_steps_into_nowhere_are_taken_back():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(400, 3)) @ rng.normal(size=(3, 3))
    first = ac.initial_model(3, random_state=0)
    wild = ac.LearningRate(rate=1e200, ramp=1)
    result = ac.fit(X, init=first, learning_rate=wild, newton=False, max_iter=30)
    assert np.isfinite(result.model.A).all()
    assert np.isfinite(result.log_likelihood)
    broken = first._replace(alpha=np.full_like(first.alpha, np.nan))
    with pytest.raises(FloatingPointError, match="`init`"):
        ac.fit(X, init=broken, max_iter=3)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"max_iter": 3}, "max_iter"),
        ({"stopping": ac.Stopping(min_change=1.0, patience=2)}, "min_change"),
        ({"stopping": ac.Stopping(min_gradient=1e9)}, "min_gradient"),
        ({"stopping": ac.Stopping(None, min_gradient=None)}, "max_iter"),
    ],
)
def test_stop_rules(arguments, reason):
    X = np.random.default_rng(0).laplace(size=(300, 2))
    result = ac.fit(X, **({"max_iter": 20, "random_state": 0} | arguments))
    assert result.stop_reason == reason
    if reason == "min_change":
        assert result.n_iter == 4  # no change to judge in the first
    if reason == "min_gradient":
        assert result.n_iter == 2  # rules hold from the second iteration on


def test_an_interval_of_one_does_not_reject_too_early():
    rejection = ac.Rejection(start=10, interval=1, rounds=3)
    due = [i for i in range(1, 20) if rejection.is_due(i, 0)]
    assert due[0] == 10
    assert rejection.is_due(1, 0, fortran=True)
