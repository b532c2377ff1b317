"""What the nodes of an interchange graph need beside Flax's layers and the neurons."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .. import _check
from .._neuron.base import broadcast, state_dtype
from .._surrogate import ATan, Surrogate
from .._variable import Frozen


class Scale(nnx.Module):
    """Multiply elementwise.

    Parameters
    ----------
    scale
        Factors, a scalar or of the shape of one sample; trained.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import Scale
    >>> Scale(2.0)(jnp.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, scale: Any):
        _check.number("scale", scale)
        self.scale = nnx.Param(jnp.asarray(scale, jnp.float32))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``scale * x``; `x` is ``[*batch, *features]``."""
        return broadcast(self.scale[...], x) * x


class Drive(nnx.Module):
    """What a membrane makes of its input current: the resistance times it.

    The membrane that follows is measured from its leak potential, so that it starts
    at rest: its threshold and its reset are those of the graph less `v_leak`. A graph
    that is written gets them back.

    Parameters
    ----------
    r
        Resistance, a scalar or of the shape of one sample; times the step in seconds
        before a membrane without a leak.
    v_leak
        Leak potential, likewise.
    w_in
        Weight of the input to a synapse before the membrane, likewise.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import Drive
    >>> Drive(2.0)(jnp.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, r: Any, v_leak: Any = 0.0, w_in: Any = 1.0):
        for name, value in (("r", r), ("v_leak", v_leak), ("w_in", w_in)):
            _check.number(name, value)
        self.r = Frozen(jnp.asarray(r, jnp.float32))
        self.v_leak = Frozen(jnp.asarray(v_leak, jnp.float32))
        self.w_in = Frozen(jnp.asarray(w_in, jnp.float32))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``r * w_in * x``; `x` is ``[*batch, *features]``."""
        return broadcast(self.r[...] * self.w_in[...], x) * x


class Shift(nnx.Module):
    """Add elementwise: back from the leak potential to the potential of the graph.

    Parameters
    ----------
    shift
        What is added, a scalar or of the shape of one sample.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import Shift
    >>> Shift(-65.0)(jnp.ones(2)).tolist()
    [-64.0, -64.0]
    """

    def __init__(self, shift: Any):
        _check.number("shift", shift)
        self.shift = Frozen(jnp.asarray(shift, jnp.float32))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return ``x + shift``; `x` is ``[*batch, *features]``."""
        return x + broadcast(self.shift[...], x)


class Threshold(nnx.Module):
    r"""Spikes without a membrane: $H(x - \theta)$.

    Parameters
    ----------
    threshold
        The threshold, a scalar or of the shape of one sample.
    surrogate
        The derivative of the spike.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import Threshold
    >>> Threshold(0.5)(jnp.array([0.4, 0.5, 0.6])).tolist()
    [0.0, 0.0, 1.0]
    """

    def __init__(
        self,
        threshold: Any,
        *,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
    ):
        _check.number("threshold", threshold)
        self.threshold = Frozen(jnp.asarray(threshold, jnp.float32))
        self.surrogate = surrogate

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return zeros and ones; `x` is ``[*batch, *features]``."""
        return self.surrogate(x - broadcast(self.threshold[...], x))


class IntegratorState(NamedTuple):
    """State of `Integrator`: the potential ``v``, ``[*batch, *features]``."""

    v: jax.Array


class Integrator(nnx.Module):
    r"""A sum over time: $v_t = v_{t-1} + x_t$, and $v_t$ is the output.

    Parameters
    ----------
    features
        Number of integrators, or the shape of the block of them.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.nir import Integrator
    >>> unroll(Integrator(1), jnp.ones((3, 1)))[1][:, 0].tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, features: int | Sequence[int]):
        self.features = _check.shape_of("features", features)

    def initial_state(self, batch_shape: Sequence[int] = ()) -> IntegratorState:
        """Return the state before the first step: zero."""
        return IntegratorState(jnp.zeros((*batch_shape, *self.features), jnp.float32))

    def __call__(
        self, state: IntegratorState, x: jax.Array
    ) -> tuple[IntegratorState, jax.Array]:
        """Advance by one step; `x` is ``[*batch, *features]``."""
        dtype = state_dtype(state.v, x)
        v = state.v.astype(dtype) + x.astype(dtype)
        return IntegratorState(v), v.astype(x.dtype)


class DelayState(NamedTuple):
    """State of `Delay`.

    Parameters
    ----------
    past
        The latest inputs, the last one first, ``[*batch, *features, longest delay]``.
    """

    past: jax.Array


