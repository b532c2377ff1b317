"""A network as boxes and arrows."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from .._graph import Graph
from .._recurrent import Recurrent
from .._sequential import Sequential, is_neuron
from ._axes import ACCENT, axes

#: Fillings light enough to read a label on.
NEURON, LAYER = "#bcd7f0", "#e6e6e6"


@dataclasses.dataclass
class _Diagram:
    """Labels of boxes, and arrows ``(source, target, late)`` between their numbers."""

    labels: list[str] = dataclasses.field(default_factory=list)
    colors: list[str] = dataclasses.field(default_factory=list)
    arrows: list[tuple[int, int, bool]] = dataclasses.field(default_factory=list)

    def box(self, label: str, color: str) -> list[int]:
        self.labels.append(label)
        self.colors.append(color)
        return [len(self.labels) - 1]

    def connect(self, sources: list[int], targets: list[int], late: bool) -> None:
        self.arrows += [(s, t, late) for s in sources for t in targets]


def network(net: Any, *, ax: Any = None) -> Any:
    """Draw the layers of a network and what goes from one to another.

    Parameters
    ----------
    net
        A `Sequential`, `Recurrent` or `Graph`, nested ones too, or a single layer.
    ax
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Boxes of neurons are blue; a dashed arrow is read one step late.

    Raises
    ------
    TypeError
        If `net` cannot be called, or `ax` is not axes.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from flax import nnx
    >>> from spike_core import LIF, Recurrent, Sequential, plot
    >>> rngs = nnx.Rngs(0)
    >>> net = Sequential(
    ...     nnx.Linear(4, 8, rngs=rngs),
    ...     Recurrent(LIF(8), nnx.Linear(8, 8, rngs=rngs)),
    ... )
    >>> ax = plot.network(net)
    >>> [text.get_text().replace(chr(10), " ") for text in ax.texts if text.get_text()]
    ['input', 'Linear 4 → 8', 'LIF 8', 'Linear 8 → 8', 'output']
    """
    if not callable(net):
        raise TypeError(f"`net` must be callable, got {type(net).__name__}")
    diagram = _Diagram()
    start = diagram.box("input", "white")
    entries, exits = _add(diagram, net)
    diagram.connect(start, entries, late=False)
    end = diagram.box("output", "white")
    diagram.connect(exits, end, late=False)
    places = _places(diagram)
    width = 1 + max(x for x, _ in places)
    height = 1 + max(y for _, y in places) - min(y for _, y in places)
    ax = axes(ax, figsize=(1.5 * width, 0.5 + 0.9 * height))
    for (x, y), label, color in zip(
        places, diagram.labels, diagram.colors, strict=True
    ):
        box = {"boxstyle": "round,pad=0.4", "facecolor": color, "edgecolor": "0.3"}
        ax.text(x, y, label, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
    for source, target, late in diagram.arrows:
        _draw_arrow(ax, places[source], places[target], late)
    ax.set(xlim=(-0.6, width - 0.4))
    lowest = min(y for _, y in places)
    ax.set(ylim=(lowest - 0.6, lowest + height - 0.4))
    ax.axis("off")
    return ax


def _add(diagram: _Diagram, net: Any) -> tuple[list[int], list[int]]:
    """Add the boxes of a network; return those that hear its input, and its output."""
    if isinstance(net, Sequential):
        parts = [_add(diagram, layer) for layer in net.layers]
        for (_, exits), (entries, _) in itertools.pairwise(parts):
            diagram.connect(exits, entries, late=False)
        return parts[0][0], parts[-1][1]
    if isinstance(net, Recurrent):
        entries, exits = _add(diagram, net.neuron)
        first, last = _add(diagram, net.feedback)
        diagram.connect(exits, first, late=True)
        diagram.connect(last, entries, late=False)
        return entries, exits
    if isinstance(net, Graph):
        parts = {name: _add(diagram, layer) for name, layer in net.layers.items()}
        entries, exits = [], []
        for source, target in net.edges:
            if source == "input":
                entries += parts[target][0]
            elif target == "output":
                exits += parts[source][1]
            else:
                late = (source, target) in net.late
                diagram.connect(parts[source][1], parts[target][0], late)
        return entries, exits
    box = diagram.box(_label(net), NEURON if is_neuron(net) else LAYER)
    return box, box


def _label(layer: Any) -> str:
    name = getattr(layer, "__name__", type(layer).__name__)
    if name == "<lambda>":
        name = "function"
    if hasattr(layer, "in_features") and hasattr(layer, "out_features"):
        return f"{name}\n{layer.in_features} → {layer.out_features}"
    features = getattr(layer, "features", None)
    if isinstance(features, tuple):
        return f"{name}\n{' x '.join(map(str, features))}"
    return name


def _places(diagram: _Diagram) -> list[tuple[float, float]]:
    """Give each box a column, after all that it hears in the same step, and a row."""
    n = len(diagram.labels)
    column = [0] * n
    for _ in range(n):  # longest paths; without the late arrows there is no cycle
        for source, target, late in diagram.arrows:
            if not late:
                column[target] = max(column[target], column[source] + 1)
    heard = {target for _, target, late in diagram.arrows if not late}
    for box in range(1, n):
        after = [column[t] for s, t, late in diagram.arrows if s == box and not late]
        if box not in heard and after:  # feedback: just before what it goes to
            column[box] = max(0, min(after) - 1)
    rows: dict[int, int] = {}
    places = []
    for box in range(n):
        row = rows.get(column[box], 0)
        rows[column[box]] = row + 1
        places.append((float(column[box]), -float(row)))
    return places


def _draw_arrow(ax: Any, source: Any, target: Any, late: bool) -> None:
    straight = target[0] - source[0] == 1 or source[1] != target[1]
    bend = "arc3,rad=0" if straight else "arc3,rad=-0.4"
    if late:
        bend = "arc3,rad=0.3"
    ax.annotate(
        "",
        xy=target,
        xytext=source,
        arrowprops={
            "arrowstyle": "-|>",
            "color": ACCENT if late else "0.3",
            "linestyle": "--" if late else "-",
            "connectionstyle": bend,
            "shrinkA": 22,
            "shrinkB": 22,
        },
        zorder=1,
    )
