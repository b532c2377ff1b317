"""From the output of each step to one number a class."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import _check


def time_mean(ys: jax.Array) -> jax.Array:
    """Average over time: the rate of spikes, or the mean potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError
        If `ys` is not floating.
    ValueError
        If `ys` has no steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_mean
    >>> time_mean(jnp.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [0.5, 1.0]
    """
    return time_sum(ys) / ys.shape[0]


def time_sum(ys: jax.Array) -> jax.Array:
    """Sum over time: the number of spikes, or the integrated potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError
        If `ys` is not floating.
    ValueError
        If `ys` has no steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_sum
    >>> time_sum(jnp.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return _check_output(ys).sum(0)


def time_max(ys: jax.Array) -> jax.Array:
    """Largest value over time: the peak of the potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError
        If `ys` is not floating.
    ValueError
        If `ys` has no steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_max
    >>> time_max(jnp.array([[0.0, 1.0], [0.5, -1.0]])).tolist()
    [0.5, 1.0]
    """
    return _check_output(ys).max(0)


def _check_output(ys):
    _check.floating("ys", ys)
    if ys.ndim < 1 or ys.shape[0] == 0:
        raise ValueError(f"`ys` must have at least one step, got shape {ys.shape}")
    # A sum of many spikes does not fit in bfloat16, which is exact up to 256 only.
    return ys if ys.dtype == jnp.float64 else ys.astype(jnp.float32)
