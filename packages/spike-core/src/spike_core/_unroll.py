"""Run a network over a sequence."""

from __future__ import annotations

from typing import Any, Literal

import jax

from ._fused import Auto
from ._layers import fit
from ._sequential import is_neuron
from ._strategy import Strategy


def unroll(
    net: Any,
    xs: jax.Array,
    state: Any = None,
    *,
    strategy: Strategy | Literal["auto"] = "auto",
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
        How to run; ``"auto"`` takes `Fused` for each neuron that has a kernel, on a CPU
        with `spike-native` installed, and `Scan` for the others.

    Returns
    -------
    state, ys
        The state after the last step, and the output of each step,
        ``[T, *batch, *outputs]``.

    Raises
    ------
    TypeError
        If `net` has no state, `xs` is not an array, or `strategy` is not a `Strategy`.
    ValueError
        If `xs` has no time axis, or a shape does not fit; the note of the error names
        the layer.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> state, spikes = unroll(LIF(3), jnp.ones((100, 8, 3)))
    >>> spikes.shape, state.v.shape
    ((100, 8, 3), (8, 3))
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
    xs = jax.numpy.asarray(xs)
    _, state = fit(net, xs, state)
    return strategy.run(net, xs, state)
