"""Neurons of other libraries, by stand-ins with the same attributes.

`tests/conformance` at the root of the repository runs the libraries themselves.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import spike_core
from flax import nnx
from spike_core import (
    IF,
    LIF,
    ATan,
    CubaLIF,
    FastSigmoid,
    Frozen,
    LeakyIntegrator,
    Recurrent,
    Scan,
    Sequential,
    Sigmoid,
    unroll,
)
from spike_core.compat import LateResetALIF, LateResetLIF, StartAt, from_peer
from spike_core.compat._surrogate import find_surrogate


def stand_in(library, kind, **attributes):
    """Make an object that looks like a neuron of a library that is not installed."""
    made = type(kind, (), {"__module__": f"{library}.somewhere"})()
    made.__dict__.update(attributes)
    return made


def leaky(**settings):
    """Stand in for `snntorch.Leaky`; `reset` is what it calls in each step."""
    reset = settings.pop("reset", "_base_sub")
    defaults = {
        "beta": 0.9,
        "threshold": 1.0,
        "inhibition": False,
        "state_quant": False,
        "graded_spikes_factor": 1.0,
        "reset_delay": True,
        "spike_grad": None,
        "state_function": SimpleNamespace(__name__=reset),
    }
    return stand_in("snntorch", "Leaky", **{**defaults, **settings})


def jelly(kind="LIFNode", **settings):
    """Stand in for a node of SpikingJelly."""
    defaults = {"v_threshold": 1.0, "v_reset": 0.0, "detach_reset": False, "tau": 10.0}
    surrogate = {"surrogate_function": None, "decay_input": False}
    return stand_in("spikingjelly", kind, **{**defaults, **surrogate, **settings})


def box(**settings):
    """Stand in for `norse.torch.LIFBoxCell`."""
    defaults = {"tau_mem_inv": 100.0, "v_leak": 0.0, "v_th": 1.0, "v_reset": 0.0}
    p = SimpleNamespace(method="super", alpha=100.0, **{**defaults, **settings})
    return stand_in("norse", "LIFBoxCell", p=p, dt=1e-3)


def spyx(kind, **settings):
    """Stand in for a neuron of Spyx."""
    defaults = {"beta": jnp.full(1, 0.9), "threshold": 1.0, "spike": FastSigmoid()}
    return stand_in("spyx", kind, **{**defaults, **settings})


# One neuron that keeps 0.9 a step, threshold 1, 0.3 added in each of twelve steps.
TRAINS = {
    "snnTorch": (leaky(), 0.3, "000100001000"),
    "snnTorch, zero": (leaky(reset="_base_zero"), 0.3, "000100010001"),
    "snnTorch, no reset": (leaky(reset="_base_int"), 0.3, "000111111111"),
    "snnTorch, undelayed": (leaky(reset_delay=False), 0.3, "000100010001"),
    "SpikingJelly": (jelly(), 0.3, "000100010001"),
    "SpikingJelly, soft": (jelly(v_reset=None), 0.3, "000100010001"),
    "SpikingJelly, input leaks": (jelly(decay_input=True), 3.0, "000100010001"),
    "Norse": (box(), 3.0, "000100010001"),
    "Spyx": (spyx("LIF"), 0.3, "000010000100"),
    "Spyx, no reset": (spyx("PSU_LIF"), 0.3, "000111111111"),
}


@pytest.mark.parametrize("name", TRAINS)
def test_published_spike_trains(name):
    neuron, current, train = TRAINS[name]
    layer = from_peer(neuron, 1, surrogate=ATan())
    # Step by step, since nothing then has to be compiled for each neuron.
    state, spikes = layer.initial_state(), ""
    for _ in train:
        state, s = layer(state, jnp.full(1, current, jnp.float32))
        spikes += str(int(s[0]))
    assert spikes == train


@pytest.mark.parametrize("detached", [False, True])
def test_a_late_reset_takes_off_the_whole_threshold(detached):
    neuron = LateResetLIF(1, tau=9.5, input_gain="unit", detach_reset=detached)
    xs = np.random.default_rng(0).normal(0.2, 0.3, (60, 1)).astype(np.float32)
    _, spikes = unroll(neuron, jnp.asarray(xs))
    decay, v, s, wanted = np.exp(-1 / 9.5), 0.0, 0.0, []
    for x in xs[:, 0]:
        v = decay * v + x - s
        s = float(v > 1)
        wanted.append(s)
    assert sum(wanted) > 3
    assert spikes[:, 0].tolist() == wanted


def test_the_gradient_of_a_late_reset_is_that_of_the_scan():
    xs = jnp.asarray(np.random.default_rng(0).normal(0.2, 0.5, (40, 2)))
    neuron = LateResetALIF(2, tau=9.5, input_gain="unit", trainable=("tau",))
    graph, variables = nnx.split(neuron)

    def loss(variables, xs, strategy):
        ys = unroll(nnx.merge(graph, variables), xs, strategy=strategy)[1]
        return (ys * jnp.arange(40.0)[:, None]).sum()

    got, wanted = (
        jax.grad(loss, argnums=1)(variables, xs, Scan(autodiff=autodiff))
        for autodiff in (False, True)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_a_neuron_starts_where_it_is_told_to():
    layer = StartAt(IF(2, reset="zero"), [0.5, -0.5])
    assert layer.features == (2,)
    _, spikes = unroll(layer, jnp.full((4, 2), 0.375))
    assert spikes.T.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]


def test_what_a_peer_trains_is_trainable():
    tau = jnp.log(jnp.array([10.0, 20.0]))
    neuron = stand_in(
        "jaxpike",
        "ALIF",
        log_tau=tau,
        log_tau_a=jnp.log(100.0),
        beta=0.5,
        threshold=1.0,
        reset="zero",
        dt=2.0,
        surrogate=Sigmoid(4.0),
    )
    layer = from_peer(neuron, 2, dt=1.0)
    assert sorted(nnx.state(layer, nnx.Param)) == ["log_tau", "log_tau_adaptation"]
    assert sorted(nnx.state(layer, Frozen)) == ["beta", "threshold"]
    assert (layer.surrogate, layer.reset) == (Sigmoid(4.0), "zero")
    # Ten units in steps of two are five steps.
    np.testing.assert_allclose(jnp.exp(layer.log_tau[...]), [5.0, 10.0], rtol=1e-6)


def test_a_zero_reset_of_synaptic_neurons_rests_one_step():
    neuron = leaky(alpha=0.5, reset="_base_zero")
    neuron.__class__.__name__ = "Synaptic"
    layer = from_peer(neuron, 3, surrogate=ATan())
    assert type(layer) is CubaLIF
    assert (layer.reset, layer.refractory, layer.detach_reset) == ("zero", 1, True)


def test_feedback_becomes_a_recurrent_layer():
    weight = np.arange(4.0).reshape(2, 2)
    feedback = stand_in("torch", "Linear", weight=weight, bias=np.ones(2))
    neuron = leaky(recurrent=feedback)
    neuron.__class__.__name__ = "RLeaky"
    layer = from_peer(neuron, 2, surrogate=ATan())
    assert isinstance(layer, Recurrent)
    np.testing.assert_array_equal(layer.feedback.kernel[...], weight.T)


def test_a_leak_potential_shifts_the_membrane():
    layer = from_peer(box(v_leak=-0.2, v_reset=-0.5), 1, surrogate=ATan())
    np.testing.assert_allclose(layer.threshold[...], 1.2, rtol=1e-6)
    np.testing.assert_allclose(layer.v_reset[...], -0.3, rtol=1e-6)
    p = SimpleNamespace(tau_mem_inv=100.0, tau_syn_inv=200.0, v_leak=-0.2)
    readout = from_peer(stand_in("norse", "LICell", p=p, dt=1e-3), 1)
    assert isinstance(readout, Sequential)
    _, v = unroll(readout, jnp.zeros((3, 1)))
    np.testing.assert_allclose(v, -0.2, rtol=1e-6)


def test_readouts_of_other_libraries():
    node = stand_in("spikingjelly", "NonSpikingLIFNode", tau=2.0, decode=None)
    layer = from_peer(node, 1)
    assert isinstance(layer, LeakyIntegrator)
    _, v = unroll(layer, jnp.ones((3, 1)))
    np.testing.assert_allclose(v[:, 0], [0.5, 0.75, 0.875], rtol=1e-6)


@pytest.mark.parametrize(
    "surrogate",
    [
        ATan(2.0),
        FastSigmoid(25.0),
        Sigmoid(4.0),
        spike_core.Tanh(3.0),
        spike_core.Erf(2.0),
        spike_core.Exponential(3.0),
        spike_core.Triangular(2.0),
        spike_core.Boxcar(0.5),
        spike_core.Logarithmic(2.0),
        spike_core.StraightThrough(1.0),
    ],
    ids=lambda surrogate: type(surrogate).__name__,
)
def test_a_surrogate_is_found_by_its_derivative(surrogate):
    derivative = jax.vmap(jax.grad(surrogate))
    assert find_surrogate("it", lambda u: derivative(jnp.asarray(u))) == surrogate


@pytest.mark.parametrize(
    ("derivative", "why"),
    [
        (lambda u: 1 / (1 + u**4), "no family has it"),
        (lambda u: 0 * u, "no gradient at all"),
        (lambda u: np.nan * u, "not a number"),
    ],
)
def test_a_surrogate_that_is_not_here_is_refused(derivative, why):
    with pytest.raises(ValueError, match="surrogate strange of `neuron`"):
        find_surrogate("strange", derivative)


REFUSED = {
    "inhibition": leaky(inhibition=True),
    "graded_spikes_factor": leaky(graded_spikes_factor=2.0),
    "beta": leaky(beta=1.0),
    "threshold": leaky(threshold=np.ones(3)),
    "v_reset": jelly("EIFNode", v_reset=None),
    "decode": stand_in("spikingjelly", "NonSpikingIFNode", decode="max-mem"),
    "p.tau_mem_inv": box(tau_mem_inv=1500.0),
    "v_peak": stand_in("jaxpike", "Izhikevich", v_peak=30.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_cannot_be_expressed_are_named(name):
    with pytest.raises(ValueError, match=name):
        from_peer(REFUSED[name], 2, surrogate=ATan())


def test_unknown_neurons_are_refused():
    with pytest.raises(TypeError, match=r"one of Leaky, .*got snntorch\S*\.Lapicque"):
        from_peer(stand_in("snntorch", "Lapicque"), 2)
    with pytest.raises(TypeError, match=r"one of jaxpike, .*got .*LIF"):
        from_peer(LIF(2), 2)


def test_bad_arguments():
    with pytest.raises(ValueError, match="`features`"):
        from_peer(leaky(), 0)
    with pytest.raises(ValueError, match="`dt`"):
        from_peer(leaky(), 2, dt=0.0)
    with pytest.raises(TypeError, match="`surrogate`"):
        from_peer(leaky(), 2, surrogate="atan")
