"""One step of a network together with its traces: the engine under everything else."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from spike_core import RecurrentState

from . import _connection, _feedback, _filter, _layer, _rtrl, _trace
from ._engine import Engine
from ._local import Path, linearise
from ._plan import (
    Block,
    Plan,
    neuron_of,
    recurrence_of,
    variable_paths,
    without_reset,
)
from ._rule import Rule
from ._site import Passed, sites


class Sums(NamedTuple):
    """Weighted sums over steps and examples, from which the mean gradient is made."""

    loss: jax.Array
    weight: jax.Array
    gradients: dict[Path, jax.Array]
    rates: tuple  # of each block its output; empty without a penalty on rates
    traces: tuple  # of each block a dict; the same


class Carry(NamedTuple):
    """What goes from one step to the next; nothing in it grows with time."""

    state: tuple  # of the network
    traces: Any  # of each block a dict, by the path of the parameter
    feedback: _feedback.Weights
    sums: Sums


def start(
    engine: Engine,
    net: Any,
    state: tuple,
    x: jax.ShapeDtypeStruct,
    batch: tuple[int, ...],
) -> Carry:
    """Return the carry before the first step for inputs like `x`."""
    plan = engine.plan
    found = nnx.to_flat_state(nnx.state(net, nnx.Param))
    parameters = {path: variable[...] for path, variable in found}
    dtype = sum_dtype(parameters)
    zero = jnp.zeros((), dtype)
    gradients = {path: jnp.zeros(p.shape, dtype) for path, p in parameters.items()}
    if plan is None:
        influence = _rtrl.start(nnx.state(net, nnx.Param), state)
        return Carry(state, influence, {}, Sums(zero, zero, gradients, (), ()))

    graphdef, variables = nnx.split(net)

    def first(state, x):
        # On a copy: what a step changes in the network must not come from this one.
        net = _layer.merge(graphdef, variables)
        paths = variable_paths(net)

        def _sites(block):
            return sites(net, block, engine.rule.smoothing, paths)

        passed, y, *_ = _forward(plan, engine.rule, net, state, x, paths)
        blocks = list(zip(plan.blocks, passed, strict=True))
        traces = tuple(
            {
                site.path: site.start(p, b.probe.variables, *_readout(plan, b))
                for site in _sites(b)
            }
            for b, p in blocks
        )
        rates, sums = (), ()
        if engine.penalty is not None:
            rates = tuple(p.local.output for _, p in blocks)
            sums = tuple(
                {site.path: site.zero(p, len(batch)) for site in _sites(b)}
                for b, p in blocks
            )
        return y, traces, jax.tree.map(lambda z: z[(0,) * len(batch)], rates), sums

    y, *shapes = jax.eval_shape(first, state, x)
    traces, rates, sums = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes
    )
    outputs = y.shape[len(batch) :]
    if engine.rule.feedback == "broadcast" and plan.has_readout:
        outputs = plan.blocks[-1].probe.features
    feedback = _feedback.start(net, plan, engine.rule, math.prod(outputs), dtype)
    return Carry(state, traces, feedback, Sums(zero, zero, gradients, rates, sums))


def sum_dtype(parameters: Any) -> Any:
    """Return the dtype to sum in: float64 if a parameter has it, else float32."""
    wide = any(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(parameters))
    return jnp.float64 if wide else jnp.float32


def advance(
    engine: Engine, net: Any, carry: Carry, x: jax.Array, target: Any, weight: jax.Array
) -> tuple[Carry, jax.Array, jax.Array]:
    """Advance the network, its traces and the gradient by one step.

    `weight` is ``[*batch]``: what the loss of each example counts. Returns the output
    and the weighted sum of the losses too.
    """
    paths = variable_paths(net)
    gradients = dict(carry.sums.gradients)

    def add(path: Path, gradient: jax.Array):
        total = gradients[path]
        gradients[path] = total + gradient.reshape(total.shape).astype(total.dtype)

    def summed(value):
        return carry.sums._replace(
            loss=carry.sums.loss + value.astype(carry.sums.loss.dtype),
            weight=carry.sums.weight + weight.sum().astype(carry.sums.weight.dtype),
            gradients=gradients,
        )

    errors = _errors(engine.loss, target, weight)
    plan = engine.plan
    if plan is None:
        influence, state, y, value, gradient = _rtrl.advance(
            net, carry.traces, carry.state, x, errors
        )
        for path, variable in nnx.to_flat_state(gradient):
            add(path, variable[...])
        return Carry(state, influence, {}, summed(value)), y, value
    passed, y, tail, state = _forward(plan, engine.rule, net, carry.state, x, paths)
    value, error = errors(y)
    signal = _through_tail(net, carry.feedback, tail, error, add)
    signals = _signals(
        plan, engine.rule, net, carry.feedback, passed, signal, y, errors
    )
    filter = None
    if plan.filtered:
        filter = _filter.readout_filter(passed[-1].local, plan.leaks)
    counted = weight if engine.penalty is not None else None
    traces, batch_traces = [], []
    for level, block in enumerate(plan.blocks):
        new, seen = {}, {}
        for site in sites(net, block, engine.rule.smoothing, paths):
            new[site.path], gradient, seen[site.path] = site.advance(
                carry.traces[level][site.path],
                passed[level],
                signals[level],
                filter if block.filtered else None,
                counted,
            )
            add(site.path, site.finish(gradient))
        traces.append(new)
        batch_traces.append(seen)
    sums = summed(value)
    if counted is not None:
        rates = tuple(_trace.weighted_sum(counted, p.local.output) for p in passed)
        sums = sums._replace(
            rates=jax.tree.map(jnp.add, sums.rates, rates),
            traces=jax.tree.map(jnp.add, sums.traces, tuple(batch_traces)),
        )
    return Carry(state, tuple(traces), carry.feedback, sums), y, value


def mean(engine: Engine, net: Any, sums: Sums) -> tuple[jax.Array, nnx.State]:
    """Return the weighted mean of loss and gradient, zero without any weight."""
    some = sums.weight > 0
    scale = jnp.where(some, 1 / jnp.where(some, sums.weight, 1), 0)
    value = scale * sums.loss
    gradients = {path: scale * g for path, g in sums.gradients.items()}
    if engine.penalty is not None and engine.plan is not None:
        paths = variable_paths(net)
        for block, rate, traces in zip(
            engine.plan.hidden, sums.rates, sums.traces, strict=False
        ):
            traces = {path: scale.astype(e.dtype) * e for path, e in traces.items()}
            rate = scale.astype(rate.dtype) * rate
            price, extra = engine.penalty.value_and_grad(rate, traces)
            value += jnp.where(some, price, 0).astype(value.dtype)
            for site in sites(net, block, engine.rule.smoothing, paths):
                gradient = site.finish(extra[site.path])
                total = gradients[site.path]
                gradient = gradient.reshape(total.shape).astype(total.dtype)
                gradients[site.path] = total + jnp.where(some, gradient, 0)
    params = nnx.state(net, nnx.Param)
    leaves, tree = jax.tree.flatten(params)
    return value, tree.unflatten(
        gradients[path].astype(leaf.dtype)
        for (path, _), leaf in zip(nnx.to_flat_state(params), leaves, strict=True)
    )


def _readout(plan: Plan, block: Block) -> tuple[int, int]:
    """Return the number of leaks and of state variables of the filter on a block."""
    return (plan.leaks, plan.blocks[-1].probe.variables) if block.filtered else (1, 0)


def _forward(plan: Plan, rule: Rule, net, state, x, paths):
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
        neuron, recurrence = (
            of(net, block.neuron) for of in (neuron_of, recurrence_of)
        )
        entry, said = state[block.neuron], None
        if recurrence is not None:
            said = entry.y.astype(x.dtype)
            x = x + recurrence(said).astype(x.dtype)
            entry = entry.neuron
        local = linearise(neuron, entry, x)
        if rule.jacobian == "leak" and hasattr(neuron, "reset"):
            # What a spike does at its own step stays; what it leaves behind does not.
            leaky = linearise(without_reset(neuron), entry, x)
            local = local._replace(
                state_by_state=leaky.state_by_state,
                state_by_input=leaky.state_by_input,
                state_by_parameter=leaky.state_by_parameter,
            )
        entries[block.neuron] = local.state
        if recurrence is not None:
            entries[block.neuron] = RecurrentState(local.state, (), local.output)
        passed.append(Passed(pre, said, local, backs))
        x = local.output
    tail = []
    for index in plan.tail:
        pre = x
        x, back = _layer.apply(net.layers[index], x, paths)
        tail.append((index, pre, back))
    return passed, x, tail, tuple(entries)


def _errors(loss, target, weight):
    """Return the function from an output to its weighted loss and the derivative."""

    def weighted(y):
        losses = loss(y, target)
        if losses.shape != weight.shape:
            raise ValueError(
                "`loss` must return one number an example, shape "
                f"{weight.shape}, got shape {losses.shape}; reduce the other axes, "
                "for example with .mean(-1)"
            )
        return (weight.astype(losses.dtype) * losses).sum()

    return jax.value_and_grad(weighted)


def _through_tail(net, feedback, tail, signal, add):
    """Send the error down to the last neuron, and train the layers on the way."""
    for index, pre, back in reversed(tail):
        found, below = back(signal)
        for path, gradient in found.items():
            add(path, gradient)
        kernel = feedback.get(_feedback.of_layer(index))
        if kernel is not None:
            kernel = kernel.astype(signal.dtype)
            below = _connection.backwards(net.layers[index], kernel, signal, pre)
        signal = below
    return signal


def _signals(plan: Plan, rule: Rule, net, feedback, passed, signal, y, errors):
    """Return the learning signal of each block, ``[leaks, *batch, *features]``.

    `signal` is the one of the last neuron's output.
    """
    top = plan.blocks[-1]
    signals = [signal[None]]
    batch = signal.ndim - len(top.probe.features)
    own = [feedback.get(_feedback.of_layer(b.neuron)) for b in plan.hidden]
    if rule.feedback == "broadcast":
        error = signal if plan.has_readout else errors(y)[1]
        leaks = plan.leaks if plan.filtered else 1
        error = _filter.split_by_leak(error, leaks, top.probe.features)
        error = error.reshape(*error.shape[: 1 + batch], -1)
        below = [
            _feedback.direct(weights, error, block.probe.features)
            for weights, block in zip(own, plan.hidden, strict=True)
        ]
        return below + signals[: len(plan.blocks) - len(below)]
    if rule.feedback == "local":
        below = [
            _feedback.local_error(weights, record.local.output, errors, y, batch)[None]
            for weights, record in zip(own, passed, strict=False)
        ]
        return below + signals[: len(plan.blocks) - len(below)]
    if plan.filtered:
        # The filter of the traces holds all that the readout does to a signal.
        signal = _filter.split_by_leak(signal, plan.leaks, top.probe.features)
    else:
        signal = (signal * passed[-1].local.output_by_input)[None]
    for level in reversed(range(1, len(plan.blocks))):
        block, record = plan.blocks[level], passed[level]
        if level < len(plan.blocks) - 1:
            signal = signal * record.local.output_by_input[None]
        signal = _back_through(net, feedback, block, record, signal)
        signals.append(signal)
    return signals[::-1]


def _back_through(net, feedback, block: Block, passed: Passed, signal):
    """Send signals ``[leaks, ...]`` from a neuron's input to the output below."""
    if block.connection is not None:
        layer = net.layers[block.connection]
        own = layer.kernel[...]
        kernel = feedback.get(_feedback.of_layer(block.connection), own)
        kernel = kernel.astype(signal.dtype)
        signal = jax.vmap(
            lambda s: _connection.backwards(layer, kernel, s, passed.pre)
        )(signal)
    for back in reversed(passed.backs):
        signal = jax.vmap(lambda s, back=back: back(s)[1])(signal)
    return signal
