"""Bad input gets an error that names the argument; odd but good input a rule."""

import amica_core as ac
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(400, 4)) @ rng.normal(size=(4, 4))


def quick(X, **arguments):
    return ac.fit(X, **({"max_iter": 3, "random_state": 0} | arguments))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[:1], "1 sample"),
        (lambda X: X[:4], r"`X` must have more samples .* got 4 x 4"),
        (lambda X: X.T, r"pass `X.T`"),
        (lambda X: X[:, :0], "0 feature"),
        (lambda X: X[0], "1D array"),
        (lambda X: X.reshape(4, 100, 4), "join epochs"),
        (lambda X: X + 1j, "[Cc]omplex"),
        (lambda X: X.astype(str).astype(object) + "a", "convert"),
        (lambda X: np.where(np.arange(400)[:, None] == 17, np.nan, X), "sample 17"),
        (lambda X: np.where(X == X[3, 2], np.inf, X), "sample 3, channel 2"),
        (lambda X: np.ones_like(X), "`X` must vary"),
    ],
)
@pytest.mark.parametrize("function", [quick, ac.sphere, ac.AMICA(max_iter=3).fit])
def test_samples_that_cannot_be_used(X, function, make, message):
    with pytest.raises(ValueError, match=message):
        function(make(X))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "`n_components` must be at least 1"),
        ({"n_components": 2.0}, TypeError, "`n_components` must be an integer"),
        ({"n_components": 5}, ValueError, "at most the rank of the data, 4"),
        ({"n_models": 0}, ValueError, "`n_models`"),
        ({"n_mixtures": 0}, ValueError, "`n_mixtures`"),
        ({"density": "cauchy"}, ValueError, "`density` must be one of"),
        ({"sphering": "zca"}, ValueError, "`sphering` must be one of"),
        ({"max_iter": 0}, ValueError, "`max_iter`"),
        ({"max_iter": True}, TypeError, "`max_iter`"),
        ({"learning_rate": 0.1}, TypeError, "`learning_rate`"),
        ({"newton": 50}, TypeError, "`newton`"),
        ({"stopping": 1e-9}, TypeError, "`stopping`"),
        ({"rejection": True}, TypeError, "`rejection`"),
        ({"sharing": True}, TypeError, "`sharing`"),
        ({"bounds": (1, 2)}, TypeError, "`bounds`"),
        ({"fixed": ("W",)}, ValueError, "`fixed`"),
        ({"fixed": "mu"}, ValueError, "`fixed`"),
        ({"init": "zeros"}, ValueError, "`init`"),
        ({"init": "fixed", "n_models": 2}, ValueError, '`init="fixed"`'),
        ({"init": ac.initial_model(3)}, ValueError, "`init` must have"),
        ({"compatibility": "matlab"}, ValueError, "`compatibility`"),
        ({"sphering": "diagonal", "n_components": 2}, ValueError, "`n_components`"),
        (
            {"compatibility": "fortran", "density": "sub_gaussian"},
            ValueError,
            "`n_mixtures` must be 1",
        ),
        (
            {"compatibility": "fortran", "density": "switching"},
            ValueError,
            "does not exist",
        ),
        ({"backend": "fpga"}, ValueError, "`backend`"),
    ],
)
def test_arguments_of_fit(X, arguments, error, message):
    with pytest.raises(error, match=message):
        quick(X, **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ac.LearningRate(rate=0), "`LearningRate.rate`"),
        (lambda: ac.LearningRate(factor=1.5), "`LearningRate.factor`"),
        (lambda: ac.Newton(start=0), "`Newton.start`"),
        (lambda: ac.Newton(rate=-1.0), "`Newton.rate`"),
        (lambda: ac.Stopping(min_change=0), "`Stopping.min_change`"),
        (lambda: ac.Stopping(patience=-1), "`Stopping.patience`"),
        (lambda: ac.Bounds(beta=(2.0, 1.0)), "`Bounds.beta`"),
        (lambda: ac.Bounds(rho=(0.0, 2.0)), r"`Bounds.rho\[0\]`"),
        (lambda: ac.Rejection(rounds=0), "`Rejection.rounds`"),
        (lambda: ac.Rejection(threshold=float("nan")), "`Rejection.threshold`"),
        (lambda: ac.Sharing(threshold=1.5), "`Sharing.threshold`"),
        (lambda: ac.Switching(interval=0), "`Switching.interval`"),
        (lambda: ac.initial_model(0), "`n_components`"),
        (lambda: ac.initial_model(2, 0), "`n_models`"),
        (lambda: ac.initial_model(2, rho=0.0), "`rho`"),
        (lambda: ac.sphere(np.ones((9, 2)), kind="zca"), "`kind`"),
    ],
)
def test_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X),
        lambda X: X[::-1][::-1],
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.tolist(),
        lambda X: _read_only(X),
    ],
)
def test_layouts_of_the_same_samples(X, make):
    result, other = quick(X), quick(make(X))
    np.testing.assert_allclose(
        other.history.log_likelihood, result.history.log_likelihood, atol=1e-6
    )


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def test_float16_and_integers_are_computed_in_float64(X):
    for kind in (np.float16, np.int16, np.uint8, bool):
        result = quick(np.maximum(10 * X, 0).astype(kind))
        assert result.model.A.dtype == np.float64
        assert np.isfinite(result.history.log_likelihood).all()


