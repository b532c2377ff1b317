"""Every surrogate: exact spikes, finite derivatives, pinned peak and area."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spike_core import (
    ATan,
    Boxcar,
    Erf,
    Exponential,
    FastSigmoid,
    Logarithmic,
    MultiGaussian,
    PowerLaw,
    Sigmoid,
    StraightThrough,
    Surrogate,
    Tanh,
    Triangular,
)

# Peak and area of the derivative, and whose convention that is.
SURROGATES = {
    "jaxpike, snnTorch, SpikingJelly ATan 2": (ATan(), 1.0, 1.0),
    "ATan 5": (ATan(5.0), 2.5, 1.0),
    "jaxpike, snnTorch, Spyx fast sigmoid 25": (FastSigmoid(), 1.0, 2 / 25),
    "Norse super": (FastSigmoid(1.0), 1.0, 2.0),
    "SpikingJelly Sigmoid 4": (Sigmoid(), 1.0, 1.0),
    "snnTorch sigmoid 25": (Sigmoid(25.0), 6.25, 1.0),
    "Spyx, Norse tanh 1": (Tanh(), 1.0, 2.0),
    "SpikingJelly Erf 2": (Erf(), 2 / np.sqrt(np.pi), 1.0),
    "SpikingJelly PiecewiseExp 2": (Exponential(), 1.0, 1.0),
    "jaxpike Triangular 1, SpikingJelly PiecewiseQuadratic 1": (Triangular(), 1.0, 1.0),
    "jaxpike Boxcar of width 2, Spyx boxcar": (Boxcar(0.5), 0.5, 1.0),
    "MultiGaussian": (
        MultiGaussian(),
        2 / np.sqrt(2 * np.pi) * (1.15 - 0.3 / 6 * np.exp(-1 / 72)),
        0.85,
    ),
    "SpikingJelly QPseudoSpike 2": (PowerLaw(), 1.0, 1.0),
    "PowerLaw 4": (PowerLaw(3.0, exponent=4.0), 1.0, 1 / 3),
    "SpikingJelly NonzeroSignLogAbs 1": (Logarithmic(), 1.0, np.inf),
    "snnTorch straight-through": (StraightThrough(), 1.0, np.inf),
}
each = pytest.mark.parametrize(
    "surrogate", [s for s, _, _ in SURROGATES.values()], ids=str
)


def derivative(surrogate, u):
    return jax.jit(jax.vmap(jax.grad(surrogate)))(u)


@pytest.mark.parametrize("name", SURROGATES)
def test_peak_and_area(name):
    surrogate, peak, area = SURROGATES[name]
    # Of u = tan(z): dense near zero, and the tails count too.
    z = np.linspace(-np.pi / 2, np.pi / 2, 400_002)[1:-1]
    at_zero, *slopes = np.asarray(derivative(surrogate, np.tan(np.append(0.0, z))))
    np.testing.assert_allclose(at_zero, peak, rtol=1e-12)
    if area == np.inf:
        return
    values = slopes / np.cos(z) ** 2
    np.testing.assert_allclose(np.sum(values) * (z[1] - z[0]), area, rtol=1e-3)


@each
def test_finite_everywhere(surrogate):
    def everything(u):
        by_slope = jax.jacfwd(lambda k: surrogate(u, k))(jnp.asarray(2, u.dtype))
        return surrogate(u), jax.vmap(jax.grad(surrogate))(u), by_slope

    inputs = {}
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64):
        far = min(1e30, float(jnp.finfo(dtype).max))
        u = [-far, -1e4, -1.0, -1e-4, 0.0, 1e-4, 1.0, 1e4, far]
        inputs[jnp.dtype(dtype).name] = np.array(u, dtype)
    # All dtypes in one compilation.
    found = jax.jit(lambda inputs: jax.tree.map(everything, inputs))(inputs)
    for name, (spikes, slopes, by_slope) in found.items():
        np.testing.assert_array_equal(spikes, [0, 0, 0, 0, 0, 1, 1, 1, 1], name)
        assert slopes.dtype == name
        assert np.isfinite(slopes).all(), name
        assert np.isfinite(by_slope).all(), name
        if not isinstance(surrogate, MultiGaussian):
            assert (np.asarray(slopes) >= 0).all(), name


@each
def test_derivative_is_that_of_the_relaxation(surrogate):
    u, h = np.linspace(-2, 2, 41) + 0.013, 1e-6
    relaxation = surrogate.relaxation

    @jax.jit
    def both(u, k):
        found = jax.vmap(jax.grad(surrogate), (0, None))(u, k)
        differences = relaxation(u + h, k) - relaxation(u - h, k)
        by_slope = jax.jacobian(lambda k: surrogate(u, k))(k)
        by_slope_differences = relaxation(u, k + h) - relaxation(u, k - h)
        return (found, differences / (2 * h)), (by_slope, by_slope_differences / 2 / h)

    by_input, by_slope = both(u, np.float64(surrogate.slope))
    np.testing.assert_allclose(*by_input, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(*by_slope, rtol=1e-4, atol=1e-7)


def test_one_of_your_own():
    class Logistic(Surrogate):
        def relaxation(self, u, slope):
            return jax.nn.sigmoid(slope * u)

    assert Logistic(8.0) == Logistic(8.0) != Logistic(7.0)
    assert hash(Logistic(8.0)) == hash(Logistic(8.0))
    np.testing.assert_allclose(jax.grad(Logistic(8.0))(jnp.float64(0)), 2.0)


def test_refuses_bad_input():
    for slope in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="`slope`"):
            ATan(slope)
    with pytest.raises(ValueError, match="`height` must be finite and at least 0"):
        MultiGaussian(height=-0.1)
    with pytest.raises(ValueError, match="`width`"):
        MultiGaussian(width=0.0)
    with pytest.raises(
        ValueError, match="`exponent` must be finite and greater than 1"
    ):
        PowerLaw(exponent=1.0)
    with pytest.raises(TypeError, match="`u` must have a real floating dtype"):
        ATan()(jnp.arange(3))
    with pytest.raises(TypeError, match="`u` must be an array"):
        ATan()(0.5)
    with pytest.raises(NotImplementedError, match="must define `relaxation`"):
        jax.grad(Surrogate())(jnp.float64(0.0))
