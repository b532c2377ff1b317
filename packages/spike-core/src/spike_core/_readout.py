"""From the output of each step to one number a class."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from . import _check
from ._time_axis import time_first, within


def time_mean(
    ys: jax.Array, lengths: jax.Array | None = None, *, time_axis: int = 0
) -> jax.Array:
    """Average over time: the rate of spikes, or the mean potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.
    lengths
        Number of steps that count in each sequence, ``[*batch]``, integers from 1 to T;
        all if None. What comes later in time is ignored, and gets no gradient.
    time_axis
        Where time is in `ys`, as for `unroll`.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError
        If `ys` is not floating or `lengths` are not integers.
    ValueError
        If `ys` has no steps, or `lengths` are out of range or of another shape.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_mean
    >>> ys = jnp.array([[[0.0, 1.0]], [[1.0, 1.0]]])
    >>> time_mean(ys).tolist(), time_mean(ys, jnp.array([1])).tolist()
    ([[0.5, 1.0]], [[0.0, 1.0]])
    """
    total = time_sum(ys, lengths, time_axis=time_axis)
    if lengths is None:
        return total / ys.shape[time_axis]
    return total / jnp.asarray(lengths)[..., None].astype(total.dtype)


def time_sum(
    ys: jax.Array, lengths: jax.Array | None = None, *, time_axis: int = 0
) -> jax.Array:
    """Sum over time: the number of spikes, or the integrated potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.
    lengths
        Number of steps that count in each sequence; see `time_mean`.
    time_axis
        Where time is in `ys`, as for `unroll`.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError, ValueError
        As `time_mean` does.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_sum
    >>> time_sum(jnp.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return _counted(ys, lengths, 0, time_axis).sum(0)


def time_max(
    ys: jax.Array, lengths: jax.Array | None = None, *, time_axis: int = 0
) -> jax.Array:
    """Largest value over time: the peak of the potential.

    Parameters
    ----------
    ys
        Output of a network, ``[T, *batch, classes]``, with at least one step.
    lengths
        Number of steps that count in each sequence; see `time_mean`.
    time_axis
        Where time is in `ys`, as for `unroll`.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32.

    Raises
    ------
    TypeError, ValueError
        As `time_mean` does.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import time_max
    >>> time_max(jnp.array([[0.0, 1.0], [0.5, -1.0]])).tolist()
    [0.5, 1.0]
    """
    return _counted(ys, lengths, -jnp.inf, time_axis).max(0)


def first_spike_time(
    ys: jax.Array, lengths: jax.Array | None = None, *, time_axis: int = 0
) -> jax.Array:
    r"""Step of the first spike, differentiable: an earlier spike is a smaller number.

    With $p_t = \prod_{r \le t} (1 - s_r)$, whether nothing has fired up to step $t$,
    the time is $\sum_t p_t$: the index of the first spike, or the length if there is
    none. The gradient goes through the spikes of the first spike and before.

    Parameters
    ----------
    ys
        Spikes of a network, ``[T, *batch, classes]``, with at least one step.
    lengths
        Number of steps that count in each sequence; see `time_mean`.
    time_axis
        Where time is in `ys`, as for `unroll`.

    Returns
    -------
    jax.Array
        ``[*batch, classes]``, at least float32. Its negative can serve as logits.

    Raises
    ------
    TypeError, ValueError
        As `time_mean` does.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import first_spike_time
    >>> first_spike_time(jnp.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])).tolist()
    [1.0, 3.0]
    """
    silent = jnp.cumprod(1 - _counted(ys, None, 0, time_axis), axis=0)
    return _counted(silent, lengths, 0, 0).sum(0)


def _counted(ys: Any, lengths: Any, instead: float, time_axis: int) -> jax.Array:
    """Check the output, widen it, put time first and replace what is not to count."""
    _check.floating("ys", ys)
    if ys.ndim:
        ys = time_first("ys", jnp.asarray(ys), time_axis)
    if ys.ndim < 1 or ys.shape[0] == 0:
        raise ValueError(f"`ys` must have at least one step, got shape {ys.shape}")
    # A sum of many spikes does not fit in bfloat16, which is exact up to 256 only.
    ys = ys if ys.dtype == jnp.float64 else ys.astype(jnp.float32)
    if lengths is None:
        return ys
    if not hasattr(lengths, "dtype") or not jnp.issubdtype(lengths.dtype, jnp.integer):
        seen = getattr(lengths, "dtype", type(lengths).__name__)
        raise TypeError(f"`lengths` must be an array of integers, got {seen}")
    if ys.ndim < 2 or lengths.shape != ys.shape[1:-1]:
        raise ValueError(
            f"`lengths` must have the shape of the batch axes of `ys`, "
            f"{ys.shape[1:-1]}, got {lengths.shape}"
        )
    _check.number("lengths", lengths, least=1, most=ys.shape[0])
    counts = within(jnp.asarray(lengths), ys.shape[0])
    return jnp.where(counts[..., None], ys, jnp.asarray(instead, ys.dtype))
