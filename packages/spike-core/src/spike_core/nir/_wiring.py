"""Named nodes and the edges between them, as reading and writing both need."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Generator, Iterable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from .._sequential import is_neuron

Edge = tuple[str, str]
Shape = tuple[int, ...]


def library() -> ModuleType:
    """Return the library that defines the nodes."""
    try:
        import nir
    except ImportError as error:
        raise ImportError(
            "interchange graphs need the package nir: `pip install spike-core[nir]`"
        ) from error
    return nir


@contextlib.contextmanager
def about(name: str, node: Any) -> Generator[None]:
    """Say which node a ValueError or TypeError is about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = type(node).__name__
        raise type(error)(f"node {name!r}, a {kind}: {error}") from error


def before(name: str, edges: Iterable[Edge]) -> list[str]:
    """Return the sources of a node."""
    return [source for source, target in edges if target == name]


def after(name: str, edges: Iterable[Edge]) -> list[str]:
    """Return the targets of a node."""
    return [target for source, target in edges if source == name]


def splice_out(names: Collection[str], edges: list[Edge]) -> list[Edge]:
    """Take out nodes that only pass their input on."""
    for name in names:
        through = itertools.product(before(name, edges), after(name, edges))
        edges = [edge for edge in edges if name not in edge] + list(through)
    return edges


def propagate(
    edges: list[Edge], start: str, shape: Shape, visit: Callable[[str, Shape], Shape]
) -> dict[str, Shape]:
    """Visit every node that is reached, once, with the shape of its input.

    Parameters
    ----------
    edges
        The edges.
    start, shape
        Where to start, and the shape of what comes out there.
    visit
        Called with a node and the shape of its input; returns that of its output.

    Returns
    -------
    dict
        Shape of the output of each node.
    """
    shapes, inputs = {start: shape}, {}
    todo = [start]
    while todo:
        source = todo.pop(0)
        for target in after(source, edges):
            heard = shapes[source]
            if target not in inputs:
                inputs[target] = heard
                shapes[target] = visit(target, heard)
                todo.append(target)
            elif inputs[target] != heard:
                raise ValueError(
                    f"what comes into node {target!r} must have one shape, got "
                    f"{inputs[target]} and, from {source!r}, {heard}"
                )
    return shapes


def output_shape(layer: Any, shape: Shape) -> Shape:
    """Return the shape of what a layer makes of a sample."""
    if is_neuron(layer):
        features = getattr(layer, "features", shape)
        if features != shape:
            raise ValueError(f"its input must have the shape {features}, got {shape}")
        return shape
    sample = jax.ShapeDtypeStruct((1, *shape), np.float32)
    return tuple(jax.eval_shape(layer, sample).shape[1:])
