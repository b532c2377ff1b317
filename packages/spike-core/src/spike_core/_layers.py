"""The walk over a network's layers that strategies have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ._graph import Graph, GraphLoop, GraphState
from ._lengths import WithLengths
from ._sequence_dropout import SequenceDropout
from ._sequential import Sequential, check_entries, is_neuron, naming

RunNeuron = Callable[[str, Any, jax.Array, Any], tuple[Any, jax.Array]]


def run_layers(
    net: Any, xs: jax.Array, state: Any, run_neuron: RunNeuron
) -> tuple[Any, jax.Array]:
    """Run a network layer by layer, each over the whole sequence.

    A `Sequential` or a `Graph`, nested ones too, is walked; a layer without state is
    applied to all steps at once, as one block ``[T * batch, ...]``; every neuron goes
    to `run_neuron`. So do the layers of a graph that lie on common cycles, as one: its
    input and output are dictionaries of arrays.

    Parameters
    ----------
    net
        A network or a single neuron.
    xs
        Input, ``[T, *batch, *features]``.
    state
        State of `net` before the first step.
    run_neuron
        Called as ``run_neuron(name, neuron, xs, state) -> (state, ys)``. The name, such
        as ``"net.layers[1]"``, is for messages.

    Returns
    -------
    state, ys
        The state after the last step, and the output of each step.
    """
    if isinstance(net, WithLengths):
        return net.run(
            lambda inner, run_neuron: run_layers(inner, xs, state, run_neuron),
            run_neuron,
            xs,
        )
    return _run("net", net, xs, state, run_neuron, fit_state(net, xs, state)[0])


def _run(name, net, xs, state, run_neuron, batch_ndim):
    if isinstance(net, Graph):
        return _run_graph(name, net, xs, state, run_neuron, batch_ndim)
    if isinstance(net, SequenceDropout):
        return net.over_time(state, xs)
    if not isinstance(net, Sequential):
        return run_neuron(name, net, xs, state)
    check_entries(net, state)
    entries = []
    for index, (layer, entry) in enumerate(zip(net.layers, state, strict=True)):
        inner = f"{name}.layers[{index}]"
        with naming(inner, layer):
            if is_neuron(layer):
                entry, xs = _run(inner, layer, xs, entry, run_neuron, batch_ndim)
            else:
                xs = _apply_to_block(layer, xs, 1 + batch_ndim)
        entries.append(entry)
    return tuple(entries), xs


def _run_graph(name, net, xs, state, run_neuron, batch_ndim):
    outputs, states, previous = {"input": xs}, {}, {}
    for names in net.groups:
        loop = GraphLoop(net, names)
        if len(names) > 1 or (names[0], names[0]) in net.edges:
            part, ys = run_neuron(
                f"{name}.layers[{', '.join(map(repr, names))}]",
                loop,
                loop.inputs(outputs),
                loop.part(state),
            )
            states.update(part.layers)
            previous.update(part.previous)
            outputs.update(ys)
            continue
        (here,) = names
        total = loop.inputs(outputs)[here]
        if here == "output":
            return GraphState(states, previous), total
        layer, inner = net.layers[here], f"{name}.layers[{here!r}]"
        with naming(inner, layer):
            if is_neuron(layer):
                states[here], outputs[here] = _run(
                    inner, layer, total, state.layers[here], run_neuron, batch_ndim
                )
            else:
                outputs[here] = _apply_to_block(layer, total, 1 + batch_ndim)
    raise AssertionError("a graph without an output cannot be built")


def _apply_to_block(layer, xs, axes):
    leading = xs.shape[:axes]
    # Not -1: there may be no steps at all.
    ys = layer(xs.reshape(math.prod(leading), *xs.shape[axes:]))
    return ys.reshape(*leading, *ys.shape[1:])


def fit_state(net: Any, xs: jax.Array, state: Any = None) -> tuple[int, Any]:
    """Find how many of the axes of `xs` are batch axes, and the state that fits.

    Only the network knows: a step is traced, without computing anything, for one batch
    axis, none, two and so on, until the network takes it.

    Parameters
    ----------
    net
        A network or a single neuron.
    xs
        Input, ``[T, *batch, *features]``.
    state
        State of `net`; the initial one if None.

    Returns
    -------
    batch_ndim, state
        Number of batch axes; the state in the dtypes that steps give it, so that
        float64 input has a float64 state.

    Raises
    ------
    Exception
        Whatever the network raised, if it takes none of them.
    """
    x = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
    usual = min(1, max(0, x.ndim - 1))
    failures = {}
    for batch_ndim in sorted(range(x.ndim + 1), key=lambda n: (n != usual, n)):
        batch_shape = x.shape[:batch_ndim]
        try:
            start = net.initial_state(batch_shape) if state is None else state
            fresh = _dry_run(
                net, lambda net, shape=batch_shape: net.initial_state(shape)
            )
            _check_same("state", start, fresh)
            after, _ = _dry_run(net, lambda net, s, x: net(s, x), start, x)
            _check_same("state after a step", after, start)
        except Exception as error:
            failures[batch_ndim] = error
            continue
        return batch_ndim, jax.tree.map(
            lambda leaf, like: jnp.asarray(leaf, like.dtype), start, after
        )
    raise failures[usual]


def _dry_run(net, call, *args):
    if not isinstance(net, nnx.Module):
        return jax.eval_shape(lambda *args: call(net, *args), *args)
    # On a copy: what a step may change in the module, such as the count of a dropout's
    # random numbers, must not come from this dry run.
    graph, variables = nnx.split(net)
    return jax.eval_shape(
        lambda variables, *args: call(nnx.merge(graph, variables), *args),
        variables,
        *args,
    )


def _check_same(name, tree, like):
    if jax.tree.structure(tree) != jax.tree.structure(like):
        raise ValueError(
            f"`{name}` must have the structure {jax.tree.structure(like)}, "
            f"got {jax.tree.structure(tree)}"
        )
    for leaf, other in zip(jax.tree.leaves(tree), jax.tree.leaves(like), strict=True):
        if jnp.shape(leaf) != jnp.shape(other):
            raise ValueError(
                f"`{name}` must have a leaf of shape {jnp.shape(other)} here, "
                f"got {jnp.shape(leaf)}"
            )
