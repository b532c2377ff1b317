r"""Eligibility traces, and those of the parameters that belong to single units.

With the derivatives of `_local` at step $t$, the influence of a parameter on the state
of unit $j$ and on its output obeys, for a weight from input $i$,

$$\epsilon_{ji,t} = D_{j,t}\,\epsilon_{ji,t-1} + B_{j,t}\, x_{i,t}, \qquad
e_{ji,t} = C_{j,t}\,\epsilon_{ji,t-1} + E_{j,t}\, x_{i,t}.$$

The gradient is $\sum_t L_{j,t} e_{ji,t}$ with the learning signal $L$; below a leaky
readout, $e$ is filtered first. For a parameter of the neuron itself, its derivatives
stand in place of $B x$ and $E x$. A trace is a list with one array a state variable.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from . import _filter
from ._filter import Filter
from ._local import Local, add_up


class Trace(NamedTuple):
    """A trace and, below a leaky readout, what its filter keeps."""

    eligibility: list[jax.Array]
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
    weight: jax.Array | None = None,
) -> tuple[Trace, jax.Array, jax.Array | None]:
    """Advance the trace of a parameter that each unit has for itself.

    Returns the trace, the gradient of each unit, ``[*batch, *features]``, and the
    batch's trace, ``[*features]``, weighted by `weight`, None without. A trace without
    variables is that of a rule without a past.
    """
    e, after = output_drive, []
    if trace.eligibility:
        before = trace.eligibility
        e = e + add_up(
            c * eps for c, eps in zip(local.output_by_state, before, strict=True)
        )
        after = [
            own + add_up(d * eps for d, eps in zip(row, before, strict=True))
            for row, own in zip(local.state_by_state, state_drive, strict=True)
        ]
    kept, filtered = _filter.advance(filter, trace.filtered, e)
    return Trace(after, kept), (signal * filtered).sum(0), weighted_sum(weight, e)


def weighted_sum(weight: jax.Array | None, e: jax.Array) -> jax.Array | None:
    """Sum over the batch axes, which `weight` has."""
    if weight is None:
        return None
    wide = weight.reshape(weight.shape + (1,) * (e.ndim - weight.ndim))
    return (wide.astype(e.dtype) * e).sum(tuple(range(weight.ndim)))
