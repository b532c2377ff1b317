r"""Eligibility traces of the weights and of the parameters that belong to single units.

With the derivatives of `_local` at step $t$, the influence of a parameter on the state
of unit $j$ and on its output obeys, for a weight from input $i$,

$$\epsilon_{ji,t} = D_{j,t}\,\epsilon_{ji,t-1} + B_{j,t}\, x_{i,t}, \qquad
e_{ji,t} = C_{j,t}\,\epsilon_{ji,t-1} + E_{j,t}\, x_{i,t}.$$

The gradient is $\sum_t L_{j,t} e_{ji,t}$ with the learning signal $L$; below a leaky
readout, $e$ is filtered first. Arrays of a weight are ``[*batch, *positions, q, c]``,
see `_connection`; a trace is a list with one array for each state variable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from . import _connection, _filter
from ._filter import Filter
from ._local import Local


class Trace(NamedTuple):
    """A trace and, below a leaky readout, what its filter keeps."""

    eligibility: Any
    filtered: list[jax.Array]


def start_unit(like: jax.Array, variables: int, leaks: int, readout: int) -> Trace:
    """Return the trace of a unit's parameter before the first step."""
    zero = jnp.zeros_like(like)
    return Trace([zero] * variables, _filter.start(readout, leaks, zero))


def advance_unit(
    trace: Trace,
    local: Local,
    state_drive: list[jax.Array],
    output_drive: jax.Array,
    signal: jax.Array,
    filter: Filter | None,
) -> tuple[Trace, jax.Array]:
    """Advance the trace of a parameter that each unit has for itself.

    Returns the trace and the gradient of each unit, ``[*batch, *features]``.
    """
    e = output_drive + _sum(local.output_by_state, trace.eligibility)
    eligibility = [
        own + _sum(row, trace.eligibility)
        for row, own in zip(local.state_by_state, state_drive, strict=True)
    ]
    kept, e = _filter.advance(filter, trace.filtered, e)
    return Trace(eligibility, kept), (signal * e).sum(0)


def _sum(coefficients, values):
    return sum(c * v for c, v in zip(coefficients, values, strict=True))


class ExactTrace:
    """One trace a synapse: exact for whatever happens inside the neuron.

    Where all units share one constant Jacobian, their traces differ in nothing, and
    one for each input is kept.
    """

    def __init__(self, layer: _connection.Connection, *, shared: bool):
        self.layer = layer
        self.shared = shared

    def start(
        self, pre: jax.Array, post: jax.Array, variables: int, leaks: int, readout: int
    ) -> Trace:
        """Return the trace before the first step."""
        inputs = _connection.patches(self.layer, pre)
        synapses = jnp.zeros(
            (*inputs.shape, post.shape[-1]), jnp.result_type(post.dtype)
        )
        zero = jnp.zeros(pre.shape, synapses.dtype) if self.shared else synapses
        return Trace([zero] * variables, _filter.start(readout, leaks, synapses))

    def advance(
        self,
        trace: Trace,
        local: Local,
        pre: jax.Array,
        signal: jax.Array,
        filter: Filter | None,
    ) -> tuple[Trace, jax.Array]:
        """Advance by one step; return the trace and the gradient ``[q, c]``."""
        if self.shared:
            eligibility = _advance_shared(trace.eligibility, local, pre)
            inputs = [self._inputs(p) for p in trace.eligibility]
            now = self._inputs(pre.astype(inputs[0].dtype))
            if filter is None:
                return Trace(eligibility, []), _correlate(signal, local, inputs, now)
            e = _per_output(local.output_by_input) * now[..., None]
            for c, p in zip(local.output_by_state, inputs, strict=True):
                e += _per_output(c) * p[..., None]
        else:
            before = trace.eligibility
            now = self._inputs(pre.astype(before[0].dtype))[..., None]
            eligibility = [
                _per_output(own) * now + _sum(map(_per_output, row), before)
                for row, own in zip(
                    local.state_by_state, local.state_by_input, strict=True
                )
            ]
            e = _per_output(local.output_by_input) * now
            e += _sum(map(_per_output, local.output_by_state), before)
        kept, e = _filter.advance(filter, trace.filtered, e)
        gradient = _per_output(signal) * e
        return Trace(eligibility, kept), gradient.sum(tuple(range(gradient.ndim - 2)))

    def _inputs(self, pre):
        return _connection.patches(self.layer, pre)


def _per_output(a):
    return a[..., None, :]


def _advance_shared(eligibility, local, pre):
    # One constant for all units and examples: any of them is it.
    def one(a):
        return a.reshape(-1)[0]

    pre = pre.astype(eligibility[0].dtype)
    return [
        one(own) * pre + sum(one(c) * p for c, p in zip(row, eligibility, strict=True))
        for row, own in zip(local.state_by_state, local.state_by_input, strict=True)
    ]


def _correlate(signal, local, inputs, now):
    # The sum over the batch is a matrix product: nothing of the size of the synapses
    # times the batch is ever made.
    signal = signal.sum(0)
    total = jnp.einsum("...q,...c->qc", now, signal * local.output_by_input)
    for c, p in zip(local.output_by_state, inputs, strict=True):
        total += jnp.einsum("...q,...c->qc", p, signal * c)
    return total
