"""Changes of a batch that leave its labels true."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .. import _check
from ._batches import Batch


def shift_time(batch: Batch, max_steps: int, *, key: jax.Array) -> Batch:
    """Move each sample earlier or later by a random number of steps.

    What is moved out of the sequence is lost, and the gap is silent: nothing comes in
    again at the other end. Lengths move along.

    Parameters
    ----------
    batch
        Samples, ``xs`` of shape ``[T, B, *channels]``.
    max_steps
        Largest shift, at least 0; all shifts up to it, in both directions, are equally
        likely.
    key
        Key of the random numbers, as `jax.random.key` gives it.

    Returns
    -------
    Batch
        The same samples, moved.

    Raises
    ------
    TypeError
        If `batch` is not a `Batch`.
    ValueError
        If `max_steps` is not an integer that is at least 0.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core.data import Batch, shift_time
    >>> xs = jnp.zeros((7, 3, 1)).at[3].set(1)  # a spike in the middle of each
    >>> batch = Batch(xs, labels=jnp.arange(3), lengths=jnp.full(3, 4))
    >>> moved = shift_time(batch, 2, key=jax.random.key(0))
    >>> moved.xs[..., 0].argmax(0).tolist(), moved.lengths.tolist()
    ([5, 1, 3], [6, 2, 4])
    """
    n_samples = _samples(batch)
    max_steps = _check.whole("max_steps", max_steps, least=0)
    shifts = jax.random.randint(key, (n_samples,), -max_steps, max_steps + 1, jnp.int32)
    n_steps = batch.xs.shape[0]

    def move(x, shift):
        padded = jnp.pad(x, [(max_steps, max_steps)] + [(0, 0)] * (x.ndim - 1))
        return jax.lax.dynamic_slice_in_dim(padded, max_steps - shift, n_steps)

    xs = jax.vmap(move, in_axes=(1, 0), out_axes=1)(batch.xs, shifts)
    lengths = jnp.clip(batch.lengths + shifts.astype(batch.lengths.dtype), 1, n_steps)
    return batch._replace(xs=xs, lengths=lengths)


def drop_spikes(batch: Batch, probability: float, *, key: jax.Array) -> Batch:
    """Remove spikes at random.

    Each cell of each sample is emptied on its own. What stays is not scaled: a spike
    stays a spike.

    Parameters
    ----------
    batch
        Samples, ``xs`` of shape ``[T, B, *channels]``.
    probability
        Probability of removing a spike, between 0 and 1.
    key
        Key of the random numbers, as `jax.random.key` gives it.

    Returns
    -------
    Batch
        The same samples with fewer spikes.

    Raises
    ------
    TypeError
        If `batch` is not a `Batch`.
    ValueError
        If `probability` is not between 0 and 1.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core.data import Batch, drop_spikes
    >>> batch = Batch(jnp.ones((100, 10, 10)), jnp.arange(10), jnp.full(10, 100))
    >>> fewer = drop_spikes(batch, 0.25, key=jax.random.key(0))
    >>> round(float(fewer.xs.mean()), 2)
    0.75
    """
    _samples(batch)
    _check.number("probability", probability, least=0, most=1)
    dropped = jax.random.bernoulli(key, probability, batch.xs.shape)
    return batch._replace(xs=jnp.where(dropped, jnp.zeros_like(batch.xs), batch.xs))


def _samples(batch: Batch) -> int:
    if not isinstance(batch, Batch):
        raise TypeError(f"`batch` must be a Batch, got {type(batch).__name__}")
    return batch.xs.shape[1]
