"""Arrays inside a `shard_map`."""

from __future__ import annotations

import jax


def alike(*arrays: jax.Array) -> list[jax.Array]:
    """Let all arrays vary over the same axes of a `shard_map`."""
    axes = frozenset().union(*map(_varying, arrays))
    return [_vary(array, axes - _varying(array)) for array in arrays]


def _vary(array, axes):
    return jax.lax.pcast(array, tuple(axes), to="varying") if axes else array


def _varying(array):
    kind = jax.typeof(array)
    # The attribute's name depends on the version of jax.
    if hasattr(kind, "vma"):
        return kind.vma
    return kind.manual_axis_type.varying
