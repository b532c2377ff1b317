"""The quasi-Newton solver: its calculus, its safeguards, and what it reaches."""

import amica_core as ac
import numpy as np
import pytest
from amica_core import _coordinates as coordinates
from amica_core import _em
from amica_core._backend.numpy import Backend
from amica_core._group import Alone
from amica_core._quasi_newton import Search
from amica_core._sphere import Recording
from amica_core._statistics import Density, Options
from amica_core._update import in_standard_form
from amica_core._warm_start import shares, warm_start

BOUNDS = ac.Bounds(beta=(1e-8, 100.0), rho=(1.0, 2.5))
FREE = frozenset[str]()


def expect(model, X):
    recording, backend = Recording(X, ac.sphere(X)), Backend()
    sums = _em.expectation(
        backend.place(recording), model, recording, backend, Options(newton=True), None
    )
    return sums.log_likelihood / (sums.count * model.n_components), sums


def some_model(density=Density.GENERALIZED_GAUSSIAN, n=3, M=2, J=2):
    rng = np.random.default_rng(5)
    model = ac.initial_model(n, M, J, density=density, random_state=0)
    shape = model.mu.shape
    alpha = rng.uniform(0.5, 1, shape)
    return model._replace(
        A=model.A + 0.3 * rng.normal(size=model.A.shape),
        c=0.2 * rng.normal(size=model.c.shape),
        gm=np.array([0.3, 0.7]),
        alpha=alpha / alpha.sum(axis=0),
        rho=rng.uniform(1.3, 2.3, shape),
    )


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(1500, 3)) @ rng.normal(size=(3, 3))


def random_step(model, seed=0):
    n, M = model.slots.shape
    size = M * n**2 + 4 * model.mu.size + M
    return coordinates.Step.of(np.random.default_rng(seed).normal(size=size), model)


@pytest.mark.parametrize("density", Density, ids=str)
def test_gradient_is_that_of_the_log_likelihood(X, density):
    model = some_model(density)
    slope = coordinates.gradient(model, expect(model, X)[1], FREE, BOUNDS)
    step, h = random_step(model), 1e-5
    for name, part in step._asdict().items():
        alone = step._replace(
            **{k: np.zeros_like(v) for k, v in step._asdict().items() if k != name}
        )
        if name == "rho" and density != Density.GENERALIZED_GAUSSIAN:
            assert not np.any(slope.rho)
            continue
        ends = [
            expect(coordinates.move(model, alone, t, BOUNDS), X)[0] for t in (-h, h)
        ]
        seen = (ends[1] - ends[0]) / (2 * h)
        np.testing.assert_allclose(
            seen, np.sum(getattr(slope, name) * part), rtol=2e-3, err_msg=name
        )


def test_curvature_is_undone_by_its_solve_and_is_positive(X):
    model = some_model()
    bend = coordinates.curvature(model, expect(model, X)[1])
    for seed in range(5):
        step = random_step(model, seed)
        back = bend.solve(bend.times(step))
        np.testing.assert_allclose(back.flat(), step.flat(), rtol=1e-9)
        assert step.flat() @ bend.times(step).flat() > 0


def test_steps_are_flattened_and_restored():
    model = some_model()
    step = random_step(model)
    for seen, wanted in zip(coordinates.Step.of(step.flat(), model), step, strict=True):
        np.testing.assert_array_equal(seen, wanted)
    assert np.abs(step.within_reach().mixing).max() <= 0.5
    short = coordinates.Step.of(step.flat() / 100, model)
    np.testing.assert_array_equal(short.within_reach().flat(), short.flat())


def test_bounds_and_fixed_fields_take_no_part(X):
    model = some_model()._replace(rho=np.full((2, 6), 2.5))
    sums = expect(model, X)[1]
    slope = coordinates.gradient(model, sums, frozenset({"A", "mu"}), BOUNDS)
    assert not np.any(slope.mixing)
    assert not np.any(slope.mu)
    assert np.all(slope.rho <= 0)  # Laplacian sources want less
    assert np.any(slope.beta)


