"""The compiled backend against the NumPy backend and the recorded Fortran runs."""

from dataclasses import fields

import amica_core as ac
import golden
import numpy as np
import pytest
import threadpoolctl
from amica_core._backend.numpy import Backend as NumpyBackend
from amica_core._backend.protocol import load_backend
from amica_core._statistics import Density, Options, Parameters

pytest.importorskip("amica_native", reason="amica-native is not installed")

DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}
# f / y is singular at y = 0: one sample may be most of the sum.
SINGULAR = {"float32": 1e-2, "float64": 1e-9}
needs_golden = pytest.mark.skipif(
    not golden.FOLDER.is_dir(), reason="the golden runs (shared/golden) are not here"
)


class Source:
    """Samples that are sphered already."""

    def __init__(self, x):
        self.x = x
        self.n_samples, self.n_components = x.shape

    def block(self, start, stop):
        return np.ascontiguousarray(self.x[start:stop], np.float64)


def make_parameters(n, M, J, density, seed=0):
    rng = np.random.default_rng(seed)
    shape = (M, n, J)
    rho = rng.uniform(1.1, 1.9, shape)
    rho.flat[:3] = 1.0, 2.0, 2.5
    return Parameters(
        unmixing=np.eye(n) + 0.1 * rng.normal(size=(M, n, n)),
        offset=0.1 * rng.normal(size=(M, n)),
        log_weight=rng.normal(size=M),
        log_scale=rng.normal(size=shape) / 3 - 1,
        mu=rng.normal(size=shape),
        beta=rng.uniform(0.7, 1.4, shape),
        rho=rho,
        density=np.broadcast_to(density, (M, n)).astype(np.int64),
    )


def assert_same_record(seen, wanted, dtype):
    for field in fields(wanted):
        a, b = getattr(seen, field.name), getattr(wanted, field.name)
        if b is None:
            assert a is None, field.name
            continue
        tolerance = SINGULAR if field.name == "score_over_y" else TOLERANCE
        scale = max(1.0, float(np.max(np.abs(b))))
        np.testing.assert_allclose(
            a, b, rtol=0, atol=tolerance[dtype] * scale, err_msg=field.name
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("M", [1, 2])
@pytest.mark.parametrize("density", [*Density, np.arange(5)], ids=str)
def test_record_of_the_numpy_backend(dtype, M, density):
    x = np.random.default_rng(1).laplace(size=(5000, 5))
    kept = np.random.default_rng(2).random(5000) < 0.9
    parameters = make_parameters(5, M, 3, density)
    backend, reference = load_backend("native", dtype=dtype), NumpyBackend()
    (block,) = backend.place(Source(x))
    assert len(block) == 5000
    for options in (Options(), Options(newton=True, kurtosis=True, joint=True)):
        for used in (None, kept):
            wanted = reference.statistics(x, parameters, options, used)
            seen = backend.statistics(block, parameters, options, used)
            assert_same_record(seen, wanted, dtype)
            plain_array = backend.statistics(x, parameters, options, used)
            assert_same_record(plain_array, wanted, dtype)


def fit(case, dtype, **changes):
    arguments = case.arguments() | {"backend": "native"} | changes
    return ac.fit(
        golden.samples(case.name), backend_options={"dtype": dtype}, **arguments
    )


@needs_golden
@pytest.mark.parametrize("name", golden.names())
def test_float64_repeats_the_fortran_program(name):
    case = golden.Case(name)
    result = fit(case, "float64")
    distance = np.abs(result.history.log_likelihood - case.log_likelihood())
    np.testing.assert_array_equal(result.model.slots, case.slots())
    if name == "avgref_keepall_nomu":  # Fortran differs from itself by 4e-4
        assert distance.max() < 1e-3
    elif case.is_tame:
        assert distance.max() < 1e-10
        for field, values in case.parameters(result.model).items():
            seen = getattr(result.model, field)[..., values.used]
            np.testing.assert_allclose(seen, values.expected, atol=1e-8, err_msg=field)
    else:  # what two builds of the Fortran program show against each other
        noise = case.noise_course()
        assert np.all(distance[:10] <= np.maximum(10 * noise[:10], 1e-8))
        assert np.all(distance <= np.maximum(10 * noise, 1e-4))


@needs_golden
@pytest.mark.parametrize("name", golden.names())
def test_float32_ends_where_the_fortran_program_does(name):
    case = golden.Case(name)
    result = fit(case, "float32")
    expected = case.log_likelihood()
    course = result.history.log_likelihood
    assert abs(course[0] - expected[0]) < (1e-3 if "avgref" in name else 1e-7)
    noise = 0.0 if case.is_tame else 10 * case.noise_course()[-1]
    assert abs(course[-1] - expected[-1]) < max(noise, 2e-5 if case.is_tame else 1e-4)
    used = case.parameters(result.model)["A"]
    cosines = np.sum(result.model.A[:, used.used] * used.expected, axis=0)
    assert cosines.min() > (0.999 if case.is_tame else 0.98)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_fit(dtype):
    X = np.random.default_rng(3).laplace(size=(6000, 4))
    one, three = (
        ac.fit(
            X,
            max_iter=5,
            random_state=0,
            backend="native",
            backend_options={"dtype": dtype, "n_jobs": n_jobs},
        )
        for n_jobs in (1, 3)
    )
    for first, second in zip(one.model, three.model, strict=True):
        np.testing.assert_array_equal(first, second)


def test_number_of_threads():
    assert load_backend("native", n_jobs=3).n_threads == 3
    assert load_backend("native", n_jobs=-1).n_threads >= 1
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert load_backend("native").n_threads == 1
        assert load_backend("native", n_jobs=2).n_threads == 2


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"dtype": "float16"}, ValueError, "`dtype` must be one of 'float32', 'float6"),
        ({"n_jobs": 0}, ValueError, "`n_jobs` must be at least 1, got 0"),
        ({"n_jobs": -2}, ValueError, "`n_jobs` must be at least 1, got -2"),
        ({"n_jobs": 1.5}, TypeError, "`n_jobs` must be an integer, got 1.5"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        load_backend("native", **settings)
