r"""What the trace needs to know of the layer that feeds a neuron.

Dense and convolutional layers are one thing here: every output is a sum over a *patch*
of the input, $x_{pc} = \sum_q P_{pq} W_{qc} + b_c$, with one patch at each position $p$
(a dense layer has a single position) and the same weights at all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

Connection = nnx.Linear | nnx.Conv


def is_connection(layer: Any) -> bool:
    """Tell a layer that can feed a neuron; a subclass may do anything."""
    return type(layer) in (nnx.Linear, nnx.Conv)


def uncovered(layer: Connection) -> str:
    """Say why there is no trace for a layer; empty if there is one."""
    if isinstance(layer, nnx.Conv):
        if layer.feature_group_count != 1:
            return "a convolution in groups has no eligibility trace here"
        if layer.mask is not None:
            return "a masked convolution has no eligibility trace here"
        padding = layer.padding
        if len(layer.kernel_size) > 3:
            return f"it has {len(layer.kernel_size)} spatial axes, more than 3"
        if isinstance(padding, str) and padding not in ("SAME", "VALID"):
            return f"`padding` must be 'SAME', 'VALID' or numbers, got {padding!r}"
    return ""


def patches(layer: Connection, x: jax.Array) -> jax.Array:
    """Cut the input into patches, ``[*batch, *positions, q]``."""
    if isinstance(layer, nnx.Linear):
        return x
    return _over_examples(
        layer,
        x,
        lambda examples, **window: jax.lax.conv_general_dilated_patches(
            examples, layer.kernel_size, **window
        ),
    )


def as_kernel(layer: Connection, weights: jax.Array) -> jax.Array:
    """Bring ``[q, c]`` into the shape of the layer's kernel."""
    if isinstance(layer, nnx.Linear):
        return weights
    *spatial, inputs, outputs = layer.kernel[...].shape
    # A patch runs over the channels first, a kernel over the positions.
    return jnp.moveaxis(weights.reshape(inputs, *spatial, outputs), 0, -2)


def backwards(
    layer: Connection, kernel: jax.Array, signal: jax.Array, like: jax.Array
) -> jax.Array:
    """Send a signal to the input `like` through a kernel of the layer's shape."""
    if isinstance(layer, nnx.Linear):
        return jnp.einsum("...c,qc->...q", signal, kernel)

    def forwards(x):
        return _over_examples(
            layer,
            x,
            lambda examples, **window: jax.lax.conv_general_dilated(
                examples, kernel, **window
            ),
        )

    (back,) = jax.linear_transpose(forwards, like)(signal)
    return back


def _over_examples(layer: nnx.Conv, x: jax.Array, convolve: Callable) -> jax.Array:
    rank = len(layer.kernel_size)
    batch = x.shape[: x.ndim - rank - 1]
    axes = "DHW"[3 - rank :]
    y = convolve(
        x.reshape(-1, *x.shape[len(batch) :]),
        window_strides=_each(layer.strides, rank),
        padding=_padding(layer.padding, rank),
        lhs_dilation=_each(layer.input_dilation, rank),
        rhs_dilation=_each(layer.kernel_dilation, rank),
        dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
    )
    return y.reshape(*batch, *y.shape[1:])


def _each(value: Any, rank: int) -> tuple[int, ...]:
    if value is None:
        return (1,) * rank
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _padding(value: Any, rank: int) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return [(value, value)] * rank
    return [(p, p) if isinstance(p, int) else tuple(p) for p in value]
