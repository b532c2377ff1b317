"""Find out which axes of the input are batch axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


def fit(net: Any, x: jax.ShapeDtypeStruct, state: Any) -> tuple[tuple[int, ...], Any]:
    """Return the batch shape of one step's input `x`, and the state that fits it.

    Only the network knows which axes are its features: a step is traced, without
    computing anything, for one batch axis, for none, for two and so on. The state comes
    in the dtypes that steps give it.
    """
    graphdef, variables = nnx.split(net)

    def step(variables, state, x):
        return nnx.merge(graphdef, variables)(state, x)

    usual = min(1, max(0, x.ndim - 1))
    failures = {}
    for axes in sorted(range(x.ndim + 1), key=lambda n: (n != usual, n)):
        batch = x.shape[:axes]
        try:
            fresh = net.initial_state(batch)
            start = fresh if state is None else state
            after, _ = jax.eval_shape(step, variables, start, x)
            _check_same(start, fresh)
            _check_same(start, after)
        except Exception as error:
            failures[axes] = error
            continue
        return batch, jax.tree.map(
            lambda leaf, like: jnp.asarray(leaf, like.dtype), start, after
        )
    raise failures[usual]


def _check_same(state, like):
    if jax.tree.structure(state) != jax.tree.structure(like):
        raise ValueError(
            f"`state` must have the structure {jax.tree.structure(like)}, "
            f"got {jax.tree.structure(state)}"
        )
    shapes, wanted = (
        [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (state, like)
    )
    if shapes != wanted:
        raise ValueError(f"`state` must have leaves of shapes {wanted}, got {shapes}")
