"""Read a network as a stack of blocks, and refuse what the traces do not cover."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
from flax import nnx
from spike_core import Recurrent, Sequential, is_neuron

from . import _connection
from ._local import Path
from ._probe import Probe, probe
from ._rule import Rule


@dataclasses.dataclass(frozen=True)
class Block:
    """A neuron and the layers without state that lead to it.

    `before` are layers without parameters; `connection` is the layer that feeds the
    neuron, None where the neuron takes its input as it comes.
    """

    name: str
    before: tuple[int, ...]
    connection: int | None
    neuron: int
    probe: Probe  # with the Jacobian that the rule asks for
    filtered: bool  # whether a leaky readout's filter is on its traces
    trace: str  # "exact", "exact shared", "presynaptic", "factored" or "none"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The blocks from input to output, and the layers after the last neuron."""

    blocks: tuple[Block, ...]
    tail: tuple[int, ...]
    has_readout: bool  # the last neuron is linear, above a hidden block

    @property
    def hidden(self) -> tuple[Block, ...]:
        """The blocks below a readout; all, if there is none."""
        return self.blocks[:-1] if self.has_readout else self.blocks

    @property
    def filtered(self) -> bool:
        """Whether the readout's filter is on the traces below it."""
        return len(self.blocks) > 1 and self.blocks[0].filtered

    @property
    def leaks(self) -> int:
        """How many different leaks the readout has: one, or one a unit."""
        top = self.blocks[-1].probe
        return 1 if top.linear_shared else math.prod(top.features)


def make_plan(net: Any, rule: Rule) -> Plan:
    """Divide a network into blocks and choose their traces.

    Raises
    ------
    TypeError
        If `net` is not a `spike_core.Sequential`.
    ValueError
        If the rule does not cover a layer; the message names both.
    """
    if not isinstance(net, Sequential):
        raise TypeError(
            f"`net` must be a spike_core.Sequential, got {type(net).__name__}; "
            "a single neuron goes into one too"
        )
    neurons = [i for i, layer in enumerate(net.layers) if is_neuron(layer)]
    if not neurons:
        raise ValueError("`net` must contain a neuron, got only layers without state")
    starts = [0, *(i + 1 for i in neurons)]
    top = probe(neuron_of(net, neurons[-1]), layer_name(net, neurons[-1]))
    has_readout = (
        len(neurons) > 1 and top.linear and recurrence_of(net, neurons[-1]) is None
    )
    filtered = has_readout and rule.filter and rule.feedback != "local"
    blocks = tuple(
        _block(net, rule, range(first, last), last, top, filtered)
        for first, last in zip(starts, neurons, strict=False)
    )
    return Plan(blocks, tuple(range(starts[-1], len(net.layers))), has_readout)


def neuron_of(net: Sequential, index: int) -> Any:
    """Return the neuron of a layer, from inside its recurrence if it has one."""
    layer = net.layers[index]
    return layer.neuron if type(layer) is Recurrent else layer


def recurrence_of(net: Sequential, index: int) -> Any:
    """Return the layer from a neuron's last output to its input, None without."""
    layer = net.layers[index]
    return layer.feedback if type(layer) is Recurrent else None


def layer_name(net: Sequential, index: int) -> str:
    """Name a layer for messages."""
    return f"layers[{index}] ({type(net.layers[index]).__name__})"


def variable_paths(net: Any) -> dict[int, Path]:
    """Map the identity of each parameter to its path: a shared one has one path."""
    return {
        id(node): path
        for path, node in nnx.iter_graph(net)
        if isinstance(node, nnx.Param)
    }


def _block(net, rule, stateless, index, top, filtered) -> Block:
    name = layer_name(net, index)
    neuron = neuron_of(net, index)
    is_top = not any(map(is_neuron, net.layers[index + 1 :]))
    filtered = filtered and not is_top
    if isinstance(neuron, Sequential):
        raise ValueError(f"{name}: a trace does not cover a Sequential in another")
    recurrence = recurrence_of(net, index)
    if recurrence is not None:
        if not _connection.is_connection(recurrence):
            raise ValueError(
                f"{name}: a trace covers an nnx.Linear or nnx.Conv as its `feedback`, "
                f"not {type(recurrence).__name__}"
            )
        why = _connection.uncovered(recurrence)
        if why:
            raise ValueError(f"{name}: its `feedback` has no trace: {why}")
    before, connection = list(stateless), None
    if before and _connection.is_connection(net.layers[before[-1]]):
        connection = before.pop()
        why = _connection.uncovered(net.layers[connection])
        if why:
            raise ValueError(
                f"{layer_name(net, connection)} is not covered by a trace: {why}"
            )
    for other in before:
        layer = net.layers[other]
        if isinstance(layer, nnx.Module) and jax.tree.leaves(
            nnx.state(layer, nnx.Param)
        ):
            raise ValueError(
                f"{layer_name(net, other)} is not covered by a trace: below a neuron, "
                "parameters may sit only in the nnx.Linear or nnx.Conv that feeds it"
            )
    found = top if is_top else probe(neuron, name)
    if rule.jacobian == "leak" and not found.linear:
        if not hasattr(neuron, "reset"):
            raise ValueError(
                f'{name}: `jacobian="leak"` leaves out the reset, and it has no `reset`'
            )
        found = probe(without_reset(neuron), name)
    return Block(
        name,
        tuple(before),
        connection,
        index,
        found,
        filtered,
        _trace_kind(rule, found, filtered, name),
    )


def without_reset(neuron: Any) -> Any:
    """Return the neuron that differs only in never being reset."""
    twin = nnx.merge(*nnx.split(neuron))
    twin.reset = "none"
    return twin


def _trace_kind(rule: Rule, found: Probe, filtered: bool, name: str) -> str:
    kind = "exact" if rule.trace == "auto" else rule.trace
    if kind == "presynaptic" and not found.shared:
        raise ValueError(
            f'{name}: `trace="presynaptic"` needs one constant Jacobian for all '
            "neurons: a detached reset or none, and one time constant. This rule "
            'covers it with `trace="exact"` or `trace="factored"`'
        )
    if kind == "factored" and found.shared and not filtered:
        return "presynaptic"  # as small, and exact
    if kind == "exact" and found.shared:
        return "exact shared" if filtered else "presynaptic"
    return kind
