"""The vectorised functions against exact values."""

import amica_native
import numpy as np
import pytest
from amica_native._elementary import ERROR_ULP

SETS = amica_native.instruction_sets()
DTYPES = [np.float32, np.float64]


@pytest.fixture(autouse=True, params=SETS)
def instruction_set(request):
    with amica_native.use_instruction_set(request.param):
        yield request.param


def error_ulp(seen, exact):
    """Largest distance, in units in the last place of the exact values."""
    exact = np.asarray(exact, np.longdouble)
    unit = np.spacing(np.abs(exact).astype(seen.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(seen.astype(np.longdouble) - exact) / unit))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp2_is_within_the_stated_error(dtype):
    limit = 125 if dtype == np.float32 else 1021
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-limit, limit, 200_000), rng.normal(size=200_000), [0.0, -0.5]]
    ).astype(dtype)
    error = error_ulp(amica_native.exp2(x), np.exp2(x.astype(np.longdouble)))
    assert error <= ERROR_ULP["exp2", np.dtype(dtype).name]


@pytest.mark.parametrize("dtype", DTYPES)
def test_log2_is_within_the_stated_error(dtype):
    rng = np.random.default_rng(1)
    limit = 125 if dtype == np.float32 else 1020
    x = np.concatenate(
        [2.0 ** rng.uniform(-limit, limit, 200_000), rng.uniform(1e-3, 8, 200_000)]
    ).astype(dtype)
    error = error_ulp(amica_native.log2(x), np.log2(x.astype(np.longdouble)))
    assert error <= ERROR_ULP["log2", np.dtype(dtype).name]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_and_special_values(dtype):
    powers = np.arange(-100, 101).astype(dtype)
    np.testing.assert_array_equal(amica_native.exp2(powers), 2.0**powers)
    np.testing.assert_array_equal(amica_native.log2(2.0**powers), powers)
    x = np.array([-np.inf, -1e30, np.inf, 1e30, np.nan], dtype)
    np.testing.assert_array_equal(
        amica_native.exp2(x), np.array([0, 0, np.inf, np.inf, np.nan], dtype)
    )
    smallest = np.log2(np.finfo(dtype).tiny)
    x = np.array([0.0, np.finfo(dtype).tiny, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(
        amica_native.log2(x), np.array([smallest - 1, smallest, np.inf, np.nan], dtype)
    )


def test_against_mpmath():
    mpmath = pytest.importorskip("mpmath", reason="mpmath gives the exact values")
    with mpmath.workdps(40):
        x = np.random.default_rng(2).uniform(0.01, 30, 300)
        exact_power = [mpmath.mpf(2) ** mpmath.mpf(float(v)) for v in x]
        exact_log = [mpmath.log(mpmath.mpf(float(v)), 2) for v in x]
        for name, exact in (("exp2", exact_power), ("log2", exact_log)):
            seen = getattr(amica_native, name)(x)
            worst = max(
                abs(mpmath.mpf(float(s)) - e) / mpmath.mpf(float(np.spacing(abs(s))))
                for s, e in zip(seen, exact, strict=True)
            )
            assert worst <= ERROR_ULP[name, "float64"]


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 31])
def test_every_length_and_shape(size):
    x = np.linspace(1, 2, size)
    np.testing.assert_allclose(amica_native.exp2(x), 2.0**x, rtol=1e-15)
    column = x.reshape(-1, 1)[::-1]
    np.testing.assert_allclose(amica_native.log2(column), np.log2(column), atol=1e-15)


def test_integers_read_only_and_bad_input():
    x = np.arange(1, 5)
    x.flags.writeable = False
    np.testing.assert_array_equal(amica_native.exp2(x), [2, 4, 8, 16])
    for function in (amica_native.exp2, amica_native.log2):
        with pytest.raises(TypeError, match="`x` must be real"):
            function(np.ones(3, complex))
        with pytest.raises(TypeError, match="`x` must be real"):
            function(["one"])
