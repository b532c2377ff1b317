r"""The readout's leak as a filter on the trace.

A leaky readout $v_t = \kappa v_{t-1} + g r_t$ remembers what it was given. An error at
step $t$ therefore concerns the traces of all earlier steps, $\sum_{s \le t}
\kappa^{t-s} g\, e_s$: the readout's own recurrence, run over the trace. Any linear
readout works the same way, one recurrence for each of its different leaks.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ._local import Local, add_up


class Filter(NamedTuple):
    """A readout's coefficients: lists over state variables, arrays over leaks."""

    state_by_state: list[list[jax.Array]]
    state_by_input: list[jax.Array]
    output_by_state: list[jax.Array]
    output_by_input: jax.Array


def readout_filter(local: Local, leaks: int) -> Filter:
    """Take the coefficients of a linear readout: all examples of a batch have them."""
    return Filter(
        *jax.tree.map(
            lambda a: a.reshape(-1)[:leaks],
            (
                local.state_by_state,
                local.state_by_input,
                local.output_by_state,
                local.output_by_input,
            ),
        )
    )


def split_by_leak(
    signal: jax.Array, leaks: int, features: tuple[int, ...]
) -> jax.Array:
    """Split the readout's signal by leak, ``[leaks, *batch, *features]``."""
    if leaks == 1:
        return signal[None]
    batch_axes = (1,) * (signal.ndim - len(features))
    units = jnp.eye(leaks, dtype=signal.dtype)
    return units.reshape(leaks, *batch_axes, *features) * signal[None]


def start(filter_variables: int, leaks: int, e: jax.Array) -> list[jax.Array]:
    """Return the filtered trace before the first step."""
    return [jnp.zeros((leaks, *e.shape), e.dtype) for _ in range(filter_variables)]


def advance(
    filter: Filter | None, kept: list[jax.Array], e: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """Filter the trace `e` of one step: ``[leaks, *e.shape]``."""
    if filter is None:
        return kept, e[None]
    e = e[None]

    def wide(coefficient):
        return coefficient.reshape(-1, *(1,) * (e.ndim - 1)).astype(e.dtype)

    new = [
        wide(own) * e + add_up(wide(c) * f for c, f in zip(row, kept, strict=True))
        for row, own in zip(filter.state_by_state, filter.state_by_input, strict=True)
    ]
    out = wide(filter.output_by_input) * e + add_up(
        wide(c) * f for c, f in zip(filter.output_by_state, kept, strict=True)
    )
    return new, out
