"""The equations of LIF and LeakyIntegrator against a NumPy loop in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    LIF,
    ATan,
    FastSigmoid,
    LeakyIntegrator,
    LIFState,
    unroll,
)


def reference(
    xs,
    *,
    tau,
    threshold=1.0,
    reset="subtract",
    v_reset=0.0,
    input_gain="leak",
    refractory=0,
    dt=1.0,
):
    """Spikes and membranes, written as one would on paper."""
    decay = np.exp(-dt / np.asarray(tau, np.float64))
    gain = 1 - decay if input_gain == "leak" else 1.0
    v = np.zeros(xs.shape[1:])
    rest = np.zeros(xs.shape[1:], int)
    spikes, vs = [], []
    for x in xs:
        u = np.where(rest > 0, v, decay * v + gain * x)
        s = (u > threshold) & (rest == 0)
        rest = np.where(s, refractory, np.maximum(rest - 1, 0))
        if reset == "subtract":
            v = u - threshold * s
        elif reset in ("value", "zero"):
            v = np.where(s, v_reset, u)
        else:
            v = u
        spikes.append(s)
        vs.append(v)
    return np.array(spikes, float), np.array(vs)


SETTINGS = [
    {"reset": "subtract"},
    {"reset": "zero"},
    {"reset": "value", "v_reset": -0.4},
    {"reset": "none"},
    {"input_gain": "unit"},
    {"refractory": 3},
    {"refractory": 1, "reset": "zero"},
    {"refractory": 2, "reset": "none"},
    {"dt": 0.5},
    {"threshold": 0.3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_equations(settings):
    tau = np.array([3.0, 20.0, 200.0])
    scale = 0.3 if settings.get("input_gain") == "unit" else 4.0
    xs = scale * np.random.default_rng(1).normal(0.4, 1.0, (200, 4, 3))
    neuron = LIF(3, tau=tau, param_dtype=jnp.float64, **settings)
    state, spikes = unroll(neuron, jnp.asarray(xs))
    want, vs = reference(xs, tau=tau, **settings)
    assert 0.01 < want.mean() < 0.9
    np.testing.assert_array_equal(spikes, want)
    np.testing.assert_allclose(state.v, vs[-1], rtol=1e-12, atol=1e-12)


def test_published_spike_train():
    # Decay 0.9, threshold 1, 0.3 a step: the train that jaxpike, SpikingJelly and
    # Norse's box neuron give.
    xs = jnp.full((12, 1), 0.3, jnp.float32)
    for reset in ("subtract", "zero"):
        neuron = LIF(1, tau=-1 / math.log(0.9), input_gain="unit", reset=reset)
        spikes = unroll(neuron, xs)[1][:, 0]
        assert "".join(str(int(s)) for s in spikes) == "000100010001"


def test_threshold_is_strict():
    # One step from rest, at unit gain: the membrane is the input, with no rounding.
    neuron = LIF(2, threshold=0.5, input_gain="unit")
    above = np.nextafter(np.float32(0.5), np.float32(1))
    _, s = neuron(neuron.initial_state(), jnp.array([0.5, above], jnp.float32))
    np.testing.assert_array_equal(s, [0, 1])


def test_constant_input_is_where_a_leak_gain_ends():
    state, _ = unroll(LeakyIntegrator(1, tau=3.0), jnp.full((200, 1), 0.7))
    np.testing.assert_allclose(state.v, 0.7, rtol=1e-6)


def test_leaky_integrator_equations():
    xs = np.random.default_rng(0).normal(size=(50, 2, 3))
    for gain in ("leak", "unit"):
        neuron = LeakyIntegrator(
            3, tau=[2.0, 20.0, 200.0], input_gain=gain, param_dtype=jnp.float64
        )
        _, ys = unroll(neuron, jnp.asarray(xs))
        _, vs = reference(
            xs, tau=[2.0, 20.0, 200.0], threshold=np.inf, reset="none", input_gain=gain
        )
        np.testing.assert_allclose(ys, vs, rtol=1e-12)


@pytest.mark.parametrize("reset", ["subtract", "value"])
@pytest.mark.parametrize("detach", [False, True])
def test_gradient_by_hand(reset, detach):
    # Two steps of one neuron: a spike in the first, its effect in the second.
    decay, thr, slope = 0.5, 1.0, 2.0
    gain = 1 - decay
    x0, x1 = 2.5, 1.7
    v_reset = -0.25 if reset == "value" else None

    def last_membrane(xs):
        neuron = LIF(
            1,
            tau=1 / math.log(2),
            reset=reset,
            v_reset=v_reset,
            detach_reset=detach,
            surrogate=ATan(slope),
            param_dtype=jnp.float64,
        )
        return unroll(neuron, xs)[0].v[0]

    u0 = gain * x0
    assert u0 > thr
    psi = slope / 2 / (1 + (math.pi / 2 * slope * (u0 - thr)) ** 2)
    v0 = u0 - thr if reset == "subtract" else v_reset
    u1 = decay * v0 + gain * x1
    assert u1 < thr
    psi1 = slope / 2 / (1 + (math.pi / 2 * slope * (u1 - thr)) ** 2)
    if reset == "subtract":
        through = [1 - (0 if detach else thr * p) for p in (psi, psi1)]
    else:
        jump = [v_reset - u for u in (u0, u1)]
        through = [
            0.0 + (0 if detach else jump[0] * psi),
            1.0 + (0 if detach else jump[1] * psi1),
        ]
    want = [gain * through[0] * decay * through[1], gain * through[1]]
    got = jax.grad(last_membrane)(jnp.array([[x0], [x1]]))[:, 0]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("surrogate", [ATan(), FastSigmoid()])
def test_slope_can_be_learned(surrogate):
    xs = jnp.asarray(np.random.default_rng(0).uniform(0, 3, (30, 4, 2)))

    def loss(neuron):
        return jnp.sum(unroll(neuron, xs)[0].v)

    neuron = LIF(2, surrogate=surrogate, trainable=("slope", "threshold"))
    np.testing.assert_allclose(
        jnp.exp(neuron.parameters.log_slope), surrogate.slope, rtol=1e-6
    )
    grads = nnx.grad(loss)(neuron)
    assert grads["threshold"][...] != 0
    # The slope shapes the derivative alone; a spike does not depend on it.
    assert np.isfinite(grads["log_slope"][...])


def test_resting_neurons_ignore_input():
    neuron = LIF(1, refractory=2, reset="zero", input_gain="unit")
    state = neuron.initial_state()
    seen = []
    for x in (2.0, 9.0, 9.0, 0.5, 0.6):
        state, s = neuron(state, jnp.full(1, x, jnp.float32))
        seen.append((int(s[0]), int(state.refractory[0])))
    assert seen == [(1, 2), (0, 1), (0, 0), (0, 0), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"reset": "hard"}, ValueError, "`reset` must be one of 'subtract'"),
        ({"input_gain": 1}, ValueError, "`input_gain` must be one of"),
        ({"detach_reset": "yes"}, ValueError, "`detach_reset`"),
        ({"v_reset": 0.1}, ValueError, '`v_reset` needs `reset="value"`'),
        ({"reset": "zero", "v_reset": 0.1}, ValueError, "`v_reset` needs"),
        ({"reset": "value", "v_reset": np.nan}, ValueError, "`v_reset`"),
        ({"refractory": -1}, ValueError, "`refractory` must be an integer >= 0"),
        ({"refractory": 1.5}, ValueError, "`refractory`"),
        ({"refractory": True}, ValueError, "`refractory`"),
        ({"threshold": np.inf}, ValueError, "`threshold` must be finite"),
        ({"threshold": np.ones(2)}, ValueError, "`threshold` must be a scalar or"),
        ({"surrogate": "tanh"}, TypeError, "`surrogate` must be a Surrogate"),
        ({"trainable": ("v_reset",)}, ValueError, "`trainable` must be one of"),
    ],
    ids=str,
)
def test_refuses_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        LIF(3, **arguments)


def test_state_names_its_parts():
    assert LIFState._fields == ("v", "refractory")
    assert len(jax.tree.leaves(LIF(3).initial_state())) == 1
    assert len(jax.tree.leaves(LIF(3, refractory=1).initial_state())) == 2
