r"""Real-time recurrent learning: the reference for small networks.

$$\frac{dh_t}{d\theta} = \frac{\partial h_t}{\partial h_{t-1}}
\frac{dh_{t-1}}{d\theta} + \frac{\partial h_t}{\partial \theta}, \qquad
\frac{dE}{d\theta} = \sum_t \frac{\partial E_t}{\partial y_t} \frac{dy_t}{d\theta}$$

with $h$ the state of the whole network: nothing is left out, neither depth nor
recurrence, so that the gradient is that of backpropagation through time for any
network. The influence of every parameter on every state is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.flatten_util import ravel_pytree

from ._layer import merge
from ._local import float_leaves


def start(params: nnx.State, state: Any) -> list[jax.Array]:
    """Return the influence before the first step, ``[parameters, *leaf]`` a leaf."""
    count = ravel_pytree(params)[0].size
    return [jnp.zeros((count, *leaf.shape), leaf.dtype) for leaf in float_leaves(state)]


def advance(
    net: Any,
    influence: list[jax.Array],
    state: Any,
    x: jax.Array,
    errors: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
) -> tuple[list[jax.Array], Any, jax.Array, jax.Array, nnx.State]:
    """Advance by one step.

    `errors` maps the output to the loss and its derivative. Returns the influence, the
    state, the output, the loss and the gradient of this step. What the network changes
    in itself stays changed.
    """
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    leaves, tree = jax.tree.flatten(state)
    moves = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def step(params, floats):
        moving = iter(floats)
        whole = tree.unflatten(
            next(moving) if m else leaf for m, leaf in zip(moves, leaves, strict=True)
        )
        module = merge(graphdef, params, rest)
        new, y = module(whole, x)
        return (float_leaves(new), y), (new, nnx.state(module, nnx.Not(nnx.Param)))

    (_, y), tangent_of, (new, changed) = jax.linearize(
        step, params, float_leaves(state), has_aux=True
    )
    nnx.update(net, changed)
    flat, unravel = ravel_pytree(params)
    directions = jax.vmap(unravel)(jnp.eye(flat.size, dtype=flat.dtype))
    influence, by_parameter = jax.vmap(tangent_of)(directions, influence)
    value, error = errors(y)
    gradient = jnp.einsum("p...,...->p", by_parameter, error)
    return influence, new, y, value, unravel(gradient.astype(flat.dtype))
