"""The parallel backward pass against autodiff through the scan."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    ALIF,
    LIF,
    CubaLIF,
    Fused,
    LeakyIntegrator,
    Scan,
    Sequential,
    unroll,
)
from spike_parallel import Associative, ParallelBackward

# A new neuron joins here.
NEURONS = {
    f"LIF {reset}{', detached' * detach}{', refractory' * bool(refractory)}": (
        functools.partial(
            LIF,
            reset=reset,
            tau=jnp.array([2.0, 20.0, 500.0]),
            threshold=0.5,
            detach_reset=detach,
            refractory=refractory,
            trainable=("tau", "threshold"),
            **({"v_reset": -0.3} if reset == "value" else {}),
        )
    )
    for reset, detach, refractory in [
        ("subtract", False, 0),
        ("subtract", True, 0),
        ("value", False, 0),
        ("zero", True, 3),
    ]
} | {
    "ALIF subtract": functools.partial(ALIF, reset="subtract", threshold=0.3),
    "ALIF zero, detached": functools.partial(
        ALIF, reset="zero", threshold=0.3, detach_reset=True
    ),
    "CubaLIF": functools.partial(CubaLIF, threshold=0.2),
    "LeakyIntegrator": LeakyIntegrator,
}


def results(net, xs, strategy):
    graph, variables = nnx.split(net)

    def run(variables, xs, state):
        last, ys = unroll(nnx.merge(graph, variables), xs, state, strategy=strategy)
        weight = jnp.cos(jnp.arange(ys.size)).reshape(ys.shape).astype(ys.dtype)
        floats = [x for x in jax.tree.leaves(last) if x.dtype != jnp.int32]
        return (ys * weight).sum() + sum((x**2).sum() for x in floats), (last, ys)

    state = net.initial_state(xs.shape[1:-1])
    (_, outputs), gradients = jax.jit(
        jax.value_and_grad(run, argnums=(0, 1, 2), has_aux=True, allow_int=True)
    )(variables, xs, state)
    return outputs, gradients


def assert_equal(found, expected, tolerance):
    for mine, theirs in zip(
        jax.tree.leaves(found[0]), jax.tree.leaves(expected[0]), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(
        jax.tree.leaves(found[1]), jax.tree.leaves(expected[1]), strict=True
    ):
        assert mine.dtype == theirs.dtype
        if mine.dtype != jax.dtypes.float0:
            scale = float(jnp.abs(theirs).max())
            np.testing.assert_allclose(mine, theirs, atol=tolerance * scale)


@pytest.mark.parametrize("name", NEURONS)
def test_gradients_equal_those_of_the_scan(name):
    net = NEURONS[name](3, param_dtype=jnp.float64)
    xs = jnp.asarray(np.random.default_rng(0).normal(0.5, 1, (61, 2, 3)))
    found, expected = (results(net, xs, s) for s in (ParallelBackward(), Scan()))
    if "LIF" in name:
        assert 0.02 < expected[0][1].mean() < 0.9
    assert_equal(found, expected, 1e-11)


@pytest.mark.usefixtures("fully_optimised")
def test_gradients_of_a_network_in_single_precision():
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(4, 3, rngs=rngs),
        NEURONS["LIF subtract"](3),
        nnx.Linear(3, 2, rngs=rngs),
        LeakyIntegrator(2),
    )
    xs = jnp.asarray(np.random.default_rng(0).normal(2, 2, (200, 2, 4)), jnp.float32)
    found, expected = (results(net, xs, s) for s in (ParallelBackward(), Scan()))
    assert_equal(found, expected, 1e-6 * 10)


def test_the_forward_pass_may_be_another_strategys():
    pytest.importorskip("spike_native")
    net = NEURONS["LIF subtract"](3, param_dtype=jnp.float64)
    xs = jnp.asarray(np.random.default_rng(0).normal(0.5, 1, (61, 2, 3)))
    found = results(net, xs, ParallelBackward(forward=Fused()))
    outputs, gradients = results(net, xs, Scan())
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13),
        found[0],
        outputs,
    )
    assert_equal((outputs, found[1]), (outputs, gradients), 1e-11)


def test_what_the_other_strategy_does_not_run_is_named():
    net = Sequential(jnp.sin, NEURONS["LIF subtract"](3))
    strategy = ParallelBackward(forward=Associative())
    with pytest.raises(ValueError, match=r"layers\[1\], a LIF: .*reset='subtract'"):
        unroll(net, jnp.ones((5, 3)), strategy=strategy)
    with pytest.raises(ValueError, match=r"`forward` must be a spike_core\.Strategy"):
        ParallelBackward(forward="fused")


def test_no_steps():
    state, ys = unroll(LIF(3), jnp.zeros((0, 3)), strategy=ParallelBackward())
    assert ys.shape == (0, 3) and state.v.shape == (3,)


def test_a_neuron_without_a_pure_step_is_refused_by_name():
    class Own:
        def initial_state(self, batch_shape=()):
            return jnp.zeros(batch_shape)

        def __call__(self, state, x):
            return state, x

    with pytest.raises(ValueError, match=r"layers\[0\], a Own, has no `parameters`"):
        unroll(Sequential(Own()), jnp.ones((5, 3)), strategy=ParallelBackward())


def test_a_state_of_three_parts_is_refused_by_name():
    class Wide(LIF):
        def initial_state(self, batch_shape=()):
            v = super().initial_state(batch_shape).v
            return (v, v, v)

        def __call__(self, state, x):
            return state, x

    with pytest.raises(ValueError, match="a Wide, has 3 floating leaves"):
        unroll(Wide(3), jnp.ones((5, 3)), strategy=ParallelBackward())
