"""Numbers to spikes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import _check


def encode_rate(
    values: jax.Array, n_steps: int, *, key: jax.Array, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    """Fire at random, with the value as the probability of a spike in each step.

    Parameters
    ----------
    values
        Spikes per step, between 0 and 1, any shape, floating.
    n_steps
        Length of the sequence, at least 1.
    key
        Key of the random numbers, as `jax.random.key` gives it.
    dtype
        Dtype of the spikes.

    Returns
    -------
    jax.Array
        Zeros and ones, ``[n_steps, *values.shape]``.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If a value is not between 0 and 1, or `n_steps` is not a positive integer.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import encode_rate
    >>> spikes = encode_rate(jnp.array([0.0, 0.5, 1.0]), 1000, key=jax.random.key(0))
    >>> spikes.shape, [round(float(r), 1) for r in spikes.mean(0)]
    ((1000, 3), [0.0, 0.5, 1.0])
    """
    _check_values(values)
    n_steps = _check.whole("n_steps", n_steps, least=1)
    # In float32 whatever the values: bfloat16 has few numbers near one.
    chance = jax.random.uniform(key, (n_steps, *values.shape), jnp.float32)
    return (chance < values[None].astype(jnp.float32)).astype(dtype)


def encode_latency(
    values: jax.Array, n_steps: int, *, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    r"""Fire once, the earlier the larger the value.

    A value $x$ fires in step $\mathrm{round}((1 - x)(T - 1))$; zero never fires.

    Parameters
    ----------
    values
        Between 0 and 1, any shape, floating.
    n_steps
        Length $T$ of the sequence, at least 1.
    dtype
        Dtype of the spikes.

    Returns
    -------
    jax.Array
        Zeros and ones, ``[n_steps, *values.shape]``.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If a value is not between 0 and 1, or `n_steps` is not a positive integer.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import encode_latency
    >>> encode_latency(jnp.array([1.0, 0.5, 0.0]), 3).astype(int).T.tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    """
    _check_values(values)
    n_steps = _check.whole("n_steps", n_steps, least=1)
    times = jnp.round((1 - values) * (n_steps - 1)).astype(jnp.int32)
    times = jnp.where(values > 0, times, n_steps)
    steps = jnp.arange(n_steps, dtype=jnp.int32)
    return (steps.reshape(-1, *[1] * values.ndim) == times[None]).astype(dtype)


def _check_values(values):
    _check.floating("values", values)
    _check.number("values", values, least=0, most=1)
