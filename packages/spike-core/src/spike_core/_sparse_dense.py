"""Dense layers behind spikes: the rows of the weights of active inputs, added up."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ._neuron.spiking import SpikingNeuron
from ._sequential import Sequential
from ._varying import alike

# Where a sum of rows is still surely faster than a matrix product, forward and backward
# together: `bench run spike-dense` finds that it is at 0.5 (128 inputs, 20 or 128
# outputs, two cores of x86). The rest is a margin for other sizes.
_DENSITY = 0.4
_SAMPLED_ROWS = 64
# The kernel lays out the weights anew at every call, which few rows do not repay.
_LEAST_ROWS = 128


def skip_zeros(net: Any) -> Any:
    """Let the dense layers of a network leave out the zeros of their input.

    Taken are those that come first or right behind a spiking neuron, in a `Sequential`
    or one inside it. Which products are in fact computed by rows is decided anew at
    each run, by the density of the input.

    Parameters
    ----------
    net
        A network; its modules are used, not copied.

    Returns
    -------
    net
        With the same states.
    """
    return _skip_zeros(net, True)[0]


def _skip_zeros(net, spikes):
    if type(net) is Sequential:
        layers = []
        for layer in net.layers:
            layer, spikes = _skip_zeros(layer, spikes)
            layers.append(layer)
        return Sequential(*layers), spikes
    if spikes and is_plain_linear(net):
        return SparseLinear(net), False
    return net, isinstance(net, SpikingNeuron)


def is_plain_linear(layer: Any) -> bool:
    """Tell whether a layer is Flax's, with a product of the usual kind."""
    return (
        type(layer) is nnx.Linear
        and layer.dot_general is jax.lax.dot_general
        and layer.precision is None
        and layer.preferred_element_type is None
    )


class SparseLinear(nnx.Module):
    """Run a `nnx.Linear` on input ``[rows, inputs]`` that may be sparse."""

    def __init__(self, linear: nnx.Linear):
        self.linear = linear

    def __call__(self, xs: jax.Array) -> jax.Array:
        """Apply the layer."""
        linear = self.linear
        bias = linear.bias[...] if linear.bias is not None else None
        xs, kernel, bias = linear.promote_dtype(
            (xs, linear.kernel[...], bias), dtype=linear.dtype
        )
        is_block = xs.ndim == 2 and xs.shape[0] >= _LEAST_ROWS
        if not is_block or xs.dtype not in (jnp.float32, jnp.float64):
            return linear(xs)
        if bias is None:
            bias = jnp.zeros(kernel.shape[-1:], kernel.dtype)
        return _dense(*alike(xs, kernel, bias))


@jax.custom_vjp
def _dense(xs, kernel, bias):
    from spike_native import xla

    return _by_density(
        xla.dense_forward,
        lambda xs, kernel, bias: xs @ kernel + bias[None],
        xs,
        kernel,
        bias,
    )


def _dense_forward(xs, kernel, bias):
    return _dense(xs, kernel, bias), (xs, kernel)


def _dense_backward(kept, ys_grad):
    from spike_native import xla

    xs, kernel = kept
    by_kernel, by_bias = _by_density(
        xla.dense_backward, lambda xs, g: (xs.T @ g, jnp.sum(g, 0)), xs, ys_grad
    )
    return ys_grad @ kernel.T, by_kernel, by_bias


_dense.defvjp(_dense_forward, _dense_backward)


def _by_density(sparse, plain, xs, *others):
    """Take one of two functions, by the share of entries of `xs` that are not zero."""
    sample = xs[:: max(1, xs.shape[0] // _SAMPLED_ROWS)]
    active = jnp.count_nonzero(sample)
    few = active <= int(_DENSITY * sample.size)
    return jax.lax.cond(few, sparse, plain, xs, *others)
