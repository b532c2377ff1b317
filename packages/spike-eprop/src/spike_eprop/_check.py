"""Checks at the border, so that messages look alike everywhere."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def sequence(name: str, value: Any) -> jax.Array:
    """Return an array with a time axis and at least one step."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise TypeError(f"`{name}` must be an array, got {type(value).__name__}")
    if len(value.shape) == 0:
        raise ValueError(f"`{name}` must have time as its first axis, got a scalar")
    if 0 in value.shape:
        raise ValueError(
            f"`{name}` must have at least one step, example and feature, "
            f"got shape {value.shape}"
        )
    if np.issubdtype(value.dtype, np.complexfloating):
        raise TypeError(f"`{name}` must be real, got {value.dtype}")
    # In NumPy: under jit even an array that is known would be traced.
    if not isinstance(value, jax.core.Tracer) and not np.isfinite(value).all():
        raise ValueError(f"`{name}` must be finite, got nan or inf")
    return jnp.asarray(value)


def one_step(name: str, value: Any) -> Any:
    """Return an array, or a description of one, that has a feature at least."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise TypeError(f"`{name}` must be an array, got {type(value).__name__}")
    if 0 in value.shape or value.shape == ():
        raise ValueError(
            f"`{name}` must have at least one example and feature, got shape "
            f"{value.shape}"
        )
    return value


def floating(value: jax.Array, dtype: Any) -> jax.Array:
    """Return spikes, which may come as bool or integers, in a floating dtype."""
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(dtype)


def steps_of(name: str, tree: Any, steps: int) -> Any:
    """Return a pytree of arrays, all of which have `steps` steps."""
    leaves = jax.tree.leaves(tree)
    if not leaves:
        raise ValueError(f"`{name}` must hold at least one array, got {tree!r}")
    for leaf in leaves:
        if not hasattr(leaf, "shape") or len(leaf.shape) == 0 or leaf.shape[0] != steps:
            seen = f"shape {leaf.shape}" if hasattr(leaf, "shape") else repr(leaf)
            raise ValueError(
                f"`{name}` must have one entry a step, {steps} along its first axis, "
                f"got {seen}; jnp.broadcast_to repeats one without copying it"
            )
    return jax.tree.map(jnp.asarray, tree)


def weights(mask: Any, steps: int, batch: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return the weight of each step and example, ``[T, *batch]``."""
    if mask is None:
        return jnp.ones((steps, *batch), dtype)
    shape = jnp.shape(mask)
    if shape not in ((steps,), (steps, *batch)):
        raise ValueError(
            f"`mask` must have shape {(steps,)} or {(steps, *batch)}, got {shape}"
        )
    if not isinstance(mask, jax.core.Tracer):
        values = np.asarray(mask, np.float64)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError("`mask` must be finite and nonnegative")
        if not values.any():
            raise ValueError("`mask` must give some step a weight, got only zeros")
    mask = jnp.asarray(mask).astype(dtype)
    return jnp.broadcast_to(
        mask.reshape(*shape, *(1,) * (1 + len(batch) - len(shape))), (steps, *batch)
    )