def test_large_and_small_units_give_the_same_decomposition(X):
    base = quick(X)
    for scale in (1e-12, 1e12):
        scaled = quick(scale * X)
        np.testing.assert_allclose(scaled.model.A, base.model.A, atol=1e-6)
        np.testing.assert_allclose(
            scaled.log_likelihood, base.log_likelihood - np.log(scale), atol=1e-6
        )


def test_samples_exactly_on_a_centre():
    # Integer samples sphere to a lattice through the centre of the middle term.
    X = np.random.default_rng(0).integers(-2, 3, size=(300, 2))
    X = np.concatenate([X, -X])
    result = quick(X, init="fixed", max_iter=20)
    assert np.isfinite(result.history.log_likelihood).all()
    fortran = quick(X, init="fixed", max_iter=20, compatibility="fortran")
    assert fortran.stop_reason == "not_finite"


def test_one_channel():
    X = np.random.default_rng(0).laplace(size=(500, 1))
    result = quick(X, max_iter=30)
    assert result.unmixing().shape == (1, 1)


def test_average_reference_and_constant_channels_are_said(X):
    referenced = (X - X.mean(axis=1, keepdims=True)).astype(np.float32)
    with pytest.warns(RuntimeWarning, match="rank 3"):
        assert quick(referenced).model.n_components == 3
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    with pytest.warns(RuntimeWarning, match="rank 4"):
        result = quick(constant)
    np.testing.assert_allclose(result.mixing()[4], 0, atol=1e-9)
    with pytest.raises(ValueError, match=r"constant \[4\]"):
        quick(constant, sphering="diagonal")


def test_estimator_methods(X):
    amica = ac.AMICA(max_iter=3, random_state=0)
    with pytest.raises(NotFittedError):
        amica.transform(X)
    with pytest.raises(NotFittedError):
        amica.inverse_transform(X)
    amica.fit(X)
    for method in (amica.transform, amica.score_samples, amica.predict_proba):
        with pytest.raises(ValueError, match="3 features"):
            method(X[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            method(np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match="`S` must have 4 columns"):
        amica.inverse_transform(X[:, :2])
    with pytest.raises(ValueError, match="`model` must be below 1"):
        amica.transform(X, model=1)
    with pytest.raises(TypeError, match="`model`"):
        amica.transform(X, model="best")


def test_files(tmp_path, X):
    result = quick(X)
    path = tmp_path / "fit.npz"
    ac.save_result(result, path)
    loaded = ac.load_result(path)
    np.testing.assert_array_equal(loaded.unmixing(), result.unmixing())
    assert loaded.stop_reason == result.stop_reason
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="not a NumPy archive"):
        ac.load_result(path)
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(ValueError, match="another archive"):
        ac.load_result(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        ac.read_samples(tmp_path / "nothing.set")
    (tmp_path / "data.xyz").touch()
    with pytest.raises(ValueError, match=r"must end in one of \.npy"):
        ac.read_samples(tmp_path / "data.xyz")
    np.save(tmp_path / "data.npy", X)
    with pytest.raises(ValueError, match="`high_pass`"):
        ac.read_samples(tmp_path / "data.npy", high_pass=1.0)
