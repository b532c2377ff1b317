"""The torch backend against the NumPy backend."""

import os
from dataclasses import fields

import amica_core as ac
import numpy as np
import pytest
from amica_core._backend.numpy import Backend as NumpyBackend
from amica_core._model import expectation_parameters
from amica_core._statistics import Density, Options, Statistics

torch = pytest.importorskip("torch", reason="torch is not installed")

from amica_core._backend.torch import Backend, _block_sums  # noqa: E402

ALL = Options(newton=True, kurtosis=True, joint=True)


def model_and_samples(n_models=2, codes=(0,), seed=0, n=4, J=3):
    rng = np.random.default_rng(seed)
    model = ac.initial_model(n, n_models, J, random_state=seed)
    shape = model.rho.shape
    model = model._replace(
        A=rng.normal(size=model.A.shape),
        c=0.1 * rng.normal(size=model.c.shape),
        rho=rng.choice([1.0, 1.3, 2.0, 2.5], size=shape),
        density=np.resize(codes, shape[1]),
    )
    return model, rng.laplace(size=(700, n))


def assert_equal(seen: Statistics, wanted: Statistics, tolerance: float):
    for field in fields(Statistics):
        a, b = getattr(seen, field.name), getattr(wanted, field.name)
        assert (a is None) == (b is None), field.name
        if b is not None:
            finite = np.abs(b[np.isfinite(b)]) if np.ndim(b) else np.abs(b)
            scale = np.max(finite, initial=0.0)
            if field.name == "score_over_y" and tolerance > 1e-6:
                scale *= 100  # singular at y = 0: one sample may be most of the sum
            np.testing.assert_allclose(
                a, b, rtol=0, atol=tolerance * scale, err_msg=field.name
            )


@pytest.mark.parametrize("codes", [(0,), (1,), (2,), (3,), (4,), (0, 4, 1, 4)])
@pytest.mark.parametrize("n_models", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)]
)
def test_statistics_equal_numpy(codes, n_models, dtype, tolerance):
    model, x = model_and_samples(n_models, codes)
    parameters = expectation_parameters(model, 0.3)
    kept = np.arange(len(x)) % 3 > 0
    for mask in (None, kept):
        wanted = NumpyBackend().statistics(x, parameters, ALL, mask)
        seen = Backend(dtype=dtype).statistics(x, parameters, ALL, mask)
        assert_equal(seen, wanted, tolerance)


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("code", list(Density))
@pytest.mark.parametrize("rho", [1.0, 1.5, 2.0, 2.5])
def test_samples_on_a_centre(fortran, code, rho):
    model = ac.initial_model(2, 1, 3, density=code, rho=rho)
    parameters = expectation_parameters(model, 0.0)
    x = np.array([[0.0, 1.0], [0.5, -1.0], [0.2, 0.1]])
    options = ALL._replace(fortran=fortran)
    with np.errstate(invalid="ignore"):
        wanted = NumpyBackend().statistics(x, parameters, options)
    assert_equal(Backend().statistics(x, parameters, options), wanted, 1e-12)
    assert fortran or np.isfinite(wanted.score_over_y).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_models": 2},
        {"n_models": 2, "sharing": ac.Sharing(15, 5, 0.9)},
        {"rejection": ac.Rejection()},
        {"density": "switching"},
        {"density": "logistic"},
    ],
)
def test_every_iteration_equals_numpy(changes):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(2000, 4)) @ rng.normal(size=(4, 4))
    X[::50] *= 5
    # The step of `mu` amplifies rounding; without it trajectories stay together.
    arguments = {"max_iter": 30, "newton": ac.Newton(10), "fixed": ("mu",)}
    arguments |= {"random_state": 0} | changes
    wanted = ac.fit(X, **arguments, backend="numpy")
    seen = ac.fit(X, **arguments, backend="torch")
    np.testing.assert_allclose(
        seen.history.log_likelihood, wanted.history.log_likelihood, rtol=0, atol=1e-10
    )
    np.testing.assert_array_equal(seen.kept, wanted.kept)


def test_float32_ends_where_float64_does():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(2000, 4)) @ rng.normal(size=(4, 4))
    arguments = {"max_iter": 150, "newton": ac.Newton(20), "random_state": 0}
    double = ac.fit(X, **arguments)
    single = ac.fit(
        X, **arguments, backend="torch", backend_options={"dtype": "float32"}
    )
    assert abs(single.log_likelihood - double.log_likelihood) < 1e-5
    for a, b in zip(single.sources(X).T, double.sources(X).T, strict=True):
        assert abs(np.corrcoef(a, b)[0, 1]) > 0.999


def test_blocks_are_streamed_and_filled_up():
    model, x = model_and_samples()
    parameters = expectation_parameters(model, 0.0)

    class Source:
        n_samples, n_components = x.shape

        def block(self, start, stop):
            return x[start:stop]

    backend = Backend(block_size=300)
    blocks = list(backend.place(Source()))
    assert [len(b) for b in blocks] == [300, 300, 100]
    assert [len(b.x) for b in blocks] == [300, 300, 300]
    total = backend.statistics(blocks[0], parameters, ALL)
    for block in blocks[1:]:
        total = total + backend.statistics(block, parameters, ALL)
    assert_equal(total, backend.statistics(x, parameters, ALL), 1e-12)


# torch warns about its own use of what it has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "compiler",
    [
        "aot_eager",  # the same graph without the half minute of C++
        pytest.param(
            "inductor",
            marks=pytest.mark.skipif(
                "AMICA_TEST_COMPILE" not in os.environ,
                reason="takes minutes; set AMICA_TEST_COMPILE to run it",
            ),
        ),
    ],
)
def test_compiled_equals_eager(compiler):
    model, x = model_and_samples(n_models=1)
    parameters = expectation_parameters(model, 0.0)
    wanted = Backend().statistics(x, parameters, ALL)
    compiled = Backend(compile=True)
    if compiler != "inductor":
        compiled.sums = torch.compile(_block_sums, backend=compiler)
    assert_equal(compiled.statistics(x, parameters, ALL), wanted, 1e-12)


def test_settings():
    with pytest.raises(ValueError, match="`dtype` must be one of"):
        Backend(dtype="float16")
    with pytest.raises(ValueError, match="`device` must be one"):
        Backend(device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="`device` must be one"):
            Backend(device="cuda")
    with pytest.raises(ValueError, match="`block_size`"):
        Backend(block_size=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_cuda_equals_cpu():
    model, x = model_and_samples()
    parameters = expectation_parameters(model, 0.0)
    wanted = Backend().statistics(x, parameters, ALL)
    assert_equal(Backend("cuda").statistics(x, parameters, ALL), wanted, 1e-12)
