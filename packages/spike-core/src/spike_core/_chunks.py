"""Stretches of time, one after another, through a whole network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ._variable import Frozen
from ._varying import alike

Run = Callable[[Any, jax.Array, Any], tuple[Any, jax.Array]]


def run_in_chunks(
    run: Run, net: Any, xs: jax.Array, state: Any, chunk: int
) -> tuple[Any, jax.Array]:
    """Run a network chunk by chunk; in reverse each chunk is run a second time.

    Parameters
    ----------
    run
        Called as ``run(net, xs, state) -> (state, ys)`` with the steps of a chunk.
    net, xs, state
        As for `Strategy.run`.
    chunk
        Steps in a chunk; those left over are one more, shorter chunk.

    Returns
    -------
    state, ys
        As from `Strategy.run`.
    """
    n_steps = xs.shape[0]
    whole = n_steps // chunk
    run_chunk, changing = _as_function(run, net)
    carry, parts = _varying_like(net, xs, (changing, state)), []
    if whole:
        blocks = xs[: whole * chunk].reshape(whole, chunk, *xs.shape[1:])
        carry, ys = jax.lax.scan(run_chunk, carry, blocks)
        parts.append(ys.reshape(whole * chunk, *ys.shape[2:]))
    if n_steps % chunk or not whole:
        carry, ys = run_chunk(carry, xs[whole * chunk :])
        parts.append(ys)
    changing, state = carry
    if isinstance(net, nnx.Module):
        nnx.update(net, changing)
    return state, parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _varying_like(net, xs, carry):
    """Let what is carried vary over the axes of a `shard_map` that a step adds."""
    leaves, tree = jax.tree.flatten(carry)
    others = [
        xs,
        *(jax.tree.leaves(nnx.state(net)) if isinstance(net, nnx.Module) else []),
    ]
    return jax.tree.unflatten(tree, alike(*others, *leaves)[len(others) :])


def _as_function(run, net):
    """Return the run of a chunk as a pure function, and what it changes in the net."""
    if not isinstance(net, nnx.Module):

        def run_plain(carry, xs):
            _, state = carry
            state, ys = run(net, xs, state)
            return ((), state), ys

        return jax.checkpoint(run_plain), ()

    # Parameters stay out of the carry, of which every chunk keeps a copy.
    graph, fixed, changing = nnx.split(net, (nnx.Param, Frozen), ...)

    def run_module(carry, xs):
        changing, state = carry
        copy = nnx.merge(graph, fixed, changing)
        state, ys = run(copy, xs, state)
        _, _, changing = nnx.split(copy, (nnx.Param, Frozen), ...)
        return (changing, state), ys

    return jax.checkpoint(run_module), changing
