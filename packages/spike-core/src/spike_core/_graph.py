"""Networks whose layers form a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from ._sequential import is_neuron, naming

Edge = tuple[str, str]


class GraphState(NamedTuple):
    """State of `Graph`.

    Parameters
    ----------
    layers
        State of each layer that has one, by name.
    previous
        Output of the step before, of each neuron that closes a cycle, by name.
    """

    layers: dict[str, Any]
    previous: dict[str, jax.Array]


class Graph(nnx.Module):
    """Connect layers as a graph: several inputs are summed, cycles look one step back.

    A cycle is found by itself. Going along it from the input, the last neuron on it is
    read one step late: zero in the first step.

    Parameters
    ----------
    layers
        Flax modules, functions and neurons by name; ``"input"`` and ``"output"`` are
        taken.
    edges
        Pairs ``(source, target)`` of names, from ``"input"`` to ``"output"``.

    Attributes
    ----------
    layers
        The layers by name.
    edges
        The edges.
    late
        Those of the edges that are read one step late.

    Raises
    ------
    ValueError
        If a name is unknown or taken, an edge is there twice, a layer is not between
        input and output, or a cycle has no neuron on it.
    TypeError
        If a layer cannot be called, or the neuron that closes a cycle does not have the
        attribute ``features``.

    Examples
    --------
    A hidden layer with feedback and a skip edge around it.

    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, Graph, unroll
    >>> rngs = nnx.Rngs(0)
    >>> net = Graph(
    ...     {"hidden": LIF(8), "back": nnx.Linear(8, 8, rngs=rngs), "last": LIF(8)},
    ...     [
    ...         ("input", "hidden"), ("hidden", "back"), ("back", "hidden"),
    ...         ("hidden", "last"), ("input", "last"), ("last", "output"),
    ...     ],
    ... )
    >>> net.late
    (('hidden', 'back'),)
    >>> unroll(net, jnp.ones((20, 4, 8), jnp.float32))[1].shape
    (20, 4, 8)
    """

    def __init__(self, layers: Mapping[str, Any], edges: Sequence[Edge]):
        edges = tuple((source, target) for source, target in edges)
        _check_graph(layers, edges)
        self.layers = nnx.Dict(layers)
        self.edges = edges
        self.late = _late_edges(layers, edges)
        # Names in the order in which a step runs them, and the same in groups: a
        # group of several, or of one that hears itself, has to go step by step.
        self.order = _order(edges, self.late)
        self.groups = _groups(edges, self.order)

    def initial_state(self, batch_shape: Sequence[int] = ()) -> GraphState:
        """Return the state before the first step.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        GraphState
            The state.
        """
        states = {
            name: layer.initial_state(batch_shape)
            for name, layer in self.layers.items()
            if is_neuron(layer)
        }
        previous = {
            name: jnp.zeros((*batch_shape, *self.layers[name].features), jnp.float32)
            for name in sorted({source for source, _ in self.late})
        }
        return GraphState(states, previous)

    def __call__(self, state: GraphState, x: jax.Array) -> tuple[GraphState, jax.Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            What ``"input"`` stands for, ``[*batch, *features]``.

        Returns
        -------
        state, y
            The next state and the sum of what goes to ``"output"``.

        Raises
        ------
        TypeError
            If `state` is not a `GraphState`.
        ValueError
            If inputs of a layer that are to be summed differ in shape.
        """
        if not isinstance(state, GraphState):
            raise TypeError(f"`state` must be a GraphState, got {type(state).__name__}")
        inputs = {name: x for name in self.order if ("input", name) in self.edges}
        after, outputs = self.run_step(self.order, state, inputs)
        return after, outputs["output"]

    def run_step(
        self, names: Sequence[str], state: GraphState, inputs: dict[str, jax.Array]
    ) -> tuple[GraphState, dict[str, jax.Array]]:
        """Advance some of the layers, given what they hear from outside."""
        dtype = next(iter(inputs.values())).dtype
        outputs, states = {}, {}
        for name in names:
            parts = [inputs[name]] if name in inputs else []
            for source, target in self.edges:
                if target == name and source in names:
                    late = (source, target) in self.late
                    said = state.previous[source] if late else outputs[source]
                    parts.append(said.astype(dtype))
            total = add_up(name, parts)
            if name == "output":
                outputs[name] = total
                continue
            layer = self.layers[name]
            with naming(f"layers[{name!r}]", layer):
                if is_neuron(layer):
                    states[name], outputs[name] = layer(state.layers[name], total)
                else:
                    outputs[name] = layer(total)
        previous = {name: outputs[name] for name in state.previous}
        return GraphState(states, previous), outputs


