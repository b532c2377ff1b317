"""A network taken apart into single layers by name, and what is between them."""

from __future__ import annotations

import itertools
from typing import Any

from flax import nnx

from .._graph import Graph
from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._recurrent import Recurrent
from .._sequential import Sequential
from ._layers import Drive, Integrator, Shift
from ._wiring import Edge, after, before, splice_out

# What a `Drive` may stand before.
_MEMBRANES = (CubaLIF, IF, Integrator, LeakyIntegrator, LIF)


class Unfolded:
    """The layers of a network and the edges between them.

    Attributes
    ----------
    layers
        Single layers by name.
    edges
        Pairs of names, from ``"input"`` to ``"output"``.
    drives, shifts
        What stands before a membrane and behind it, by the name of the membrane.
    """

    def __init__(self, net: Any):
        self.layers: dict[str, Any] = {}
        self.edges: list[Edge] = []
        self.drives: dict[str, Drive] = {}
        self.shifts: dict[str, Shift] = {}
        # What only passes its input on.
        self._wires: list[str] = []
        first, last = self._add("", net)
        self.edges += [("input", first), (last, "output")]
        self.edges = splice_out(self._wires, self.edges)
        for name, layer in list(self.layers.items()):
            if type(layer) is Drive:
                self._fold(name, layer, self.drives)
            elif type(layer) is Shift:
                self._fold(name, layer, self.shifts)

    def _add(self, name: str, layer: Any) -> tuple[str, str]:
        """Add a layer or a network; return where its input goes, and its output is."""
        if isinstance(layer, Sequential):
            return self._add_row(name, layer)
        if isinstance(layer, Recurrent):
            said = self._add(name or "neuron", layer.neuron)
            heard = self._add(_inside(name, "feedback"), layer.feedback)
            self.edges += [(said[1], heard[0]), (heard[1], said[0])]
            return said
        if isinstance(layer, Graph):
            return self._add_graph(name, layer)
        name = name or type(layer).__name__.lower()
        if isinstance(layer, nnx.Dropout):
            if not layer.deterministic:
                raise ValueError(
                    f"layer {name!r} is a Dropout at work, which no node is; "
                    "call `net.eval()` first"
                )
            self._wires.append(name)
        else:
            self.layers[name] = layer
        return name, name

    def _add_row(self, name: str, net: Sequential) -> tuple[str, str]:
        ends = [
            self._add(_inside(name, str(index)), layer)
            for index, layer in enumerate(net.layers)
        ]
        self.edges += [(a[1], b[0]) for a, b in itertools.pairwise(ends)]
        return ends[0][0], ends[-1][1]

    def _add_graph(self, name: str, net: Graph) -> tuple[str, str]:
        ends = {
            inner: self._add(_inside(name, inner), layer)
            for inner, layer in net.layers.items()
        }
        for wire in ("input", "output"):
            # Not a name that a layer could have.
            end = f"{name}/{wire}"
            self._wires.append(end)
            ends[wire] = (end, end)
        self.edges += [(ends[a][1], ends[b][0]) for a, b in net.edges]
        return ends["input"][0], ends["output"][1]

    def _fold(self, name: str, layer: Any, into: dict[str, Any]) -> None:
        """Put a drive or a shift to its membrane."""
        near, back = (after, before) if type(layer) is Drive else (before, after)
        found = near(name, self.edges)
        alone = len(found) == 1 and back(found[0], self.edges) == [name]
        if not alone or type(self.layers.get(found[0])) not in _MEMBRANES:
            side = "before" if type(layer) is Drive else "behind"
            raise ValueError(
                f"layer {name!r}, a {type(layer).__name__}, must stand {side} one "
                "membrane and nothing else, or no node says what it does"
            )
        into[found[0]] = layer
        del self.layers[name]
        self.edges = splice_out([name], self.edges)


def _inside(name: str, inner: str) -> str:
    return f"{name}.{inner}" if name else inner