def test_standard_form_is_the_same_distribution(X):
    model = some_model()
    before, sums = expect(model, X)
    standard = in_standard_form(model, sums, FREE, rescale=True)
    np.testing.assert_allclose(np.linalg.norm(standard.A, axis=0), 1)
    assert abs(expect(standard, X)[0] - before) < 1e-12
    x = ac.sphere(X).apply(X)
    np.testing.assert_allclose(standard.c @ sums.posterior, x.sum(axis=0), atol=1e-8)
    kept = in_standard_form(model, sums, frozenset({"c"}), rescale=False)
    np.testing.assert_array_equal(kept.c, model.c)


def test_a_search_that_fails_shortens_forgets_and_ends(X):
    model = some_model()
    value, sums = expect(model, X)
    search = Search()
    assert search.improves(value)
    search.accept(model, sums, value, FREE, BOUNDS)
    first = search.propose(True, value, BOUNDS)
    search.accept(first, expect(first, X)[1], value + 1, FREE, BOUNDS)
    assert search.propose(True, value + 1, BOUNDS) is not None
    lengths = []
    while search.steps:
        assert search.propose(False, np.nan, BOUNDS) is not None
        lengths.append(search.length)
    assert np.all(np.diff(lengths[:-1]) < 0)
    assert lengths[-1] == 1.0  # a new direction, without the memory
    trials = 0
    while search.propose(False, value, BOUNDS) is not None:
        trials += 1
    assert trials == 7


def test_flat_and_bent_likelihoods_do_not_let_steps_grow(X):
    model = some_model()
    value, sums = expect(model, X)
    search = Search()
    search.accept(model, sums, value, FREE, BOUNDS)
    trial = search.propose(True, value, BOUNDS)
    slope = search.slope
    # The gradient has not changed along the step: no curvature at all.
    found = expect(trial, X)[1]
    search.accept(trial, found, value + 1, FREE, BOUNDS)
    search.base, search.slope, search.steps, search.changes = model, slope, [], []
    search._remember(trial, slope)
    s, y = search.steps[0], search.changes[0]
    bent = coordinates.Step.of(s, model)
    assert s @ y == pytest.approx(0.02 * (s @ search.bend.times(bent).flat()))


@pytest.mark.parametrize("n_models", [1, 2])
def test_reaches_what_em_reaches_in_fewer_iterations(n_models):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(2, 4, 4))
    which = np.arange(6000) // 500 % n_models
    X = np.einsum("tij,tj->ti", A[which], rng.laplace(size=(6000, 4)))
    arguments = {"n_models": n_models, "random_state": 0, "max_iter": 160}
    em = ac.fit(X, **arguments)
    fitted = ac.fit(X, **arguments, solver="quasi_newton")
    target = em.log_likelihood - 1e-4
    needed = [int(np.argmax(r.history.log_likelihood >= target)) for r in (em, fitted)]
    assert fitted.log_likelihood > target
    assert needed[1] < needed[0] / 2
    # The model returned is the one with the highest log-likelihood, in standard form.
    np.testing.assert_allclose(np.linalg.norm(fitted.model.A, axis=0), 1)
    joint = fitted.joint_log_likelihood(X)
    mean = np.logaddexp.reduce(joint, axis=1).mean() / 4
    assert abs(mean - fitted.log_likelihood) < 1e-9
    distances = [
        min(ac.amari_distance(fitted.unmixing(h), a) for h in range(n_models))
        for a in A[:n_models]
    ]
    assert max(distances) < 0.06


def test_rejection_and_switching_start_the_search_anew():
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=3000), rng.uniform(-1, 1, size=3000)])
    X = S @ rng.normal(size=(2, 2))
    X[::50] *= 15
    fitted = ac.fit(
        X,
        n_mixtures=1,
        density="switching",
        rejection=ac.Rejection(start=5, interval=4, rounds=3),
        solver="quasi_newton",
        max_iter=80,
        random_state=0,
    )
    assert fitted.history.n_kept[-1] < 3000
    assert set(fitted.model.density) == {1, 4}
    after = fitted.history.n_kept == fitted.history.n_kept[-1]
    assert fitted.log_likelihood == fitted.history.log_likelihood[after].max()


