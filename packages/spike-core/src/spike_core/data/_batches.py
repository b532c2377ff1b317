"""One batch at a time from the host to the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from ._spike_data import SpikeData


class Batch(NamedTuple):
    """Samples on the device.

    Parameters
    ----------
    xs
        Spikes or counts, ``[T, B, *channels]``.
    labels
        Class of each sample, ``[B]``, int32.
    lengths
        Steps up to the last spike of each sample, ``[B]``, int32, as the readouts
        take them.
    """

    xs: jax.Array
    labels: jax.Array
    lengths: jax.Array


def batches(
    data: SpikeData,
    batch_size: int,
    *,
    seed: int | None = None,
    epoch: int = 0,
    start: int = 0,
    drop_last: bool = False,
    dtype: Any = jnp.float32,
) -> Iterator[Batch]:
    """Go through the samples once, a batch at a time on the device.

    Bits travel as bits and are unpacked on the device. The next batch is under way
    while the current one is used; up to three are on the device at a time, the one of
    the turn before among them until it is let go.

    The order depends on `seed` and `epoch` alone. A run that stopped after `k` batches
    of an epoch goes on with the same seed and epoch and ``start=k``.

    Parameters
    ----------
    data
        Samples on the host.
    batch_size
        Samples in a batch, at least 1.
    seed
        Shuffle with this seed, at least 0; None keeps the order of `data`.
    epoch
        Number of the epoch, at least 0; each has an order of its own.
    start
        Number of batches to leave out at the beginning, at least 0.
    drop_last
        Leave out the last batch if it is smaller than the others. Under `jit` a
        smaller batch is compiled once more.
    dtype
        Dtype of the spikes on the device.

    Returns
    -------
    Iterator[Batch]
        Batches of ``xs`` ``[T, B, *channels]``, labels and lengths.

    Raises
    ------
    TypeError
        If `data` is not a `SpikeData`.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from spike_core.data import SpikeData, batches
    >>> data = SpikeData.from_dense(np.ones((5, 7, 3)), labels=[0, 1, 2, 3, 4])
    >>> for xs, labels, lengths in batches(data, 2):
    ...     print(xs.shape, labels, lengths)
    (7, 2, 3) [0 1] [7 7]
    (7, 2, 3) [2 3] [7 7]
    (7, 1, 3) [4] [7]
    """
    if not isinstance(data, SpikeData):
        raise TypeError(f"`data` must be a SpikeData, got {type(data).__name__}")
    batch_size = _check.whole("batch_size", batch_size, least=1)
    epoch = _check.whole("epoch", epoch, least=0)
    start = _check.whole("start", start, least=0)
    order = np.arange(len(data))
    if seed is not None:
        seed = _check.whole("seed", seed, least=0)
        order = np.random.default_rng([seed, epoch]).permutation(order)
    if drop_last:
        order = order[: len(order) // batch_size * batch_size]
    order = order[start * batch_size :]
    rows = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    # A function of its own: arguments are checked at the call, not at the first batch.
    return _one_ahead(data, rows, jnp.dtype(dtype))


def _one_ahead(data, rows, dtype) -> Iterator[Batch]:
    ready = None
    for row in rows:
        following = _to_device(data, row, dtype)
        if ready is not None:
            yield ready
        ready = following
    if ready is not None:
        yield ready


def _to_device(data: SpikeData, row: np.ndarray, dtype) -> Batch:
    # Time first while it is still small: an eighth of the spikes as bytes.
    values = np.ascontiguousarray(np.swapaxes(data.values[row], 0, 1))
    values, labels, lengths = jax.device_put(
        (values, data.labels[row], data.lengths[row])
    )
    spread = _spread(values, channels=data.channels, packed=data.packed, dtype=dtype)
    return Batch(spread, labels, lengths)


@partial(jax.jit, static_argnames=("channels", "packed", "dtype"))
def _spread(values, *, channels, packed, dtype):
    if packed:
        values = jnp.unpackbits(values, axis=-1, count=int(np.prod(channels)))
    return values.astype(dtype).reshape(*values.shape[:2], *channels)
