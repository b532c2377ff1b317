"""The kernels on NumPy arrays, through the library's plain C interface."""

import ctypes
from typing import NamedTuple

import numpy as np

from ._library import CDenseShape, CNeuron, CShape, library
from ._neuron import Neuron

_DTYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}
_STATUS = {
    1: "no kernel for this neuron",
    2: "shapes do not fit each other",
    3: "no memory for the kernel's scratch",
}


class Forward(NamedTuple):
    """What `forward` returns."""

    ys: np.ndarray
    state: np.ndarray
    borders: np.ndarray


class Backward(NamedTuple):
    """What `backward` returns: cotangents."""

    xs: np.ndarray
    parameters: np.ndarray
    state: np.ndarray


def border_stride() -> int:
    """Return the number of steps between two states that `forward` keeps.

    Examples
    --------
    >>> border_stride() > 0
    True
    """
    return library().spike_border_stride()


def forward(
    neuron: Neuron,
    xs: np.ndarray,
    parameters: np.ndarray,
    state: np.ndarray,
    *,
    threads: int = 1,
) -> Forward:
    """Run neurons over a whole sequence.

    Parameters
    ----------
    neuron
        Which neuron.
    xs
        Input, `[*outer, steps, lanes]`, float32 or float64. A lane is one neuron of one
        sequence; leading axes are further, independent sequences.
    parameters
        `[*outer, len(neuron.parameters), features]`, of the dtype of `xs`. `lanes` is a
        multiple of `features`: a batch of B sequences over F neurons has B * F lanes.
    state
        State before the first step, `[*outer, len(neuron.states), lanes]`.
    threads
        Threads to use. The result does not depend on it, to the last bit.

    Returns
    -------
    Forward
        `ys` like `xs`, the last `state`, and `borders`: the state before every
        `border_stride()`-th step, `[*outer, n_borders, len(neuron.states), lanes]`,
        all that `backward` needs beside the arguments.

    Raises
    ------
    TypeError
        If an array is neither float32 nor float64, or not of the dtype of `xs`.
    ValueError
        If a shape does not fit, or `threads` is below one.

    Examples
    --------
    >>> xs = np.full((4, 1), 0.6)
    >>> lif = Neuron(reset="value")
    >>> parameters = np.array([[0.5], [1.0], [1.0], [0.0]])
    >>> forward(lif, xs, parameters, np.zeros((1, 1))).ys.ravel()
    array([0., 0., 1., 0.])
    """
    xs = _floats("xs", xs)
    shape = _shape(neuron, xs, parameters)
    parameters = _floats("parameters", parameters, xs.dtype)
    state = _like("state", state, xs, (len(neuron.states), shape.lanes))
    n_borders = -(-shape.steps // border_stride())
    out = Forward(
        np.empty_like(xs),
        np.empty_like(state),
        np.empty((*xs.shape[:-2], n_borders, *state.shape[-2:]), xs.dtype),
    )
    _call(
        library().spike_forward, neuron, shape, (xs, parameters, state, *out), threads
    )
    return out


def backward(
    neuron: Neuron,
    xs: np.ndarray,
    parameters: np.ndarray,
    borders: np.ndarray,
    ys_grad: np.ndarray,
    state_grad: np.ndarray,
    *,
    threads: int = 1,
) -> Backward:
    """Run the reverse of `forward`.

    Membranes are computed again from the borders, inside the cache, so nothing of the
    size of `xs` is kept between the two passes.

    Parameters
    ----------
    neuron, xs, parameters
        As given to `forward`.
    borders
        As returned by `forward`.
    ys_grad, state_grad
        Cotangents of `forward`'s `ys` and `state`.
    threads
        Threads to use. The result does not depend on it, to the last bit.

    Returns
    -------
    Backward
        Cotangents of `xs`, of `parameters` lane by lane,
        `[*outer, len(neuron.parameters), lanes]` (sum over the lanes that share a
        parameter), and of the first `state`.

    Raises
    ------
    TypeError
        If an array is neither float32 nor float64, or not of the dtype of `xs`.
    ValueError
        If a shape does not fit, or `threads` is below one.
    """
    xs = _floats("xs", xs)
    shape = _shape(neuron, xs, parameters)
    parameters = _floats("parameters", parameters, xs.dtype)
    rows = (len(neuron.states), shape.lanes)
    n_borders = -(-shape.steps // border_stride())
    borders = _like("borders", borders, xs, (n_borders, *rows))
    ys_grad = _like("ys_grad", ys_grad, xs, (shape.steps, shape.lanes))
    state_grad = _like("state_grad", state_grad, xs, rows)
    out = Backward(
        np.empty_like(xs),
        np.empty((*xs.shape[:-2], len(neuron.parameters), shape.lanes), xs.dtype),
        np.empty_like(state_grad),
    )
    arrays = (xs, parameters, borders, ys_grad, state_grad, *out)
    _call(library().spike_backward, neuron, shape, arrays, threads)
    return out


class DenseBackward(NamedTuple):
    """What `dense_backward` returns: cotangents."""

    weights: np.ndarray
    bias: np.ndarray


def dense_forward(
    xs: np.ndarray, weights: np.ndarray, bias: np.ndarray, *, threads: int = 1
) -> np.ndarray:
    """Apply a dense layer to an input of mostly zeros, such as spikes.

    The rows of the weights that belong to the other inputs are added up, so the time
    grows with their number. Any input gives ``xs @ weights + bias``, with one
    difference: a zero adds nothing even where its weight is infinite or NaN.

    Parameters
    ----------
    xs
        Input, `[*outer, rows, inputs]`, float32 or float64.
    weights, bias
        `[*outer, inputs, outputs]` and `[*outer, outputs]`, of the dtype of `xs`.
    threads
        Threads to use. The result does not depend on it, to the last bit.

    Returns
    -------
    ndarray
        `[*outer, rows, outputs]`.

    Raises
    ------
    TypeError
        If an array is neither float32 nor float64, or not of the dtype of `xs`.
    ValueError
        If a shape does not fit, or `threads` is below one.

    Examples
    --------
    >>> spikes = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    >>> weights = np.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    >>> dense_forward(spikes, weights, np.array([0.5, 0.0]))
    array([[10.5, 20. ],
           [11.5, 22. ]])
    """
    xs = _rows("xs", xs)
    bias = _floats("bias", bias, xs.dtype)
    outputs = bias.shape[-1] if bias.ndim else 0
    weights = _like("weights", weights, xs, (xs.shape[-1], outputs))
    bias = _like("bias", bias, xs, (outputs,))
    ys = np.empty((*xs.shape[:-1], outputs), xs.dtype)
    _call_dense(
        library().spike_dense_forward, (xs, weights, bias, ys), outputs, threads
    )
    return ys


def dense_backward(
    xs: np.ndarray, ys_grad: np.ndarray, *, threads: int = 1
) -> DenseBackward:
    """Run the reverse of `dense_forward` with respect to weights and bias.

    The cotangent of `xs` is ``ys_grad @ weights.T``: no zeros to leave out there.

    Parameters
    ----------
    xs
        As given to `dense_forward`.
    ys_grad
        Cotangent of its output.
    threads
        Threads to use. The result does not depend on it, to the last bit.

    Returns
    -------
    DenseBackward
        Cotangents of `weights` and of `bias`.

    Raises
    ------
    TypeError
        If an array is neither float32 nor float64, or not of the dtype of `xs`.
    ValueError
        If a shape does not fit, or `threads` is below one.

    Examples
    --------
    >>> dense_backward(np.array([[0.0, 1.0]]), np.array([[3.0]])).weights.ravel()
    array([0., 3.])
    """
    xs = _rows("xs", xs)
    ys_grad = _floats("ys_grad", ys_grad, xs.dtype)
    outputs = ys_grad.shape[-1] if ys_grad.ndim else 0
    ys_grad = _like("ys_grad", ys_grad, xs, (xs.shape[-2], outputs))
    outer = xs.shape[:-2]
    out = DenseBackward(
        np.empty((*outer, xs.shape[-1], outputs), xs.dtype),
        np.empty((*outer, outputs), xs.dtype),
    )
    _call_dense(library().spike_dense_backward, (xs, ys_grad, *out), outputs, threads)
    return out


def _rows(name: str, array: np.ndarray) -> np.ndarray:
    array = _floats(name, array)
    if array.ndim < 2:
        raise ValueError(
            f"`{name}` must be [*outer, rows, inputs], got shape {array.shape}"
        )
    return array


def _call_dense(function, arrays, outputs: int, threads: int) -> None:
    *outer, rows, inputs = arrays[0].shape
    shape = CDenseShape(int(np.prod(outer, dtype=np.int64)), rows, inputs, outputs)
    _run(function, arrays, ctypes.byref(shape), threads)


def _floats(name: str, array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    array = np.ascontiguousarray(array)
    if array.dtype not in _DTYPES:
        raise TypeError(f"`{name}` must be float32 or float64, got {array.dtype}")
    if dtype is not None and array.dtype != dtype:
        raise TypeError(
            f"`{name}` must be of the dtype of `xs` ({dtype}), got {array.dtype}"
        )
    return array


def _like(
    name: str, array: np.ndarray, xs: np.ndarray, last: tuple[int, ...]
) -> np.ndarray:
    array = _floats(name, array, xs.dtype)
    wanted = (*xs.shape[:-2], *last)
    if array.shape != wanted:
        raise ValueError(f"`{name}` must be of shape {wanted}, got {array.shape}")
    return array


def _shape(neuron: Neuron, xs: np.ndarray, parameters: np.ndarray) -> CShape:
    if xs.ndim < 2:
        raise ValueError(f"`xs` must be [*outer, steps, lanes], got shape {xs.shape}")
    *outer, steps, lanes = xs.shape
    names = neuron.parameters
    got = np.shape(parameters)
    if got[:-1] != (*outer, len(names)) or not got[-1] or lanes % got[-1]:
        raise ValueError(
            f"`parameters` must be of shape {(*outer, len(names))} + (features,), the "
            f"rows being {', '.join(names)}, with the {lanes} lanes of `xs` a multiple "
            f"of features; got {got}"
        )
    return CShape(int(np.prod(outer, dtype=np.int64)), steps, lanes, got[-1])


def _call(function, neuron, shape: CShape, arrays, threads: int) -> None:
    description = ctypes.byref(CNeuron(**neuron.as_attributes()))
    _run(function, arrays, ctypes.byref(shape), threads, description)


def _run(function, arrays, shape, threads: int, *description) -> None:
    if threads < 1:
        raise ValueError(f"`threads` must be at least 1, got {threads}")
    status = function(
        *description,
        _DTYPES[arrays[0].dtype],
        shape,
        *(array.ctypes.data for array in arrays),
        threads,
    )
    if status == 3:
        raise MemoryError(_STATUS[status])
    if status:
        raise ValueError(_STATUS[status])
