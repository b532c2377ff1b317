"""Run stretches of time through the whole network, and keep only their borders."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax

from . import _check
from ._chunks import run_in_chunks
from ._fused import run_fastest
from ._strategy import Strategy


@dataclasses.dataclass(frozen=True)
class Checkpointed(Strategy):
    """Run chunks of steps through the whole network; compute them again in reverse.

    Only the states between chunks and the output are kept for the backward pass, which
    runs each chunk a second time. The memory is that of one chunk and of ``T / chunk``
    states, and a chunk of a few dozen steps stays in the cache. Inside a chunk neurons
    run as by default, with a kernel where there is one. Any number of steps
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
        chunk = self.chunk or max(1, math.ceil(math.sqrt(xs.shape[0])))
        return run_in_chunks(run_fastest, net, xs, state, chunk)
