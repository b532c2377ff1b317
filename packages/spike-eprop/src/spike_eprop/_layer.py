"""Layers without state, and the way back through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from ._local import Path

# Maps the cotangent of the output to those of the parameters and of the input.
Back = Callable[[jax.Array], tuple[dict[Path, jax.Array], jax.Array]]


def apply(layer: Any, x: jax.Array, paths: dict[int, Path]) -> tuple[jax.Array, Back]:
    """Apply a layer; what it changes in itself, such as a count, stays changed."""
    if not isinstance(layer, nnx.Module):
        y, back = jax.vjp(layer, x)
        return y, lambda cotangent: ({}, back(cotangent)[0])
    graphdef, params, rest = nnx.split(layer, nnx.Param, ...)
    names = parameter_paths(layer, paths).values()

    def function(parameters, x):
        module = merge(graphdef, parameters, rest)
        y = module(x)
        return y, nnx.state(module, nnx.Not(nnx.Param))

    y, back, changed = jax.vjp(function, params, x, has_aux=True)
    nnx.update(layer, changed)

    def with_names(cotangent):
        parameters, x = back(cotangent)
        return dict(zip(names, jax.tree.leaves(parameters), strict=True)), x

    return y, with_names


def merge(graphdef: nnx.GraphDef, *states: Any) -> Any:
    """Make a module whose variables may be changed in the trace that is running.

    `nnx.merge` alone leaves them to the trace that the states are from.
    """
    return nnx.merge(graphdef, *(jax.tree.map(lambda leaf: leaf, s) for s in states))


def parameter_paths(layer: nnx.Module, paths: dict[int, Path]) -> dict[Path, Path]:
    """Map paths of parameters inside a layer, in leaf order, to those in the net."""
    inside = {
        path: paths[id(node)]
        for path, node in nnx.iter_graph(layer)
        if isinstance(node, nnx.Param)
    }
    params = nnx.state(layer, nnx.Param)
    return {path: inside[path] for path, _ in nnx.to_flat_state(params)}
