"""Run stretches of time through the whole network, and keep only their borders."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from . import _check
from ._scan import Scan
from ._strategy import Strategy
from ._variable import Frozen


@dataclasses.dataclass(frozen=True)
class Checkpointed(Strategy):
    """Run chunks of steps through the whole network; compute them again in reverse.

    Only the states between chunks and the output are kept for the backward pass, which
    runs each chunk a second time. The memory is that of one chunk and of ``T / chunk``
    states, and a chunk of a few dozen steps stays in the cache. Any number of steps
    will do: those left over by whole chunks are one more, shorter chunk.

    What changes while it runs, such as the statistics of a batch norm or the mask of a
    dropout, does so once a chunk.

    Parameters
    ----------
    chunk
        Steps in a chunk; by default the root of the number of steps, rounded up, for
        which the memory is least.

    Raises
    ------
    ValueError
        If `chunk` is not a positive integer.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, Checkpointed, unroll
    >>> strategy = Checkpointed(chunk=16)
    >>> state, spikes = unroll(LIF(2), jnp.ones((101, 2)), strategy=strategy)
    >>> spikes.shape
    (101, 2)
    """

    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.chunk is not None:
            _check.whole("chunk", self.chunk, least=1)

    def run(self, net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        """See `Strategy.run`."""
        n_steps = xs.shape[0]
        chunk = self.chunk or max(1, math.ceil(math.sqrt(n_steps)))
        whole = n_steps // chunk
        run_chunk, changing = _as_function(net)
        carry, parts = (changing, state), []
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


def _as_function(net):
    """Return the run of a chunk as a pure function, and what it changes in the net."""
    if not isinstance(net, nnx.Module):

        def run_plain(carry, xs):
            _, state = carry
            state, ys = Scan().run(net, xs, state)
            return ((), state), ys

        return jax.checkpoint(run_plain), ()

    # Parameters stay out of the carry, of which every chunk keeps a copy.
    graph, fixed, changing = nnx.split(net, (nnx.Param, Frozen), ...)

    def run(carry, xs):
        changing, state = carry
        copy = nnx.merge(graph, fixed, changing)
        state, ys = Scan().run(copy, xs, state)
        _, _, changing = nnx.split(copy, (nnx.Param, Frozen), ...)
        return (changing, state), ys

    return jax.checkpoint(run), changing
