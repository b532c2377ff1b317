"""The seam between linear neurons and whoever solves them in parallel."""

from __future__ import annotations

from typing import NamedTuple

import jax


class LinearForm(NamedTuple):
    r"""A state that obeys $h_t = a\, h_{t-1} + b_t$.

    Diagonal: `a` broadcasts to a state leaf and `b` is ``[T, *batch, *features]``. Or
    in 2x2 blocks: `a` is ``[..., 2, 2]`` and `b` is ``[T, *batch, *features, 2]``,
    where the last axis runs over the leaves of the state in order.

    Parameters
    ----------
    a
        Transition from one step to the next.
    b
        What each step adds.
    """

    a: jax.Array
    b: jax.Array