def add_up(name: str, parts: list[jax.Array]) -> jax.Array:
    """Sum what comes into a layer."""
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ValueError(
            f"`edges` into {name!r} must bring the same shape, got {sorted(shapes)}"
        )
    total = parts[0]
    for part in parts[1:]:
        total = total + part.astype(total.dtype)
    return total


class GraphLoop:
    """The layers of a graph that lie on common cycles, as one neuron.

    Its input and its output are one array for each of the layers, by name.
    """

    def __init__(self, graph: Graph, names: tuple[str, ...]):
        self.graph = graph
        self.names = names

    def initial_state(self, batch_shape: Sequence[int] = ()) -> GraphState:
        """Return the part of the graph's initial state that belongs here."""
        return self.part(self.graph.initial_state(batch_shape))

    def part(self, state: GraphState) -> GraphState:
        """Return the part of the graph's state that belongs here."""
        return GraphState(
            *({n: part[n] for n in self.names if n in part} for part in state)
        )

    def inputs(self, outputs: dict[str, jax.Array]) -> dict[str, jax.Array]:
        """Return what the layers hear from outside, given the outputs there."""
        heard = {}
        for name in self.names:
            parts = [
                outputs[source]
                for source, target in self.graph.edges
                if target == name and source not in self.names
            ]
            if parts:
                heard[name] = add_up(name, parts)
        return heard

    def __call__(
        self, state: GraphState, x: dict[str, jax.Array]
    ) -> tuple[GraphState, dict[str, jax.Array]]:
        """Advance by one step."""
        return self.graph.run_step(self.names, state, x)


def _check_graph(layers, edges):
    for name in ("input", "output"):
        if name in layers:
            raise ValueError(f"`layers` must not use the name {name!r}")
    for name, layer in layers.items():
        if not callable(layer):
            raise TypeError(
                f"`layers[{name!r}]` must be callable, got {type(layer).__name__}"
            )
    sources, targets = {"input", *layers}, {"output", *layers}
    for edge in edges:
        if edge[0] not in sources or edge[1] not in targets:
            raise ValueError(
                f"`edges` must go from one of {sorted(sources)} to one of "
                f"{sorted(targets)}, got {edge}"
            )
        if edges.count(edge) > 1:
            raise ValueError(f"`edges` must not repeat an edge, got {edge} twice")
    forth = _reach("input", edges)
    back = _reach("output", [(target, source) for source, target in edges])
    for name in ("output", *layers):
        if name not in forth:
            raise ValueError(f"`edges` must lead from 'input' to {name!r}")
        if name not in back:
            raise ValueError(f"`edges` must lead from {name!r} to 'output'")


def _reach(start, edges):
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        new = [t for s, t in edges if s == here and t not in seen]
        seen.update(new)
        todo.extend(new)
    return seen


def _late_edges(layers, edges):
    late = []
    while cycle := _find_cycle([edge for edge in edges if edge not in late]):
        neurons = [name for name in cycle if is_neuron(layers[name])]
        if not neurons:
            raise ValueError(
                "`edges` must not close a cycle without a neuron, got "
                + " -> ".join([*cycle, cycle[0]])
            )
        last = neurons[-1]
        if not hasattr(layers[last], "features"):
            raise TypeError(
                f"`layers[{last!r}]` closes a cycle and must have the attribute "
                f"`features`; {type(layers[last]).__name__} has not"
            )
        after = cycle[(cycle.index(last) + 1) % len(cycle)]
        late.append((last, after))
    return tuple(late)


def _find_cycle(edges):
    """Return the names along the first cycle met from the input, or None."""
    finished = set()

    def visit(name, path):
        if name in path:
            return path[path.index(name) :]
        if name in finished:
            return None
        for source, target in edges:
            if source == name and (found := visit(target, [*path, name])):
                return found
        finished.add(name)
        return None

    return visit("input", [])


def _order(edges, late):
    """Return the targets, each after all that it reads in the same step."""
    waiting = {target: {s for s, t in edges if t == target} for _, target in edges}
    for source, target in late:
        waiting[target].discard(source)
    done, order = {"input"}, []
    while waiting:
        ready = [name for name, needs in waiting.items() if needs <= done]
        order.extend(ready)
        done.update(ready)
        for name in ready:
            del waiting[name]
    return tuple(order)


def _groups(edges, order):
    """Split the order into groups that cycles tie together, each after its sources."""
    reach = {name: _reach(name, edges) for name in order}
    groups = []
    for name in order:
        if any(name in group for group in groups):
            continue
        groups.append(tuple(n for n in order if n in reach[name] and name in reach[n]))
    # Stable: of two groups the one that is reached from the other comes later.
    done, ordered = {"input"}, []
    while len(ordered) < len(groups):
        for group in groups:
            needs = {s for s, t in edges if t in group and s not in group}
            if group not in ordered and needs <= done:
                ordered.append(group)
                done.update(group)
    return tuple(ordered)
