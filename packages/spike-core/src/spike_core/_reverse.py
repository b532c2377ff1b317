"""The time loop of a built-in neuron with a reverse rule for the whole sequence.

Differentiating through `jax.lax.scan` stores every intermediate of every step. Here the
forward pass keeps the state before each step, and the backward pass takes the step
again, in the same loop that carries the gradient back: fewer arrays go through memory.
The gradients of the parameters are summed elementwise in the carry of that loop, and
over lanes once, after it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._neuron.base import Neuron, state_dtype
from ._varying import alike


def scan_neuron(
    neuron: Neuron, xs: jax.Array, state: Any, *, unroll: int
) -> tuple[Any, jax.Array]:
    """Run a built-in neuron over a sequence; see `Scan`."""
    neuron.check_sequence(xs)
    like = jax.ShapeDtypeStruct(xs.shape[1:], state_dtype(state.v, xs))
    prepared = neuron.prepare(neuron.parameters, like)
    leaves, tree = jax.tree.flatten((prepared, state, xs))
    return _scan(neuron.advance, unroll, *tree.unflatten(alike(*leaves)))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _scan(advance, unroll, prepared, state, xs):
    return jax.lax.scan(
        lambda state, x: advance(prepared, state, x), state, xs, unroll=unroll
    )


def _scan_forward(advance, unroll, prepared, state, xs):
    values = jax.tree.map(lambda leaf: leaf.value, (prepared, state, xs))

    def step(state, x):
        after, y = advance(values[0], state, x)
        return after, (y, state)

    last, (ys, before) = jax.lax.scan(step, *values[1:], unroll=unroll)
    # Whether a gradient is wanted has to be known while the program is built, so that
    # it is kept as structure: a leaf or None.
    wanted = jax.tree.map(lambda leaf: leaf.value if leaf.perturbed else None, prepared)
    return (last, ys), (values[0], wanted, before, xs.value)


def _scan_backward(advance, unroll, kept, cotangents):
    prepared, wanted, before, xs = kept
    d_last, dys = jax.tree.map(_materialise, cotangents, is_leaf=_is_symbolic)
    shape = xs.shape[1:]
    spread = jax.tree.map(lambda p: jnp.broadcast_to(p, shape), wanted)
    leaves, tree = jax.tree.flatten(before)
    real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def floats(leaves):
        return [leaf for leaf, is_real in zip(leaves, real, strict=True) if is_real]

    def replace_floats(leaves, new):
        new = iter(new)
        pairs = zip(leaves, real, strict=True)
        return tree.unflatten(next(new) if is_real else leaf for leaf, is_real in pairs)

    def step(carry, inputs):
        d_after, d_spread = carry
        x, leaves, dy = inputs

        def again(spread, moving, x):
            full = jax.tree.map(
                lambda w, p: p if w is None else w, spread, prepared, is_leaf=_is_none
            )
            after, y = advance(full, replace_floats(leaves, moving), x)
            return floats(jax.tree.leaves(after)), y

        _, pull = jax.vjp(again, spread, floats(leaves), x)
        by_spread, d_before, dx = pull((d_after, dy))
        return (d_before, jax.tree.map(jnp.add, d_spread, by_spread)), dx

    start = floats(jax.tree.leaves(d_last)), jax.tree.map(jnp.zeros_like, spread)
    zeros, zeros_tree = jax.tree.flatten(start)
    xs, dys, *zeros = alike(xs, dys, *zeros)
    start = zeros_tree.unflatten(zeros)
    (d_first, d_spread), dxs = jax.lax.scan(
        step, start, (xs, leaves, dys), reverse=True, unroll=unroll
    )
    no_gradient = [np.zeros(leaf.shape[1:], jax.dtypes.float0) for leaf in leaves]
    d_prepared = jax.tree.map(
        lambda d, p: jnp.zeros_like(p) if d is None else _sum_to(d, p.shape),
        d_spread,
        prepared,
        is_leaf=_is_none,
    )
    return d_prepared, replace_floats(no_gradient, d_first), dxs


_scan.defvjp(_scan_forward, _scan_backward, symbolic_zeros=True)


def _sum_to(array, shape):
    """Undo a broadcast from `shape`: a scalar, or the rank of `array`."""
    if not shape:
        return array.sum()
    axes = tuple(i for i, n in enumerate(shape) if n == 1)
    return array.sum(axes, keepdims=True)


def _is_none(leaf):
    return leaf is None


def _is_symbolic(leaf):
    return isinstance(leaf, jax.custom_derivatives.SymbolicZero)


def _materialise(leaf):
    if not _is_symbolic(leaf):
        return leaf
    if leaf.dtype == jax.dtypes.float0:
        return np.zeros(leaf.shape, leaf.dtype)
    return jnp.zeros(leaf.shape, leaf.dtype)
