"""The parallel spiking neurons: values, causality, and that they learn."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from spike_core import Scan, unroll
from spike_parallel import PSN, Associative, Chunked, MaskedPSN, SlidingPSN


def inputs(steps=12, features=3):
    return jnp.asarray(
        np.random.default_rng(0).normal(size=(steps, 2, features)), jnp.float32
    )


def test_psn_is_a_matrix_product_over_time():
    neuron, xs = PSN(12, threshold=0.1, rngs=nnx.Rngs(0)), inputs()
    membrane = np.einsum("ts,sbn->tbn", neuron.weight[...], xs)
    np.testing.assert_array_equal(neuron(xs), membrane > 0.1)


@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0])
def test_masked_psn_scales_what_it_does_not_see(strength):
    neuron = MaskedPSN(12, 3, strength=strength, rngs=nnx.Rngs(0))
    ratio = neuron.mixing() / neuron.weight[...]
    for t in range(12):
        for s in range(12):
            expected = 1.0 if t - 3 < s <= t else 1 - strength
            assert float(ratio[t, s]) == pytest.approx(expected)


def test_sliding_psn_is_a_convolution_over_time():
    neuron, xs = SlidingPSN(3, 4, threshold=0.3), inputs()
    padded = np.concatenate([np.zeros((3, 2, 3)), xs])
    membrane = sum(2.0 ** -(3 - i) * padded[i : i + 12] for i in range(4))
    _, spikes = unroll(neuron, xs, strategy=Scan())
    np.testing.assert_array_equal(spikes, membrane > 0.3)


@pytest.mark.parametrize("strategy", [Associative(), Chunked(5)])
@pytest.mark.parametrize("window", [1, 4, 14])
def test_sliding_psn_is_the_same_with_every_strategy(window, strategy):
    neuron, xs = SlidingPSN(3, window, threshold=0.3), inputs()
    state, ys = jax.jit(lambda xs: unroll(neuron, xs, strategy=strategy))(xs)
    state_scan, ys_scan = jax.jit(lambda xs: unroll(neuron, xs, strategy=Scan()))(xs)
    np.testing.assert_array_equal(ys, ys_scan)
    np.testing.assert_array_equal(state.recent, state_scan.recent)


@pytest.mark.parametrize(
    "neuron",
    [
        PSN(12, rngs=nnx.Rngs(0)),
        MaskedPSN(12, 4, rngs=nnx.Rngs(0)),
        SlidingPSN(3, 4),
    ],
    ids=lambda neuron: type(neuron).__name__,
)
def test_it_learns_when_to_fire(neuron):
    xs = inputs()
    wanted = (jnp.roll(xs, 1, axis=0).at[0].set(0) > 0.2).astype(jnp.float32)
    optimizer = nnx.Optimizer(neuron, optax.sgd(1.0, momentum=0.9), wrt=nnx.Param)

    @nnx.jit
    def step(neuron, optimizer):
        def loss(neuron):
            if isinstance(neuron, SlidingPSN):
                spikes = unroll(neuron, xs, strategy=Associative())[1]
            else:
                spikes = neuron(xs)
            return ((spikes - wanted) ** 2).mean()

        value, gradients = nnx.value_and_grad(loss)(neuron)
        optimizer.update(neuron, gradients)
        return value

    losses = [float(step(neuron, optimizer)) for _ in range(150)]
    assert min(losses[-10:]) < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda r: PSN(0, rngs=r), "`steps` must be an integer of at least 1"),
        (lambda r: PSN("T", rngs=r), "`steps` must be an integer, got 'T'"),
        (lambda r: MaskedPSN(5, 0, rngs=r), "`window` must be an integer of at least"),
        (lambda r: MaskedPSN(5, 2, strength=2, rngs=r), "`strength` must be from 0"),
        (lambda r: SlidingPSN(0, 2), "`features` must be an integer of at least 1"),
        (lambda r: SlidingPSN(3, -1), "`window` must be an integer of at least 1"),
        (
            lambda r: PSN(5, rngs=r)(jnp.ones((4, 2), jnp.float32)),
            "`xs` must have 5 steps",
        ),
        (
            lambda r: PSN(5, rngs=r)(jnp.ones((5, 2), jnp.int32)),
            "`xs` must have a floating dtype",
        ),
        (
            lambda r: PSN(5, rngs=r)(jnp.ones((5, 2), jnp.float64)),
            "`xs` must have the dtype of `param_dtype`",
        ),
    ],
)
def test_bad_arguments_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build(nnx.Rngs(0))


def test_sliding_psn_refuses_other_features():
    with pytest.raises(ValueError, match=r"must have (a leaf of shape|steps)"):
        unroll(SlidingPSN(3, 4), jnp.ones((5, 2), jnp.float32))
