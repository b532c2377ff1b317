r"""One step of a neuron and its derivatives, unit by unit.

A unit $j$ has a few state variables $h_j$, an input $x_j$ and an output $z_j$, and
touches no other unit inside a step:

$$h'_j = f(h_j, x_j, \theta_j), \qquad z_j = g(h_j, x_j, \theta_j).$$

All derivatives then follow from one tangent of ones for each state variable, for the
input and for each parameter, whatever the number of units.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

Path = tuple[Any, ...]


class Local(NamedTuple):
    r"""A step and its derivatives; lists run over the state variables.

    Every array is ``[*batch, *features]``.
    """

    state: Any
    output: jax.Array
    state_by_state: list[list[jax.Array]]  # [to][from], the Jacobian D
    state_by_input: list[jax.Array]  # B
    output_by_state: list[jax.Array]  # C
    output_by_input: jax.Array  # E
    state_by_parameter: dict[Path, list[jax.Array]]
    output_by_parameter: dict[Path, jax.Array]


class Step(NamedTuple):
    """A neuron's step as a function of what it has derivatives by."""

    function: Callable  # (parameters, floats, x) -> ((floats', output), state')
    paths: list[Path]
    parameters: list[jax.Array]
    floats: list[jax.Array]


def add_up(terms: Iterable[jax.Array]) -> jax.Array:
    """Add arrays of one shape, at least one."""
    return functools.reduce(operator.add, terms)


def float_leaves(state: Any) -> list[jax.Array]:
    """Return the leaves of a state that have derivatives: counters have none."""
    return [leaf for leaf in jax.tree.leaves(state) if _floating(leaf)]


def step_function(neuron: Any, state: Any) -> Step:
    """Open up a neuron and its state."""
    if isinstance(neuron, nnx.Module):
        graphdef, params, rest = nnx.split(neuron, nnx.Param, ...)
        parameters, params_tree = jax.tree.flatten(params)
        paths = [path for path, _ in nnx.to_flat_state(params)]
    else:
        parameters, paths = [], []
    leaves, tree = jax.tree.flatten(state)
    is_float = [_floating(leaf) for leaf in leaves]

    def function(parameters, floats, x):
        moving = iter(floats)
        whole = tree.unflatten(
            next(moving) if f else leaf
            for f, leaf in zip(is_float, leaves, strict=True)
        )
        module = neuron
        if isinstance(neuron, nnx.Module):
            module = nnx.merge(graphdef, params_tree.unflatten(parameters), rest)
        new, output = module(whole, x)
        return (float_leaves(new), output), new

    return Step(function, paths, parameters, float_leaves(state))


def linearise(neuron: Any, state: Any, x: jax.Array) -> Local:
    """Advance by one step and differentiate it."""
    step = step_function(neuron, state)
    primals = (step.parameters, step.floats, x)
    (_, output), tangent_of, new = jax.linearize(step.function, *primals, has_aux=True)
    still = jax.tree.map(jnp.zeros_like, primals)

    def along(part: int, index: int):
        tangents = list(still)
        tangents[part] = list(still[part])
        tangents[part][index] = jnp.ones_like(still[part][index])
        return tangent_of(*tangents)

    variables = range(len(step.floats))
    by_state = [along(1, i) for i in variables]
    by_input = tangent_of(still[0], still[1], jnp.ones_like(x))
    by_parameter = {path: along(0, i) for i, path in enumerate(step.paths)}
    return Local(
        state=new,
        output=output,
        state_by_state=[[by_state[j][0][i] for j in variables] for i in variables],
        state_by_input=by_input[0],
        output_by_state=[column[1] for column in by_state],
        output_by_input=by_input[1],
        state_by_parameter={path: t[0] for path, t in by_parameter.items()},
        output_by_parameter={path: t[1] for path, t in by_parameter.items()},
    )


def _floating(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