@pytest.mark.parametrize(
    "settings",
    [
        {"density": ac.Switching(start=4)},
        {"rejection": ac.Rejection(start=4, rounds=1)},
    ],
    ids=["switching", "rejection"],
)
def test_the_last_iteration_neither_switches_nor_rejects(settings):
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=2000), rng.uniform(-1, 1, size=2000)])
    S[::50, 0] *= 15
    X = S @ rng.normal(size=(2, 2))
    arguments = {"solver": "quasi_newton", "random_state": 0, **settings}
    fitted = ac.fit(X, **arguments, max_iter=4)
    assert fitted.kept.all()
    seen = expect(fitted.model, X)[0]
    assert seen == pytest.approx(fitted.log_likelihood, abs=1e-12)
    later = ac.fit(X, **arguments, max_iter=5)  # something was due
    assert not later.kept.all() or np.any(later.model.density != fitted.model.density)


@pytest.mark.parametrize("interval", [4, 7])
def test_a_fit_goes_on_from_its_checkpoint(X, tmp_path, interval):
    arguments = {
        "solver": "quasi_newton",
        "random_state": 0,
        "n_models": 2,
        "rejection": ac.Rejection(start=8, rounds=1),
    }
    path = tmp_path / "state.npz"
    ac.fit(X, **arguments, max_iter=interval + 3, checkpoint=path)
    resumed = ac.fit(X, **arguments, max_iter=20, checkpoint=path)
    whole = ac.fit(X, **arguments, max_iter=20)
    for a, b in zip(resumed.history, whole.history, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(resumed.model, whole.model, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="`solver`"):
        ac.fit(X, **(arguments | {"solver": "em"}), checkpoint=path)


def test_fixed_fields_keep_their_values(X):
    first = ac.initial_model(3, random_state=1)
    fixed = ("A", "rho", "c", "gm")
    fitted = ac.fit(X, init=first, fixed=fixed, solver="quasi_newton", max_iter=30)
    np.testing.assert_allclose(fitted.model.A, first.A, rtol=1e-12)
    np.testing.assert_array_equal(fitted.model.rho, first.rho)
    assert np.any(fitted.model.alpha != first.alpha)
    further = ac.fit(X, init=fitted, solver="quasi_newton", max_iter=30)
    assert further.history.log_likelihood[0] > fitted.log_likelihood - 1e-9


def test_a_part_of_the_samples_comes_first(monkeypatch):
    assert shares(10_000, 4, 1) == [0.2]
    assert shares(319_500, 71, 1) == [6 * 71**2 / 319_500]
    assert shares(1e6, 10, 2) == [4e-3, 16e-3, 64e-3]
    assert shares(40_000, 64, 1) == [0.25]  # fewer than wanted, but enough
    assert shares(2500, 4, 1) == []
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(9000, 2)) @ rng.normal(size=(2, 2))
    sizes, iterate = [], _em._iterate

    def watched(state, *arguments):
        sizes.append(len(state.kept))
        iterate(state, *arguments)

    monkeypatch.setattr(_em, "_iterate", watched)
    fitted = ac.fit(X, solver="quasi_newton", max_iter=40, random_state=0)
    assert set(sizes) == {2000, 9000}
    assert sizes == sorted(sizes)
    assert fitted.n_iter == sizes.count(9000)
    # It starts where the part left it: far above the first values.
    first = ac.fit(X, max_iter=1, random_state=0).log_likelihood
    assert fitted.history.log_likelihood[0] > first + 0.01


def first_model(X, model, fixed=FREE):
    plan = _em.Plan(100, None, None, None, BOUNDS, fixed, True, False, None)
    return warm_start(model, X, ac.sphere(X), Backend(), plan, Alone())


