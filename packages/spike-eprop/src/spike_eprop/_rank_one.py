r"""Traces that are a sum of products of an input's factor and a neuron's factor.

$$e_{ji,t} = \sum_m a_{j,t}^m\, p_{i,t}^m$$

Nothing of the size of the synapses times the batch is ever made: the gradient is a
matrix product over the batch. The price is the readout's filter, which has to be taken
of a product; see `_filtered`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import _connection, _filter
from ._exact import advance_shared
from ._filter import Filter
from ._local import Local, add_up

# A factor of the neurons and a factor of the inputs.
Term = tuple[jax.Array, jax.Array]


class RankOneTrace(NamedTuple):
    """Factors that are kept, and what the filter keeps of each term."""

    of_neurons: list[jax.Array]  # [*batch, *features]
    of_inputs: list[jax.Array]  # [*batch, *inputs]
    filtered: list  # of each term: of its two factors, and of the number one


class _RankOne(ABC):
    def __init__(self, layer: _connection.Connection):
        self.layer = layer

    def start(self, pre, post, variables, leaks, readout) -> RankOneTrace:
        """Return the trace before the first step."""
        of_neurons, of_inputs, terms = self._start(pre, post, variables)
        kept = [
            (
                _filter.start(readout, leaks, post),
                _filter.start(readout, leaks, pre),
                _filter.start(readout, leaks, jnp.zeros((), post.dtype)),
            )
            for _ in range(terms if readout else 0)
        ]
        return RankOneTrace(of_neurons, of_inputs, kept)

    def advance(
        self,
        trace: RankOneTrace,
        local: Local,
        pre: jax.Array,
        signal: jax.Array,
        filter: Filter | None,
        weight: jax.Array | None = None,
    ) -> tuple[RankOneTrace, jax.Array, jax.Array | None]:
        """Advance; return the trace, the gradient ``[q, c]`` and the batch's trace.

        The last is ``[*positions, q, c]``, weighted by `weight`, None without.
        """
        pre = pre.astype(local.output_by_input.dtype)
        terms = self._terms(trace, local, pre)
        kept, filtered = [], [(a[None], p[None]) for a, p in terms]
        if filter is not None:
            pairs = [
                _filtered(filter, f, term)
                for f, term in zip(trace.filtered, terms, strict=True)
            ]
            kept, filtered = [k for k, _ in pairs], [t for _, t in pairs]
        gradient = add_up(
            jnp.einsum("g...q,g...c->qc", self._patches(p), signal * a)
            for a, p in filtered
        )
        emission = None
        if weight is not None:
            wide = weight.reshape(
                weight.shape + (1,) * (terms[0][0].ndim - weight.ndim)
            )
            emission = add_up(
                _over_batch(weight.ndim, _connection.patches(self.layer, p), wide * a)
                for a, p in terms
            )
        of_neurons, of_inputs = self._advance(trace, local, pre)
        return RankOneTrace(of_neurons, of_inputs, kept), gradient, emission

    @abstractmethod
    def _start(
        self, pre: jax.Array, post: jax.Array, variables: int
    ) -> tuple[list[jax.Array], list[jax.Array], int]:
        """Return the factors of the neurons and inputs, and the number of terms."""

    @abstractmethod
    def _terms(self, trace: RankOneTrace, local: Local, pre: jax.Array) -> list[Term]:
        """Return the terms of the trace at this step."""

    @abstractmethod
    def _advance(
        self, trace: RankOneTrace, local: Local, pre: jax.Array
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """Return the factors after this step."""

    def _patches(self, p):
        return jax.vmap(lambda p: _connection.patches(self.layer, p))(p)


class Presynaptic(_RankOne):
    """One trace an input, for neurons that share one constant Jacobian."""

    def _start(self, pre, post, variables):
        zero = jnp.zeros(pre.shape, post.dtype)
        return [], [zero] * variables, variables + 1

    def _terms(self, trace, local, pre) -> list[Term]:
        past = list(zip(local.output_by_state, trace.of_inputs, strict=True))
        return [*past, (local.output_by_input, pre)]

    def _advance(self, trace, local, pre):
        return [], advance_shared(trace.of_inputs, local, pre)


class Factored(_RankOne):
    """A trace of the inputs times a trace of the neurons; see `es_d_rtrl`."""

    def __init__(self, layer: _connection.Connection, smoothing: float):
        super().__init__(layer)
        self.smoothing = smoothing

    def _start(self, pre, post, variables):
        zero = jnp.zeros_like(post)
        return [zero] * variables, [jnp.zeros(pre.shape, post.dtype)], 2

    def _terms(self, trace, local, pre) -> list[Term]:
        past = add_up(
            c * f for c, f in zip(local.output_by_state, trace.of_neurons, strict=True)
        )
        return [(past, trace.of_inputs[0]), (local.output_by_input, pre)]

    def _advance(self, trace, local, pre):
        alpha = self.smoothing
        of_neurons = [
            alpha * add_up(d * f for d, f in zip(row, trace.of_neurons, strict=True))
            + (1 - alpha) * own
            for row, own in zip(local.state_by_state, local.state_by_input, strict=True)
        ]
        return of_neurons, [alpha * trace.of_inputs[0] + pre]


class Instant(_RankOne):
    """No trace: only what the present step does."""

    def _start(self, pre, post, variables):
        return [], [], 1

    def _terms(self, trace, local, pre) -> list[Term]:
        return [(local.output_by_input, pre)]

    def _advance(self, trace, local, pre):
        return [], []


def _filtered(filter: Filter, kept, term: Term):
    """Take the filter of a product as the product of the filtered factors.

    Divided by the filter of one, so that it is right where either factor is constant.
    """
    new, out = [], []
    one = jnp.ones((), term[0].dtype)
    for f, factor in zip(kept, (*term, one), strict=True):
        n, o = _filter.advance(filter, f, factor)
        new.append(n)
        out.append(o)
    a, p, ones = out
    return tuple(new), (a / ones.reshape(-1, *(1,) * (a.ndim - 1)), p)


def _over_batch(axes, inputs, outputs):
    batch = inputs.shape[:axes]
    inputs = inputs.reshape(-1, *inputs.shape[len(batch) :])
    outputs = outputs.reshape(-1, *outputs.shape[len(batch) :])
    return jnp.einsum("b...q,b...c->...qc", inputs, outputs)
