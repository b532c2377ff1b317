"""Recording, the diagnostic of silent layers, the rate penalty and initialisers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    ALIF,
    LIF,
    Graph,
    LeakyIntegrator,
    Sequential,
    encode_rate,
    fluctuation_init,
    layer_activity,
    layer_outputs,
    rate_penalty,
    unroll,
)


@pytest.mark.usefixtures("fully_optimised")
def test_outputs_are_those_of_the_layers():
    xs = jnp.asarray(np.random.default_rng(0).uniform(0, 6, (12, 4, 3)), jnp.float32)
    net = Sequential(LIF(3, tau=5.0), Sequential(LIF(3, tau=2.0)), LeakyIntegrator(3))
    state, ys, outputs = layer_outputs(net, xs)
    want_state, want = unroll(net, xs)
    jax.tree.map(np.testing.assert_array_equal, (state, ys), (want_state, want))
    names = ["net.layers[0]", "net.layers[1].layers[0]", "net.layers[2]"]
    assert list(outputs) == names
    first = unroll(net.layers[0], xs)[1]
    np.testing.assert_array_equal(outputs[names[0]], first)
    np.testing.assert_array_equal(outputs[names[2]], ys)


def test_names_silent_and_saturated_layers():
    net = Sequential(
        LIF(4, threshold=[0.01, 0.01, 0.01, 50.0], input_gain="unit", reset="zero"),
        LIF(4, threshold=50.0),
        LeakyIntegrator(4),
    )
    first, second, _ = layer_activity(net, jnp.ones((20, 2, 4), jnp.float32))
    assert (first.name, second.name) == ("net.layers[0]", "net.layers[1]")
    assert first[1:] == (0.75, 0.25, 0.75) and second[1:] == (0.0, 1.0, 0.0)
    assert str(second) == (
        "net.layers[1]: 0.000 spikes a step, 100% silent, 0% saturated"
    )
    loop = Graph({"h": LIF(4)}, [("input", "h"), ("h", "h"), ("h", "output")])
    (layer,) = layer_activity(loop, jnp.ones((20, 2, 4), jnp.float32))
    assert layer.name == "net.layers['h']['h']"


def test_penalty_pulls_the_rate_into_the_range():
    spikes = (np.random.default_rng(0).uniform(size=(50, 4, 3)) < [0.1, 0.5, 0.9]) * 1.0
    rates = spikes.mean((0, 1))
    want = np.mean(np.maximum(0.2 - rates, 0) ** 2 + np.maximum(rates - 0.6, 0) ** 2)
    got, slope = jax.value_and_grad(lambda s: rate_penalty(s, low=0.2, high=0.6))(
        jnp.asarray(spikes)
    )
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.sign(np.asarray(slope).mean((0, 1))).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("gain", ["leak", "unit"])
@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_membrane_fluctuates_as_asked(gain, rate):
    lif = LIF(300, tau=10.0, reset="none", threshold=0.7, input_gain=gain)
    init = fluctuation_init(lif, rate=rate, xi=2.0)
    layer = nnx.Linear(200, 300, kernel_init=init, rngs=nnx.Rngs(0))
    key = jax.random.key(1)
    xs = encode_rate(jnp.full((4, 200), rate), 150, key=key)
    membranes = Sequential(layer, LeakyIntegrator(300, tau=10.0, input_gain=gain))
    v = np.asarray(unroll(membranes, xs)[1])[60:]
    np.testing.assert_allclose(np.sqrt((v**2).mean()), 0.7 / 2.0, rtol=0.1)


def test_initialiser_keeps_a_deep_network_active():
    def deepest(make_init):
        rngs, layers = nnx.Rngs(0), []
        for _ in range(4):
            lif = LIF(100)
            init = make_init(lif)
            layers += [nnx.Linear(100, 100, rngs=rngs, kernel_init=init), lif]
        xs = encode_rate(jnp.full((8, 100), 0.05), 150, key=jax.random.key(0))
        return layer_activity(Sequential(*layers), xs)[-1]

    usual = nnx.initializers.lecun_normal()
    assert deepest(lambda lif: usual).silent == 1
    assert deepest(lambda lif: fluctuation_init(lif, rate=0.02)).silent < 0.4


def test_initialiser_takes_parameters_per_neuron_and_convolutions():
    taus = np.linspace(2, 50, 6)
    init = fluctuation_init(ALIF(6, tau=taus), rate=0.1)
    spread = np.asarray(init(jax.random.key(0), (3, 3, 500, 6))).std((0, 1, 2))
    decay = np.exp(-1 / taus)
    response = (1 - decay) * decay ** np.arange(2000)[:, None]
    moment = 0.1 * 0.9 * (response**2).sum(0) + 0.1**2 * response.sum(0) ** 2
    np.testing.assert_allclose(spread, 1 / np.sqrt(4500 * moment), rtol=0.05)
    with pytest.raises(ValueError, match=r"`shape` must end in the features \(6,\)"):
        init(jax.random.key(0), (5, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fluctuation_init(LIF(2), rate=0), ValueError, "`rate` must be"),
        (lambda: fluctuation_init(LIF(2), rate=1.5), ValueError, "`rate` must be"),
        (lambda: fluctuation_init(LIF(2), rate=0.1, xi=0), ValueError, "`xi` must be"),
        (lambda: fluctuation_init(jnp.tanh, rate=0.1), TypeError, "`neuron` must be"),
        (lambda: rate_penalty(jnp.ones((2, 3), int)), TypeError, "`spikes` must have"),
        (lambda: rate_penalty(jnp.ones(3)), ValueError, "`spikes` must be"),
        (lambda: rate_penalty(jnp.ones((0, 3))), ValueError, "not empty"),
        (lambda: rate_penalty(jnp.ones((2, 3)), low=-1), ValueError, "`low` must be"),
        (
            lambda: rate_penalty(jnp.ones((2, 3)), low=0.5, high=0.4),
            ValueError,
            "`high` must be finite and at least 0.5",
        ),
        (lambda: layer_activity(LIF(2), jnp.ones((0, 2))), ValueError, "`xs` must"),
        (lambda: layer_outputs(LIF(2), jnp.ones((3, 5))), ValueError, "`x` must end"),
    ],
)
def test_refuses_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
