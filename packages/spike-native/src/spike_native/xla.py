"""The kernels as JAX operations on the CPU; jax is imported at the first call.

These are the bare calls, without a derivative: a caller binds `backward` to `forward`
with `jax.custom_vjp`. Leading axes of `vmap` become independent sequences.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ._kernels import border_stride
from ._library import library
from ._neuron import Neuron

if TYPE_CHECKING:
    import jax

_FORWARD = "spike_native_forward"
_BACKWARD = "spike_native_backward"
_DENSE_FORWARD = "spike_native_dense_forward"
_DENSE_BACKWARD = "spike_native_dense_backward"


@cache
def _jax():
    """Import jax and register the kernels with it, once."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(
            "`spike_native.xla` needs jax: `pip install spike-native[jax]`"
        ) from error
    kernels = library()
    for target, handler in (
        (_FORWARD, kernels.spike_xla_forward),
        (_BACKWARD, kernels.spike_xla_backward),
        (_DENSE_FORWARD, kernels.spike_xla_dense_forward),
        (_DENSE_BACKWARD, kernels.spike_xla_dense_backward),
    ):
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform="cpu")
    return jax


def _attributes(neuron: Neuron) -> dict[str, np.generic]:
    return {
        name: np.float64(value) if isinstance(value, float) else np.int32(value)
        for name, value in neuron.as_attributes().items()
    }


def _results(xs, *shapes):
    """Results of the dtype of `xs`, varying over the axes of `shard_map` like it."""
    jax = _jax()

    def like(xs):
        return [jax.numpy.broadcast_to(jax.numpy.sum(xs), shape) for shape in shapes]

    return jax.eval_shape(like, xs)


def forward(
    neuron: Neuron,
    xs: jax.Array,
    parameters: jax.Array,
    state: jax.Array,
    *,
    borders: bool = True,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Run neurons over a whole sequence; see `spike_native.forward`.

    Parameters
    ----------
    neuron
        Which neuron.
    xs
        Input, `[steps, lanes]`, float32 or float64.
    parameters
        `[len(neuron.parameters), features]`, lanes a multiple of features.
    state
        State before the first step, `[len(neuron.states), lanes]`.
    borders
        Whether the borders are kept for `backward`; else none is returned.

    Returns
    -------
    tuple
        Outputs `[steps, lanes]`, last state, borders.

    Raises
    ------
    ImportError
        If jax is not installed.
    """
    jax = _jax()
    steps, _ = xs.shape
    n_borders = -(-steps // border_stride()) if borders else 0
    call = jax.ffi.ffi_call(
        _FORWARD,
        _results(xs, xs.shape, state.shape, (n_borders, *state.shape)),
        vmap_method="broadcast_all",
    )
    ys, last, kept = call(xs, parameters, state, **_attributes(neuron))
    return ys, last, kept


def backward(
    neuron: Neuron,
    xs: jax.Array,
    parameters: jax.Array,
    borders: jax.Array,
    ys_grad: jax.Array,
    state_grad: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Run the reverse of `forward`; see `spike_native.backward`.

    Parameters
    ----------
    neuron, xs, parameters
        As given to `forward`.
    borders
        As returned by `forward`.
    ys_grad, state_grad
        Cotangents of the outputs and of the last state.

    Returns
    -------
    tuple
        Cotangents of `xs`, of `parameters` (summed over the lanes that share one) and
        of the first state.
    """
    jax = _jax()
    _, lanes = xs.shape
    count, features = parameters.shape
    call = jax.ffi.ffi_call(
        _BACKWARD,
        _results(xs, xs.shape, (count, lanes), state_grad.shape),
        vmap_method="broadcast_all",
    )
    xs_grad, by_lane, first = call(
        xs, parameters, borders, ys_grad, state_grad, **_attributes(neuron)
    )
    by_batch = jax.numpy.reshape(by_lane, (count, lanes // features, features))
    return xs_grad, jax.numpy.sum(by_batch, axis=1), first


def dense_forward(xs: jax.Array, weights: jax.Array, bias: jax.Array) -> jax.Array:
    """Apply a dense layer to an input of mostly zeros; see the function on arrays.

    Parameters
    ----------
    xs
        Input, `[rows, inputs]`, float32 or float64.
    weights, bias
        `[inputs, outputs]` and `[outputs]`, of the dtype of `xs`.

    Returns
    -------
    Array
        ``xs @ weights + bias``, `[rows, outputs]`.

    Raises
    ------
    ImportError
        If jax is not installed.
    """
    jax = _jax()
    call = jax.ffi.ffi_call(
        _DENSE_FORWARD,
        _results(xs, (*xs.shape[:-1], bias.shape[-1])),
        vmap_method="broadcast_all",
    )
    (ys,) = call(xs, weights, bias)
    return ys


def dense_backward(xs: jax.Array, ys_grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Run the reverse of `dense_forward` with respect to weights and bias.

    Parameters
    ----------
    xs
        As given to `dense_forward`.
    ys_grad
        Cotangent of its output.

    Returns
    -------
    tuple
        Cotangents of `weights` and of `bias`.

    Raises
    ------
    ImportError
        If jax is not installed.
    """
    jax = _jax()
    outputs = ys_grad.shape[-1]
    call = jax.ffi.ffi_call(
        _DENSE_BACKWARD,
        _results(xs, (xs.shape[-1], outputs), (outputs,)),
        vmap_method="broadcast_all",
    )
    by_weights, by_bias = call(xs, ys_grad)
    return by_weights, by_bias
