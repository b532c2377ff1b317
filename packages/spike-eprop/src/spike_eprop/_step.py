"""One step of a network together with its traces: the engine under everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from . import _connection, _filter, _layer, _trace
from ._local import Local, Path, linearise
from ._plan import Block, Plan, variable_paths

# One number an example: `loss(y, target) -> [*batch]`.
Loss = Callable[[jax.Array, Any], jax.Array]


class Carry(NamedTuple):
    """What goes from one step to the next; nothing in it grows with time."""

    state: tuple  # of the network
    traces: tuple  # a dict a block, by the path of the parameter
    loss: jax.Array  # weighted sums over steps and examples
    weight: jax.Array
    gradients: dict[Path, jax.Array]


class _Passed(NamedTuple):
    """What the forward pass of a block leaves for its traces."""

    pre: jax.Array
    local: Local
    backs: list[_layer.Back]


def start(net: Any, plan: Plan, state: tuple, x: jax.ShapeDtypeStruct) -> Carry:
    """Return the carry before the first step for inputs like `x`."""
    paths = variable_paths(net)
    parameters = {
        path: variable[...]
        for path, variable in nnx.to_flat_state(nnx.state(net, nnx.Param))
    }

    def traces(state, x):
        passed, *_ = _forward(net, plan, state, x, paths)
        return tuple(
            _start_block(net, plan, block, p, paths)
            for block, p in zip(plan.blocks, passed, strict=True)
        )

    shapes = jax.eval_shape(traces, state, x)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    dtype = sum_dtype(parameters)
    return Carry(
        state,
        zeros,
        loss=jnp.zeros((), dtype),
        weight=jnp.zeros((), dtype),
        gradients=jax.tree.map(lambda p: jnp.zeros(p.shape, dtype), parameters),
    )


def sum_dtype(parameters: Any) -> Any:
    """Return the dtype to sum in: float64 if a parameter has it, else float32."""
    wide = any(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(parameters))
    return jnp.float64 if wide else jnp.float32


def advance(
    net: Any,
    plan: Plan,
    loss: Loss,
    carry: Carry,
    x: jax.Array,
    target: Any,
    weight: jax.Array,
) -> tuple[Carry, jax.Array]:
    """Advance the network, its traces and the gradient by one step.

    `weight` is ``[*batch]``: what the loss of each example counts.
    """
    paths = variable_paths(net)
    gradients = dict(carry.gradients)

    def add(path: Path, gradient: jax.Array):
        total = gradients[path]
        gradients[path] = total + gradient.reshape(total.shape).astype(total.dtype)

    passed, y, tail, state = _forward(net, plan, carry.state, x, paths)
    value, signal = _loss_and_signal(loss, y, target, weight)
    for back in reversed(tail):
        found, signal = back(signal)
        for path, gradient in found.items():
            add(path, gradient)
    traces = []
    for level in reversed(range(len(plan.blocks))):
        block, record = plan.blocks[level], passed[level]
        is_top = level == len(plan.blocks) - 1
        below_readout = plan.has_readout and not is_top
        if is_top:
            signal = signal[None]
        filter = None
        if below_readout:
            filter = _filter.readout_filter(passed[-1].local, plan.leaks)
        trace = _advance_block(
            net, block, carry.traces[level], record, signal, filter, paths, add
        )
        traces.append(trace)
        if level:
            if is_top and plan.has_readout:
                # The filter of the traces holds all that the readout does to a signal.
                signal = _filter.split_by_leak(
                    signal[0], plan.leaks, block.probe.features
                )
            else:
                signal = signal * record.local.output_by_input[None]
            signal = _back_through(net, block, record, signal)
    new = Carry(
        state,
        tuple(reversed(traces)),
        carry.loss + value.astype(carry.loss.dtype),
        carry.weight + weight.sum().astype(carry.weight.dtype),
        gradients,
    )
    return new, y


def mean(carry: Carry, params: nnx.State) -> tuple[jax.Array, nnx.State]:
    """Return the weighted mean of loss and gradient, zero without any weight."""
    some = carry.weight > 0
    scale = jnp.where(some, 1 / jnp.where(some, carry.weight, 1), 0)
    paths = [path for path, _ in nnx.to_flat_state(params)]
    leaves, tree = jax.tree.flatten(params)
    gradients = [
        (scale * carry.gradients[path]).astype(leaf.dtype)
        for path, leaf in zip(paths, leaves, strict=True)
    ]
    return scale * carry.loss, tree.unflatten(gradients)


def _forward(net, plan: Plan, state, x, paths):
    """Run one step; return what blocks leave, the output, the tail and the state."""
    passed, entries = [], list(state)
    for block in plan.blocks:
        backs = []
        for index in block.before:
            x, back = _layer.apply(net.layers[index], x, paths)
            backs.append(back)
        pre = x
        if block.connection is not None:
            x = net.layers[block.connection](x)
        local = linearise(net.layers[block.neuron], state[block.neuron], x)
        entries[block.neuron] = local.state
        passed.append(_Passed(pre, local, backs))
        x = local.output
    tail = []
    for index in plan.tail:
        x, back = _layer.apply(net.layers[index], x, paths)
        tail.append(back)
    return passed, x, tail, tuple(entries)


def _loss_and_signal(loss, y, target, weight):
    def weighted(y):
        losses = loss(y, target)
        if losses.shape != weight.shape:
            raise ValueError(
                "`loss` must return one number an example, shape "
                f"{weight.shape}, got shape {losses.shape}; reduce the other axes, "
                "for example with .mean(-1)"
            )
        return (weight.astype(losses.dtype) * losses).sum()

    return jax.value_and_grad(weighted)(y)


def _traced(net, block: Block) -> tuple[Any, nnx.Param | None, nnx.Param | None]:
    """Return the connection of a block and its kernel and bias, None if not trained."""
    if block.connection is None:
        return None, None, None
    layer = net.layers[block.connection]
    kernel, bias = (
        variable if isinstance(variable, nnx.Param) else None
        for variable in (layer.kernel, layer.bias)
    )
    return layer, kernel, bias


def _start_block(net, plan: Plan, block: Block, passed: _Passed, paths):
    readout, leaks = 0, 1
    if plan.has_readout and block is not plan.blocks[-1]:
        readout, leaks = plan.blocks[-1].probe.variables, plan.leaks
    variables = block.probe.variables
    unit = passed.local.state_by_input[0]
    traces = {}
    layer, kernel, bias = _traced(net, block)
    if kernel is not None:
        rule = _trace.ExactTrace(layer, shared=block.probe.shared)
        traces[paths[id(kernel)]] = rule.start(
            passed.pre, unit, variables, leaks, readout
        )
    if bias is not None:
        traces[paths[id(bias)]] = _trace.start_unit(unit, variables, leaks, readout)
    for path in _parameter_paths(net, block, paths).values():
        traces[path] = _trace.start_unit(unit, variables, leaks, readout)
    return traces


def _advance_block(net, block: Block, traces, passed, signal, filter, paths, add):
    local = passed.local
    new = {}
    layer, kernel, bias = _traced(net, block)
    if kernel is not None:
        path = paths[id(kernel)]
        rule = _trace.ExactTrace(layer, shared=block.probe.shared)
        new[path], gradient = rule.advance(
            traces[path], local, passed.pre, signal, filter
        )
        add(path, _connection.as_kernel(layer, gradient))

    def unit(path, state_drive, output_drive, shape):
        new[path], gradient = _trace.advance_unit(
            traces[path], local, state_drive, output_drive, signal, filter
        )
        add(path, _unbroadcast(gradient, shape))

    if bias is not None:
        # A bias is a weight from an input that is always one.
        unit(paths[id(bias)], local.state_by_input, local.output_by_input, bias.shape)
    neuron = net.layers[block.neuron]
    for inside, path in _parameter_paths(net, block, paths).items():
        shape = _at(neuron, inside).shape
        unit(
            path,
            local.state_by_parameter[inside],
            local.output_by_parameter[inside],
            shape,
        )
    return new


def _parameter_paths(net, block, paths):
    neuron = net.layers[block.neuron]
    if not isinstance(neuron, nnx.Module):
        return {}
    return _layer.parameter_paths(neuron, paths)


def _at(module, path):
    return dict(nnx.to_flat_state(nnx.state(module, nnx.Param)))[path]


def _unbroadcast(gradient, shape):
    """Sum what one value of the parameter was used for."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    wide = tuple(i for i, n in enumerate(shape) if n == 1)
    return gradient.sum(wide, keepdims=True)


def _back_through(net, block: Block, passed: _Passed, signal):
    """Send signals ``[leaks, ...]`` from a neuron's input to the output below."""
    if block.connection is not None:
        layer = net.layers[block.connection]
        kernel = layer.kernel[...]
        signal = jax.vmap(
            lambda s: _connection.backwards(layer, kernel, s, passed.pre)
        )(signal)
    for back in reversed(passed.backs):
        signal = jax.vmap(lambda s, back=back: back(s)[1])(signal)
    return signal