def test_sources_of_both_kinds_are_found_on_the_part():
    rng = np.random.default_rng(1)
    S = np.column_stack(
        [rng.laplace(size=(12_000, 2)), rng.uniform(-1, 1, size=(12_000, 2))]
    )
    mixing = rng.normal(size=(4, 4))
    X = S @ mixing.T
    found, reason = first_model(X, ac.initial_model(4, random_state=0))
    assert reason is None
    sphere = ac.sphere(X)
    assert ac.amari_distance(found.unmixing(0) @ sphere.matrix, mixing) < 0.05
    # The densities have their final number of terms, and fit what was found.
    assert found.n_mixtures == 3
    fitted = ac.fit(X, init=found, fixed=("A",), max_iter=100, solver="quasi_newton")
    assert fitted.log_likelihood - expect(found, X)[0] < 3e-3


def test_the_part_leaves_fixed_fields_and_given_models_alone():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(9000, 2)) @ rng.normal(size=(2, 2))
    first = ac.initial_model(2, random_state=0)
    found, _ = first_model(X, first, frozenset({"A", "mu"}))
    np.testing.assert_allclose(found.A, first.A, rtol=1e-12)
    assert np.any(found.beta != first.beta)
    found, _ = first_model(X, first, frozenset({"alpha", "mu", "beta", "rho"}))
    assert np.any(found.A != first.A)
    # Up to the scale that unit columns of A leave to the densities.
    np.testing.assert_array_equal(found.rho, first.rho)
    np.testing.assert_array_equal(found.alpha, first.alpha)
    fitted = ac.fit(X, init=found, solver="quasi_newton", max_iter=1)
    assert fitted.log_likelihood == pytest.approx(expect(found, X)[0], abs=1e-12)


def test_ctrl_c_during_the_first_part_returns_a_model(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(9000, 2)) @ rng.normal(size=(2, 2))
    iterate = _em._iterate

    def interrupted(state, *arguments):
        if len(state.kept) == 2000 and state.iteration == 4:
            raise KeyboardInterrupt
        iterate(state, *arguments)

    monkeypatch.setattr(_em, "_iterate", interrupted)
    fitted = ac.fit(X, solver="quasi_newton", random_state=0)
    assert fitted.stop_reason == "interrupted"
    assert fitted.n_iter == 1
    assert np.isfinite(fitted.log_likelihood)


def test_it_stops_where_little_is_left(X):
    arguments = {"solver": "quasi_newton", "random_state": 0}
    fitted = ac.fit(X, **arguments)
    assert fitted.stop_reason in ("min_change", "min_rate")
    assert fitted.n_iter < 1000
    stopping = ac.Stopping(min_change=1e-7)
    assert ac.fit(X, **arguments, stopping=stopping).n_iter == fitted.n_iter
    early = ac.fit(X, **arguments, stopping=ac.Stopping(min_change=1e-4))
    assert early.stop_reason == "min_change"
    assert early.n_iter < fitted.n_iter
    assert early.log_likelihood > fitted.log_likelihood - 1e-2


def test_the_estimator_passes_the_solver_on(X):
    arguments = {"solver": "quasi_newton", "max_iter": 8, "random_state": 0}
    seen = ac.AMICA(**arguments).fit(X).log_likelihood_
    wanted = ac.fit(X, **arguments).history.log_likelihood
    np.testing.assert_array_equal(seen, wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rate": ac.LearningRate()}, "`learning_rate` must be None"),
        ({"newton": False}, "`newton` must be True"),
        ({"sharing": ac.Sharing()}, "`sharing` must be None"),
        ({"compatibility": "fortran"}, "`compatibility` must be None"),
        ({"solver": "lbfgs"}, "`solver` must be one of 'em', 'quasi_newton'"),
        (
            {
                "init": ac.initial_model(3, 2)._replace(
                    slots=np.array([[0, 0], [1, 4], [2, 5]])
                ),
                "n_models": 2,
            },
            "`init` must not share components",
        ),
    ],
)
def test_what_the_solver_does_not_do(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        ac.fit(X, **({"solver": "quasi_newton"} | arguments))
