"""`Chunked` against `Scan`, and its memory by XLA's own plan."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, LeakyIntegrator, Scan, Sequential, unroll
from spike_parallel import Associative, Chunked


def network(dtype):
    rngs = nnx.Rngs(0)
    kwargs = {"param_dtype": dtype}
    tau = jnp.linspace(2.0, 200.0, 7)
    return Sequential(
        nnx.Linear(5, 7, rngs=rngs, **kwargs),
        LIF(7, reset="none", tau=tau, threshold=0.2, trainable=("tau",), **kwargs),
        nnx.Linear(7, 3, rngs=rngs, **kwargs),
        LeakyIntegrator(3, trainable=("tau",), **kwargs),
    )


def loss_and_gradients(net, xs, strategy, folded=False):
    graph, variables, rest = nnx.split(net, nnx.Param, ...)

    def loss(variables, xs):
        net = nnx.merge(graph, variables, rest)
        state, ys = unroll(net, xs, strategy=strategy)
        last = sum((leaf**2).sum() for leaf in jax.tree.leaves(state))
        return (ys if folded else weighted(ys, 0)) + last

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(variables, xs)


def weighted(ys, start):
    """A loss with a weight for each step, computable chunk by chunk."""
    steps = start + jnp.arange(ys.shape[0])
    weight = jnp.cos(steps.astype(ys.dtype))[:, None, None]
    return (weight * ys**2).sum()


def fold(total, ys, start):
    return total + weighted(ys, start)


def assert_close(found, expected, tolerance):
    for mine, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        assert mine.dtype == theirs.dtype
        scale = max(1.0, float(jnp.abs(theirs).max()))
        np.testing.assert_allclose(mine, theirs, atol=tolerance * scale)


@functools.cache
def problem_and_scan(dtype):
    net = network(dtype)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(53, 2, 5)), dtype)
    return net, xs, loss_and_gradients(net, xs, Scan())


@pytest.mark.parametrize(
    ("chunk", "dtype", "tolerance"),
    [(16, jnp.float32, 5e-6), (60, jnp.float64, 1e-12)],
)
def test_values_and_gradients_equal_the_scan(chunk, dtype, tolerance):
    net, xs, expected = problem_and_scan(dtype)
    found = loss_and_gradients(net, xs, Chunked(chunk))
    assert_close(found, expected, tolerance)


def test_a_folded_loss_equals_the_scan():
    net, xs, expected = problem_and_scan(jnp.float64)
    folding = Chunked(16, reduce=fold, initial=jnp.zeros(()))
    found = loss_and_gradients(net, xs, folding, folded=True)
    assert_close(found, expected, 1e-12)


def test_no_steps_leave_the_state_and_the_total():
    net, xs = LIF(3, reset="none"), jnp.zeros((0, 3))
    state, ys = unroll(net, xs, strategy=Chunked(4))
    assert ys.shape == (0, 3) and (state.v == 0).all()
    _, total = unroll(net, xs, strategy=Chunked(4, lambda t, ys, s: t, jnp.ones(2)))
    assert (total == 1).all()


def test_random_numbers_go_on_from_chunk_to_chunk():
    net = Sequential(
        nnx.Dropout(0.5, rngs=nnx.Rngs(0)), LIF(64, reset="none", threshold=0.0)
    )
    xs = jnp.ones((4, 64))
    _, ys = unroll(net, xs, strategy=Chunked(2))
    assert (ys[:2] != ys[2:]).any()
    _, again = unroll(net, xs, strategy=Chunked(2))
    assert (ys != again).any()


def planned_bytes(net, features, steps, strategy, folded):
    """XLA's scratch for the gradients of the parameters; batch 16."""
    graph, variables, rest = nnx.split(net, nnx.Param, ...)

    def loss(variables, xs):
        net = nnx.merge(graph, variables, rest)
        _, ys = unroll(net, xs, strategy=strategy)
        return ys if folded else (ys**2).sum()

    xs = jax.ShapeDtypeStruct((steps, 16, features), jnp.float32)
    compiled = jax.jit(jax.grad(loss)).lower(variables, xs).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def wide(inputs):
    return LIF(512, reset="none", tau=jnp.full(512, 20.0), trainable=("tau",))


def two_layers(inputs):
    rngs = nnx.Rngs(0)
    return Sequential(
        nnx.Linear(inputs, 512, rngs=rngs),
        wide(512),
        nnx.Linear(512, 512, rngs=rngs),
        wide(512),
    )


def squares(total, ys, start):
    del start
    return total + (ys**2).sum()


@pytest.mark.parametrize(("net", "inputs"), [(wide, 512), (two_layers, 128)])
def test_memory_is_a_fiftieth_and_flat_in_time(net, inputs):
    plan = functools.partial(planned_bytes, net(inputs), inputs)
    chunked = Chunked(64, reduce=squares, initial=jnp.float32(0))
    long = plan(8192, chunked, True)
    assert long <= plan(8192, Associative(), False) / 50
    # Four times the steps: only the border states, one a chunk, are more.
    layers = 1 if net is wide else 2
    borders = layers * (8192 - 2048) // 64 * 16 * 512 * 4
    assert long - plan(2048, chunked, True) <= 1.1 * borders


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "`chunk` must be an integer of at least 1, got 0"),
        ((2.5,), "`chunk` must be an integer, got 2.5"),
        ((True,), "`chunk` must be an integer of at least 1, got True"),
        ((4, "sum", 0.0), "`reduce` must be callable, got 'sum'"),
        ((4, fold), "`reduce` and `initial` must be given together"),
        ((4, None, 0.0), "`reduce` and `initial` must be given together"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Chunked(*arguments)


def test_a_total_that_changes_is_named():
    growing = Chunked(2, lambda total, ys, start: ys, jnp.zeros(()))
    with pytest.raises(ValueError, match="`reduce` must return a total of"):
        unroll(LIF(3, reset="none"), jnp.ones((4, 3)), strategy=growing)


def test_a_reset_is_refused_by_name():
    with pytest.raises(ValueError, match=r"net\.layers\[1\], a LIF.*reset='zero'"):
        unroll(
            Sequential(jnp.sin, LIF(3, reset="zero")),
            jnp.ones((8, 3)),
            strategy=Chunked(4),
        )
