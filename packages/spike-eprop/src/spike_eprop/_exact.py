"""One trace a synapse: exact for whatever happens inside a neuron."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import _connection, _filter
from ._filter import Filter
from ._local import Local, add_up
from ._trace import Trace, weighted_sum


class Exact:
    """The trace of each weight for each example, ``[*batch, *positions, q, c]``."""

    def __init__(self, layer: _connection.Connection):
        self.layer = layer

    def start(self, pre, post, variables, leaks, readout) -> Trace:
        """Return the trace before the first step."""
        inputs = _connection.patches(self.layer, pre)
        zero = jnp.zeros((*inputs.shape, post.shape[-1]), post.dtype)
        return Trace([zero] * variables, _filter.start(readout, leaks, zero))

    def advance(
        self,
        trace: Trace,
        local: Local,
        pre: jax.Array,
        signal: jax.Array,
        filter: Filter | None,
        weight: jax.Array | None = None,
    ) -> tuple[Trace, jax.Array, jax.Array | None]:
        """Advance; return the trace, the gradient ``[q, c]`` and the batch's trace.

        The last is ``[*positions, q, c]``, weighted by `weight`, None without.
        """
        pre = pre.astype(local.output_by_input.dtype)
        now = _connection.patches(self.layer, pre)[..., None]
        before = trace.eligibility
        e = _wide(local.output_by_input) * now + add_up(
            _wide(c) * eps for c, eps in zip(local.output_by_state, before, strict=True)
        )
        after = [
            _wide(own) * now
            + add_up(_wide(d) * eps for d, eps in zip(row, before, strict=True))
            for row, own in zip(local.state_by_state, local.state_by_input, strict=True)
        ]
        kept, filtered = _filter.advance(filter, trace.filtered, e)
        gradient = _wide(signal) * filtered
        gradient = gradient.sum(tuple(range(gradient.ndim - 2)))
        return Trace(after, kept), gradient, weighted_sum(weight, e)


def _wide(a):
    return a[..., None, :]


class ExactShared:
    """The same for neurons with one constant Jacobian, under a leaky readout.

    Before the filter their traces differ in nothing but the last step's derivative, so
    that one an input is kept; the filtered ones are one a synapse.
    """

    def __init__(self, layer: _connection.Connection):
        self.layer = layer

    def start(self, pre, post, variables, leaks, readout) -> Trace:
        """Return the trace before the first step."""
        inputs = _connection.patches(self.layer, pre)
        synapses = jnp.zeros((*inputs.shape, post.shape[-1]), post.dtype)
        zero = jnp.zeros(pre.shape, post.dtype)
        return Trace([zero] * variables, _filter.start(readout, leaks, synapses))

    def advance(
        self,
        trace: Trace,
        local: Local,
        pre: jax.Array,
        signal: jax.Array,
        filter: Filter | None,
        weight: jax.Array | None = None,
    ) -> tuple[Trace, jax.Array, jax.Array | None]:
        """See `Exact.advance`."""
        pre = pre.astype(local.output_by_input.dtype)

        def synapses(neurons, inputs):
            return _wide(neurons) * _connection.patches(self.layer, inputs)[..., None]

        e = synapses(local.output_by_input, pre) + add_up(
            synapses(c, p)
            for c, p in zip(local.output_by_state, trace.eligibility, strict=True)
        )
        after = advance_shared(trace.eligibility, local, pre)
        kept, filtered = _filter.advance(filter, trace.filtered, e)
        gradient = _wide(signal) * filtered
        gradient = gradient.sum(tuple(range(gradient.ndim - 2)))
        return Trace(after, kept), gradient, weighted_sum(weight, e)


def advance_shared(
    traces: list[jax.Array], local: Local, pre: jax.Array
) -> list[jax.Array]:
    """Advance the traces of inputs to neurons with one constant Jacobian."""

    # Of all units and examples: any of them has it.
    def one(a):
        return a.reshape(-1)[0]

    return [
        one(own) * pre + add_up(one(d) * p for d, p in zip(row, traces, strict=True))
        for row, own in zip(local.state_by_state, local.state_by_input, strict=True)
    ]
