"""`Associative` against `Scan`, on every reset-free neuron and on networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    IF,
    LIF,
    CubaLIF,
    LeakyIntegrator,
    ResonateAndFire,
    Scan,
    Sequential,
    unroll,
)
from spike_parallel import Associative, SlidingPSN

# A new reset-free neuron joins here.
NEURONS = {
    "LIF": lambda n, **kwargs: LIF(
        n, reset="none", threshold=0.2, trainable=("tau", "threshold"), **kwargs
    ),
    "LIF, a tau each": lambda n, **kwargs: LIF(
        n, reset="none", tau=jnp.linspace(1.0, 900.0, n), threshold=0.1, **kwargs
    ),
    "LeakyIntegrator": lambda n, **kwargs: LeakyIntegrator(
        n, trainable=("tau",), **kwargs
    ),
    "CubaLIF": lambda n, **kwargs: CubaLIF(n, reset="none", threshold=0.05, **kwargs),
    "IF": lambda n, **kwargs: IF(n, reset="none", threshold=3.0, **kwargs),
    "ResonateAndFire": lambda n, **kwargs: ResonateAndFire(
        n, reset="none", threshold=0.5, **kwargs
    ),
    "SlidingPSN": lambda n, **kwargs: SlidingPSN(n, window=5, **kwargs),
}


def network(dtype):
    rngs = nnx.Rngs(0)
    kwargs = {"param_dtype": dtype}
    return Sequential(
        nnx.Linear(5, 7, rngs=rngs, **kwargs),
        NEURONS["LIF"](7, **kwargs),
        jax.nn.relu,
        Sequential(nnx.Linear(7, 3, rngs=rngs, **kwargs), LeakyIntegrator(3, **kwargs)),
    )


def results(net, xs, strategy, state=None):
    """Outputs, last state and gradients of input and parameters."""
    graph, variables = nnx.split(net)

    @jax.jit
    def run(variables, xs):
        state_, ys = unroll(nnx.merge(graph, variables), xs, state, strategy=strategy)
        weight = jnp.cos(jnp.arange(ys.size)).reshape(ys.shape).astype(ys.dtype)
        last = sum((leaf**2).sum() for leaf in jax.tree.leaves(state_))
        return (ys * weight).sum() + last, (state_, ys)

    value_and_grad = jax.value_and_grad(run, argnums=(0, 1), has_aux=True)
    (_, outputs), gradients = value_and_grad(variables, xs)
    return outputs, gradients


def assert_trees_close(found, expected, tolerance):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for mine, theirs in pairs:
        assert mine.dtype == theirs.dtype
        scale = max(1.0, float(jnp.abs(theirs).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, atol=tolerance * scale)


@pytest.mark.parametrize("neuron", NEURONS)
def test_a_neuron_equals_the_scan(neuron):
    net = NEURONS[neuron](4, param_dtype=jnp.float64)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(37, 3, 4)))
    found, expected = (results(net, xs, s) for s in (Associative(), Scan()))
    assert_trees_close(found, expected, 1e-13)


def test_a_network_equals_the_scan_in_single_precision():
    net = network(jnp.float32)
    xs = jnp.asarray(np.random.default_rng(1).normal(size=(50, 2, 5)), jnp.float32)
    found, expected = (results(net, xs, s) for s in (Associative(), Scan()))
    assert_trees_close(found, expected, 1e-4)


@pytest.mark.parametrize("steps", [0, 1])
def test_state_goes_in_and_out(steps):
    net = NEURONS["LIF"](5, param_dtype=jnp.float64)
    run = jax.jit(lambda xs, state=None: unroll(net, xs, state, strategy=Associative()))
    xs = jnp.asarray(np.random.default_rng(2).normal(size=(steps + 5, 2, 5)))
    state, first = run(xs[:steps])
    state, second = run(xs[steps:], state)
    assert_trees_close(
        (state, jnp.concatenate([first, second])), run(xs), tolerance=1e-12
    )


def test_half_precision_input_gives_half_precision_output():
    xs = jnp.ones((9, 4), jnp.bfloat16)
    state, ys = unroll(LeakyIntegrator(4), xs, strategy=Associative())
    assert ys.dtype == jnp.bfloat16 and state.v.dtype == jnp.float32


@pytest.mark.parametrize("reset", ["subtract", "zero", "value"])
def test_a_reset_is_refused_by_name(reset):
    net = Sequential(jnp.sin, LIF(3, reset=reset))
    with pytest.raises(ValueError, match=rf"net\.layers\[1\], a LIF.*reset='{reset}'"):
        unroll(net, jnp.ones((5, 3)), strategy=Associative())


def test_a_refractory_neuron_is_refused_by_name():
    net = LIF(3, reset="none", refractory=2)
    with pytest.raises(ValueError, match=r"net, a LIF.*refractory"):
        unroll(net, jnp.ones((5, 3)), strategy=Associative())


def test_a_neuron_without_a_linear_form_is_refused_by_name():
    class Counter:
        def initial_state(self, batch_shape=()):
            return jnp.zeros(batch_shape)

        def __call__(self, state, x):
            return state + 1, x

    with pytest.raises(ValueError, match=r"layers\[0\], a Counter.*`linear_form"):
        unroll(Sequential(Counter()), jnp.ones((5, 3)), strategy=Associative())
