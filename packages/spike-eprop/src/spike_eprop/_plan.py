"""Read a network as a stack of blocks, and refuse what the traces do not cover."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
from flax import nnx
from spike_core import Sequential, is_neuron

from . import _connection
from ._local import Path
from ._probe import Probe, probe


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
    probe: Probe


@dataclasses.dataclass(frozen=True)
class Plan:
    """The blocks from input to output, and the layers after the last neuron."""

    blocks: tuple[Block, ...]
    tail: tuple[int, ...]

    @property
    def has_readout(self) -> bool:
        """Whether the last neuron is a leaky readout: linear, above a hidden block."""
        return len(self.blocks) > 1 and self.blocks[-1].probe.linear

    @property
    def leaks(self) -> int:
        """How many different leaks the readout has: one, or one a unit."""
        top = self.blocks[-1].probe
        return 1 if top.linear_shared else math.prod(top.features)


def make_plan(net: Any) -> Plan:
    """Divide a network into blocks.

    Raises
    ------
    TypeError
        If `net` is not a `spike_core.Sequential`.
    ValueError
        If a layer is not covered; the message names it.
    """
    if not isinstance(net, Sequential):
        raise TypeError(
            f"`net` must be a spike_core.Sequential, got {type(net).__name__}; "
            "a single neuron goes into one too"
        )
    blocks, pending = [], []
    for index, layer in enumerate(net.layers):
        if is_neuron(layer):
            blocks.append(_block(net, pending, index))
            pending = []
        else:
            pending.append(index)
    if not blocks:
        raise ValueError("`net` must contain a neuron, got only layers without state")
    return Plan(tuple(blocks), tuple(pending))


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


def _block(net: Sequential, stateless: list[int], index: int) -> Block:
    name = layer_name(net, index)
    if isinstance(net.layers[index], Sequential):
        raise ValueError(
            f"{name}: a Sequential inside another is not covered by a trace"
        )
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
    return Block(name, tuple(before), connection, index, probe(net.layers[index], name))
