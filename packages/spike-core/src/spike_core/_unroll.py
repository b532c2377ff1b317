"""Run a network over a sequence."""

from __future__ import annotations

from typing import Any, Literal

import jax

from ._fused import Auto
from ._layers import fit_state
from ._lengths import WithLengths, check_lengths
from ._sequential import is_neuron
from ._strategy import Strategy
from ._time_axis import time_back, time_first


def unroll(
    net: Any,
    xs: jax.Array,
    state: Any = None,
    *,
    strategy: Strategy | Literal["auto"] = "auto",
    lengths: jax.Array | None = None,
    time_axis: int = 0,
) -> tuple[Any, jax.Array]:
    """Run a network over a sequence.

    Nothing is kept between calls: without `state` a sequence starts afresh, and with
    the state that an earlier call returned it goes on where that one ended.

    Parameters
    ----------
    net
        A network or a single neuron: anything with ``initial_state(batch_shape)`` and
        ``net(state, x) -> (state, y)``.
    xs
        Input, ``[T, *batch, *features]``: time comes first. Usually there is one batch
        axis; there may be none or several.
    state
        State before the first step; the initial one if None.
    strategy
        How to run; ``"auto"`` takes the kernels of `Fused` where there are some, on a
        CPU with `spike-native` installed, and `Scan` for other neurons. A `Sequential`
        of nothing but `nnx.Linear` and neurons with kernels then runs in chunks of time
        that stay in the cache through all layers, as with `Checkpointed`.
    lengths
        Number of steps of each sequence, ``[*batch]``, integers from 0 to T; all if
        None. The state is then that of each sequence at its own end, and the output
        after it is zero. Layers without state still see all steps: a batch norm in
        training counts what comes after the end. The state costs a time loop more;
        where it is not used, only the strategies that work chunk by chunk pay it.
    time_axis
        Where time is in `xs`, and in `ys`: for ``[*batch, T, *features]`` the number of
        batch axes.

    Returns
    -------
    state, ys
        The state after the last step, and the output of each step,
        ``[T, *batch, *outputs]``.

    Raises
    ------
    TypeError
        If `net` has no state, `xs` is not an array, `strategy` is not a `Strategy`, or
        `lengths` are not integers.
    ValueError
        If `xs` has no time axis, or a shape does not fit; the note of the error names
        the layer. If `lengths` are out of range, of another shape than the batch, or
        given where the strategy shares out time over devices.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> state, spikes = unroll(LIF(3), jnp.ones((100, 8, 3)))
    >>> spikes.shape, state.v.shape
    ((100, 8, 3), (8, 3))

    Batch first, and two sequences of which the second is shorter:

    >>> xs, lengths = jnp.ones((2, 100, 3)), jnp.array([100, 60])
    >>> state, spikes = unroll(LIF(3, tau=5.0), 2 * xs, lengths=lengths, time_axis=1)
    >>> spikes.shape, spikes.sum((1, 2)).astype(int).tolist()
    ((2, 100, 3), [78, 45])
    """
    if not is_neuron(net):
        raise TypeError(
            "`net` must have `initial_state(batch_shape)` and be callable as "
            f"net(state, x), got {type(net).__name__}; put layers without state "
            "into a `Sequential`"
        )
    if not hasattr(xs, "shape") or not hasattr(xs, "dtype"):
        raise TypeError(f"`xs` must be an array, got {type(xs).__name__}")
    if len(xs.shape) == 0:
        raise ValueError("`xs` must have time as its first axis, got a scalar")
    if strategy == "auto":
        strategy = Auto()
    if not isinstance(strategy, Strategy):
        raise TypeError(
            f'`strategy` must be "auto" or a Strategy, such as Scan(), got {strategy!r}'
        )
    xs = time_first("xs", jax.numpy.asarray(xs), time_axis)
    batch_ndim, state = fit_state(net, xs, state)
    if lengths is not None:
        check_lengths(lengths, xs.shape[1 : 1 + batch_ndim], xs.shape[0])
        if getattr(strategy, "mesh", None) is not None:
            raise ValueError(
                "`lengths` must be None where a strategy shares out time over a mesh "
                f"of devices, as {strategy!r} does"
            )
        net = WithLengths(net, jax.numpy.asarray(lengths))
    state, ys = strategy.run(net, xs, state)
    if getattr(strategy, "reduce", None) is not None:
        return state, ys  # a total, which has no time axis
    return state, time_back(
        ys, time_axis=time_axis, ndim=xs.ndim, batch_ndim=batch_ndim
    )
