"""Where in a block parameters sit, and how their traces are advanced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from . import _connection, _layer, _trace
from ._exact import Exact, ExactShared
from ._filter import Filter
from ._local import Local, Path
from ._plan import Block, neuron_of, recurrence_of
from ._rank_one import Factored, Instant, Presynaptic


class Passed(NamedTuple):
    """What the forward pass of a block leaves for its traces."""

    pre: jax.Array  # input of the connection
    said: jax.Array | None  # input of the recurrent connection, the last output
    local: Local
    backs: list[_layer.Back]


class Site(NamedTuple):
    """One parameter of a block.

    `start(passed, variables, leaks, readout)` gives its trace; `advance(trace, passed,
    signal, filter, weight)` the next one, the gradient and, with a weight, the trace of
    the batch; `zero(passed, batch)` is of the shape of the latter; `finish` brings a
    gradient into the shape of the parameter.
    """

    path: Path
    start: Callable[..., Any]
    advance: Callable[..., tuple[Any, jax.Array, jax.Array | None]]
    zero: Callable[[Passed, int], jax.Array]
    finish: Callable[[jax.Array], jax.Array]


def sites(
    net: Any, block: Block, smoothing: float, paths: dict[int, Path]
) -> list[Site]:
    """List what is trained in a block."""
    found = []
    layers = []
    if block.connection is not None:
        layers.append((net.layers[block.connection], lambda passed: passed.pre))
    if (recurrence := recurrence_of(net, block.neuron)) is not None:
        layers.append((recurrence, lambda passed: passed.said))
    for layer, pre_of in layers:
        if isinstance(layer.kernel, nnx.Param):
            path = paths[id(layer.kernel)]
            found.append(_kernel(layer, path, block, smoothing, pre_of))
        if isinstance(layer.bias, nnx.Param):
            # A bias is a weight from an input that is always one.
            found.append(
                _unit(
                    paths[id(layer.bias)],
                    block,
                    layer.bias.shape,
                    lambda local: (local.state_by_input, local.output_by_input),
                )
            )
    neuron = neuron_of(net, block.neuron)
    if isinstance(neuron, nnx.Module):
        shapes = {
            path: variable.shape
            for path, variable in nnx.to_flat_state(nnx.state(neuron, nnx.Param))
        }
        for inside, path in _layer.parameter_paths(neuron, paths).items():
            found.append(
                _unit(
                    path,
                    block,
                    shapes[inside],
                    lambda local, inside=inside: (
                        local.state_by_parameter[inside],
                        local.output_by_parameter[inside],
                    ),
                )
            )
    return found


def _kernel(layer, path, block: Block, smoothing, pre_of) -> Site:
    trace = {
        "exact": Exact,
        "exact shared": ExactShared,
        "presynaptic": Presynaptic,
        "factored": lambda layer: Factored(layer, smoothing),
        "none": Instant,
    }[block.trace](layer)

    def start(passed, variables, leaks, readout):
        post = passed.local.output_by_input
        return trace.start(pre_of(passed), post, variables, leaks, readout)

    def advance(state, passed, signal, filter: Filter | None, weight):
        pre = pre_of(passed)
        return trace.advance(state, passed.local, pre, signal, filter, weight)

    def zero(passed, batch):
        inputs = _connection.patches(layer, pre_of(passed))
        outputs = passed.local.output_by_input
        shape = (*inputs.shape[batch:], outputs.shape[-1])
        return jnp.zeros(shape, outputs.dtype)

    return Site(path, start, advance, zero, lambda g: _connection.as_kernel(layer, g))


def _unit(path, block: Block, shape, drives) -> Site:
    def start(passed, variables, leaks, readout):
        past = 0 if block.trace == "none" else variables
        return _trace.start_unit(passed.local.output_by_input, past, leaks, readout)

    def advance(state, passed, signal, filter: Filter | None, weight):
        by_state, by_output = drives(passed.local)
        return _trace.advance_unit(
            state, passed.local, by_state, by_output, signal, filter, weight
        )

    def zero(passed, batch):
        return jnp.zeros_like(passed.local.output[(0,) * batch])

    return Site(path, start, advance, zero, lambda g: _unbroadcast(g, shape))


def _unbroadcast(gradient, shape):
    """Sum what one value of the parameter was used for."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    wide = tuple(i for i, n in enumerate(shape) if n == 1)
    return gradient.sum(wide, keepdims=True)
