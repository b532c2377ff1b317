"""Weights that carry errors down in place of the network's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from . import _connection
from ._plan import Plan
from ._rule import Rule

Weights = dict[str, jax.Array]


def start(net: Any, plan: Plan, rule: Rule, outputs: int, dtype: Any) -> Weights:
    """Draw the feedback weights from `outputs` numbers, none for symmetric feedback.

    Their variance is that of a usual initialisation, so that errors keep their scale.
    """
    if rule.feedback == "symmetric":
        return {}
    # A stream of its own: a network made from the same seed has weights drawn from
    # keys folded with small numbers, and feedback that equals them tests nothing.
    key = jax.random.fold_in(jax.random.key(rule.seed), 0xFEEDBAC)
    if rule.feedback in ("random", "adaptive"):
        layers = [b.connection for b in plan.blocks[1:] if b.connection is not None]
        layers += [i for i in plan.tail if _connection.is_connection(net.layers[i])]
        return {
            of_layer(i): _draw(
                jax.random.fold_in(key, i), net.layers[i].kernel.shape, dtype
            )
            for i in layers
        }
    return {
        of_layer(block.neuron): _draw(
            jax.random.fold_in(key, block.neuron),
            (math.prod(block.probe.features), outputs),
            dtype,
        )
        for block in plan.hidden
    }


def of_layer(index: int) -> str:
    """Name the weights that stand for a layer's, or that lead straight to it."""
    return f"layers[{index}]"


def direct(weights: jax.Array, error: jax.Array, features: tuple[int, ...]):
    """Send errors ``[..., k]`` from the output to a block, ``[..., *features]``."""
    signal = jnp.einsum("...k,jk->...j", error, weights.astype(error.dtype))
    return signal.reshape(*signal.shape[:-1], *features)


def local_error(
    weights: jax.Array, z: jax.Array, error_of: Callable, y: jax.Array, batch: int
) -> jax.Array:
    """Return the derivative by `z` of a block's own loss through its own readout.

    `error_of` maps an output of the shape of `y` to its loss and the derivative.
    """
    flat = z.reshape(*z.shape[:batch], -1)
    own = jnp.einsum("...j,jk->...k", flat, weights.astype(z.dtype)).reshape(y.shape)
    _, error = error_of(own.astype(y.dtype))
    error = error.reshape(*y.shape[:batch], -1)
    return direct(weights, error.astype(z.dtype), z.shape[batch:])


def _draw(key, shape, dtype):
    return jax.random.normal(key, shape, dtype) / math.sqrt(math.prod(shape[:-1]))
