"""Where time is: first, unless an argument `time_axis` says otherwise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def normalise(name: str, ndim: int, time_axis: int) -> int:
    """Return `time_axis` of an array of rank `ndim`, counted from the front."""
    is_whole = isinstance(time_axis, int | np.integer) and not isinstance(
        time_axis, bool
    )
    if not is_whole or not -ndim <= time_axis < ndim:
        raise ValueError(
            f"`time_axis` must be an axis of `{name}`, which has {ndim}, "
            f"got {time_axis!r}"
        )
    return time_axis % ndim


def time_first(name: str, array: Any, time_axis: int) -> Any:
    """Move the time axis to the front."""
    if time_axis == 0 and not isinstance(time_axis, bool):
        return array
    return jnp.moveaxis(array, normalise(name, len(array.shape), time_axis), 0)


def time_back(array: Any, *, time_axis: int, ndim: int, batch_ndim: int) -> Any:
    """Move time from the front to where it was in an input of rank `ndim`."""
    axis = normalise("xs", ndim, time_axis)
    if axis > batch_ndim:
        raise ValueError(
            f"`time_axis` must be one of the first {batch_ndim + 1} axes of `xs`, "
            f"before the features, got {time_axis}"
        )
    return jnp.moveaxis(array, 0, axis) if axis else array


def within(lengths: jax.Array, n_steps: int) -> jax.Array:
    """Tell which steps count in each sequence: ``[T, *batch]``, booleans."""
    steps = jnp.arange(n_steps, dtype=lengths.dtype)
    return steps.reshape(-1, *[1] * lengths.ndim) < lengths[None]
