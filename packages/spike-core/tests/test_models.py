"""The equations of each neuron against a NumPy loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spike_core import (
    ALIF,
    EIF,
    IF,
    IZHIKEVICH_PRESETS,
    LIF,
    QIF,
    AdEx,
    AlphaLIF,
    CubaLIF,
    Izhikevich,
    LeakyIntegrator,
    ResonateAndFire,
    unroll,
)


def alif(xs, tau=20.0, tau_a=200.0, beta=0.2):
    v, a, out = 0.0, 0.0, []
    for x in xs:
        u = np.exp(-1 / tau) * v + (1 - np.exp(-1 / tau)) * x
        threshold = 1 + beta * a
        s = u > threshold
        v = u - threshold * s
        a = np.exp(-1 / tau_a) * a + s
        out.append((s, v, a))
    return out


def cuba_lif(xs, tau=20.0, tau_s=5.0):
    v, i, out = 0.0, 0.0, []
    for x in xs:
        i = np.exp(-1 / tau_s) * i + (1 - np.exp(-1 / tau_s)) * x
        u = np.exp(-1 / tau) * v + (1 - np.exp(-1 / tau)) * i
        s = u > 1
        v = u - s
        out.append((s, v, i))
    return out


def alpha_lif(xs, tau=20.0, tau_s=5.0):
    """The current by convolution with the alpha function, not by recursion."""
    lag = np.arange(len(xs), dtype=float)
    kernel = lag / tau_s * np.exp(1 - lag / tau_s)
    kernel *= (1 - np.exp(-1 / tau_s)) ** 2 * tau_s * np.exp(1 / tau_s - 1)
    v, out = 0.0, []
    for t in range(len(xs)):
        i = np.tensordot(kernel[: t + 1][::-1], xs[: t + 1], 1)
        u = np.exp(-1 / tau) * v + (1 - np.exp(-1 / tau)) * i
        s = u > 1
        v = u - s
        out.append((s, v, i))
    return out


def eif(xs, tau=20.0, width=0.1, onset=0.8):
    v, out = np.zeros_like(xs[0]), []
    for x in xs:
        u = v + (width * np.exp((v - onset) / width) - v + x) / tau
        s = u > 1
        v = np.where(s, 0, u)
        out.append((s, v))
    return out


def qif(xs, tau=20.0, critical=0.8):
    v, out = np.zeros_like(xs[0]), []
    for x in xs:
        u = v + (v * (v - critical) + x) / tau
        s = u > 1
        v = np.where(s, 0, u)
        out.append((s, v))
    return out


def adex(xs, dt=1.0):
    v, w, out = np.full_like(xs[0], -70.6), np.zeros_like(xs[0]), []
    for x in xs:
        current = -30 * (v + 70.6) + 30 * 2 * np.exp((v + 50.4) / 2) - w + x
        u, w = v + dt * current / 281, w + dt * (4 * (v + 70.6) - w) / 144
        s = u > -40.4
        v, w = np.where(s, -70.6, u), w + 80.5 * s
        out.append((s, v, w))
    return out


def izhikevich(xs, a=0.02, b=0.2, c=-65.0, d=8.0):
    v = np.full_like(xs[0], -65.0)
    u, out = b * v, []
    for x in xs:
        for _ in range(2):
            v = np.where(v > 30, v, v + (0.04 * v**2 + 5 * v + 140 - u + x) / 2)
        u = u + a * (b * np.minimum(v, 30) - u)
        s = v > 30
        v, u = np.where(s, c, v), u + d * s
        out.append((s, v, u))
    return out


def resonate_and_fire(xs, tau=40.0, frequency=20.0):
    turn = np.exp(-1 / tau + 2j * np.pi * frequency / 1000)
    z, out = 0j, []
    for x in xs:
        z = turn * z + (1 - np.exp(-1 / tau)) * x
        s = z.imag > 1
        z = np.where(s, 0, z)
        out.append((s, z.imag, z.real))
    return out


def integrate_and_fire(xs):
    v, out = 0.0, []
    for x in xs:
        s = v + x > 1
        v = v + x - s
        out.append((s, v))
    return out


EQUATIONS = {
    "IF": (IF, integrate_and_fire, 0.2, 0.4),
    "ALIF": (ALIF, alif, 2.0, 4.0),
    "CubaLIF": (CubaLIF, cuba_lif, 2.0, 4.0),
    "AlphaLIF": (AlphaLIF, alpha_lif, 2.0, 4.0),
    "EIF": (EIF, eif, 1.0, 3.0),
    "QIF": (QIF, qif, 1.0, 3.0),
    "AdEx": (AdEx, adex, 800.0, 900.0),
    "Izhikevich": (Izhikevich, izhikevich, 8.0, 6.0),
    "ResonateAndFire": (ResonateAndFire, resonate_and_fire, 1.0, 20.0),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations(name):
    kind, reference, mean, spread = EQUATIONS[name]
    xs = np.random.default_rng(0).normal(mean, spread, (200, 2, 3))
    neuron = kind(3, param_dtype=jnp.float64)
    state, spikes = unroll(neuron, jnp.asarray(xs))
    want = reference(xs)
    trains = np.array([step[0] for step in want], float)
    assert 0.01 < trains.mean() < 0.9
    np.testing.assert_array_equal(spikes, trains)
    leaves = jax.tree.leaves(state)
    for leaf, value in zip(leaves, want[-1][1:], strict=False):
        np.testing.assert_allclose(leaf, value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", IZHIKEVICH_PRESETS)
def test_izhikevich_presets_fire_as_published(name):
    # A step of current 10, one second: the patterns of figure 2 of the paper.
    neuron = Izhikevich(1, **IZHIKEVICH_PRESETS[name], param_dtype=jnp.float64)
    train = np.asarray(unroll(neuron, jnp.full((1000, 1), 10.0))[1])[:, 0]
    want = izhikevich(
        np.full((1000, 1), 10.0),
        **{
            "c" if key == "v_reset" else key: value
            for key, value in IZHIKEVICH_PRESETS[name].items()
        },
    )
    np.testing.assert_array_equal(train, [step[0][0] for step in want])
    intervals = np.diff(np.flatnonzero(train))
    bursts = (intervals[3:] < 10).any() and (intervals[3:] > 20).any()
    assert bursts == (name == "chattering")
    if name in ("regular spiking", "intrinsically bursting"):
        assert intervals[0] < intervals[-1]  # adapts
    if name == "fast spiking":
        assert len(intervals) > 60  # fires fast


LINEAR = {
    "LIF": LIF,
    "LeakyIntegrator": LeakyIntegrator,
    "IF": IF,
    "CubaLIF": CubaLIF,
    "ResonateAndFire": ResonateAndFire,
}
every_linear = pytest.mark.parametrize("kind", LINEAR.values(), ids=LINEAR)


def without_reset(kind, **more):
    if kind is not LeakyIntegrator:
        more["reset"] = "none"
    return kind(3, **more)


@every_linear
@pytest.mark.parametrize("gain", ["leak", "unit"])
@pytest.mark.parametrize("each", [False, True], ids=["scalar", "each"])
def test_linear_form(kind, gain, each):
    more = {} if kind is IF else {"input_gain": gain}
    if each:
        more["threshold" if kind is IF else "tau"] = np.array([2.0, 5.0, 50.0])
    neuron = without_reset(kind, **more)
    xs = jnp.asarray(np.random.default_rng(2).normal(size=(40, 2, 3)))
    a, b = map(np.asarray, neuron.linear_form(xs))
    state, ys = unroll(neuron, xs)
    leaves, tree = jax.tree.flatten(state)
    h = np.zeros((2, 3) if len(leaves) == 1 else (2, 3, 2))
    assert b.shape == (40, *h.shape)
    trajectory = []
    for b_t in b:
        h = a * h + b_t if h.ndim == 2 else (a @ h[..., None])[..., 0] + b_t
        trajectory.append(h)
    path = np.stack(trajectory).reshape(40, 2, 3, -1)
    states = tree.unflatten(jnp.asarray(path[..., k]) for k in range(len(leaves)))
    for k, leaf in enumerate(leaves):
        np.testing.assert_allclose(path[-1, ..., k], leaf, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(neuron.emit(states), ys, rtol=1e-10, atol=1e-12)


@every_linear
def test_linear_form_of_nothing_and_of_low_precision(kind):
    neuron = without_reset(kind)
    assert neuron.linear_form(jnp.zeros((0, 2, 3), jnp.float32)).b.shape[:3] == (
        0,
        2,
        3,
    )
    a, b = neuron.linear_form(jnp.zeros((4, 3), jnp.bfloat16))
    assert a.dtype == b.dtype == jnp.float32


@every_linear
def test_linear_form_refuses_what_is_not_linear_and_bad_input(kind):
    if kind is not LeakyIntegrator:
        for reset in ("subtract", "zero", "value"):
            message = f'linear only for `reset="none"`, got `reset=.{reset}'
            with pytest.raises(ValueError, match=message):
                kind(3, reset=reset).linear_form(jnp.ones((5, 3)))
        with pytest.raises(ValueError, match="`refractory=1`"):
            kind(3, reset="none", refractory=1).linear_form(jnp.ones((5, 3)))
    neuron = without_reset(kind)
    with pytest.raises(ValueError, match="`xs` must end in the features"):
        neuron.linear_form(jnp.ones((5, 4)))
    with pytest.raises(ValueError, match="after the time axis"):
        neuron.linear_form(jnp.ones(3))
    with pytest.raises(TypeError, match="`xs` must have a real floating dtype"):
        neuron.linear_form(jnp.ones((5, 3), int))