class Delay(nnx.Module):
    """Pass the input on some steps later; zero until then.

    Parameters
    ----------
    features
        Number of lines, or the shape of the block of them.
    steps
        Whole steps, not negative; a scalar or one a line.

    Raises
    ------
    ValueError
        If `steps` is not whole, negative, or of another shape than the features.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.nir import Delay
    >>> xs = jnp.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> unroll(Delay(2, [0, 2]), xs)[1].tolist()
    [[1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]
    """

    def __init__(self, features: int | Sequence[int], steps: Any):
        self.features = _check.shape_of("features", features)
        _check.number("steps", steps, least=0)
        whole = np.asarray(steps, np.float64)
        if not (whole == np.round(whole)).all():
            raise ValueError(f"`steps` must be whole, got {steps}")
        if whole.shape not in ((), self.features):
            raise ValueError(
                f"`steps` must be a scalar or have the shape of the features "
                f"{self.features}, got shape {whole.shape}"
            )
        self.longest = int(whole.max())
        self.steps = Frozen(jnp.asarray(whole, jnp.int32))

    def initial_state(self, batch_shape: Sequence[int] = ()) -> DelayState:
        """Return the state before the first step: nothing has come in yet."""
        shape = (*batch_shape, *self.features, self.longest)
        return DelayState(jnp.zeros(shape, jnp.float32))

    def __call__(self, state: DelayState, x: jax.Array) -> tuple[DelayState, jax.Array]:
        """Advance by one step; `x` is ``[*batch, *features]``."""
        dtype = state_dtype(state.past, x)
        line = jnp.concatenate(
            [x[..., None].astype(dtype), state.past.astype(dtype)], axis=-1
        )
        steps = jnp.broadcast_to(broadcast_int(self.steps[...], x), x.shape)
        y = jnp.take_along_axis(line, steps[..., None], axis=-1)[..., 0]
        return DelayState(line[..., : self.longest]), y.astype(x.dtype)


def broadcast_int(value: jax.Array, like: jax.Array) -> jax.Array:
    """Give integers, unless they are a scalar, the rank of `like`."""
    return value.reshape((1,) * (like.ndim - value.ndim) + value.shape)


class ChannelsFirst(nnx.Module):
    """Let a layer with the channels last take data with the channels first.

    Parameters
    ----------
    layer
        A Flax layer, such as `flax.nnx.Conv`, or a function.
    axes
        Number of spatial axes.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core.nir import ChannelsFirst
    >>> conv = nnx.Conv(2, 5, (3, 3), rngs=nnx.Rngs(0))
    >>> ChannelsFirst(conv, 2)(jnp.ones((4, 2, 8, 8), jnp.float32)).shape
    (4, 5, 8, 8)
    """

    def __init__(self, layer: Any, axes: int):
        self.layer = layer
        self.axes = _check.whole("axes", axes, least=1)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the layer; `x` is ``[*batch, channels, *space]``."""
        y = self.layer(jnp.moveaxis(x, -1 - self.axes, -1))
        return jnp.moveaxis(y, -1, -1 - self.axes)


@dataclasses.dataclass(frozen=True)
class Flatten:
    """Make one axis of several.

    Parameters
    ----------
    first, last
        The first and the last of them, both negative: counted from the end, so that
        the batch axes do not matter.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import Flatten
    >>> Flatten(-3)(jnp.ones((4, 2, 8, 8))).shape
    (4, 128)
    """

    first: int
    last: int = -1

    def __post_init__(self) -> None:
        if not self.first <= self.last <= -1:
            raise ValueError(
                "`first` and `last` must be negative and in order, got "
                f"{self.first} and {self.last}"
            )

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return `x` with the axes made one."""
        first, last = x.ndim + self.first, x.ndim + self.last + 1
        one = math.prod(x.shape[first:last])
        return x.reshape(*x.shape[:first], one, *x.shape[last:])


def sum_pool(
    x: jax.Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> jax.Array:
    """Sum over windows; the channels are last, as in `flax.nnx.avg_pool`.

    Parameters
    ----------
    x
        ``[*batch, *space, channels]``.
    window_shape
        Size of the window, one a spatial axis.
    strides
        Steps between windows; 1 by default.
    padding
        ``"VALID"``, ``"SAME"`` or a pair ``(low, high)`` for each spatial axis.

    Returns
    -------
    jax.Array
        ``[*batch, *space, channels]``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import sum_pool
    >>> sum_pool(jnp.ones((1, 4, 4, 1)), (2, 2), (2, 2))[0, :, :, 0].tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    batch = x.ndim - len(window_shape) - 1

    def over_all(sizes):
        return (1,) * batch + tuple(sizes) + (1,)

    if not isinstance(padding, str):
        padding = ((0, 0),) * batch + tuple(padding) + ((0, 0),)
    return jax.lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        jax.lax.add,
        over_all(window_shape),
        over_all(strides or (1,) * len(window_shape)),
        padding,
    )


def avg_pool(
    x: jax.Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
) -> jax.Array:
    """Average over windows, what pads them included; see `sum_pool`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.nir import avg_pool
    >>> avg_pool(jnp.ones((1, 4, 4, 1)), (2, 2), (2, 2))[0, :, :, 0].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return sum_pool(x, window_shape, strides, padding) / math.prod(window_shape)
