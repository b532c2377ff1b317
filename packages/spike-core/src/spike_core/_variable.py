"""How parameters are kept: trained ones as `nnx.Param`, all others as `Frozen`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx


class Frozen(nnx.Variable):
    """A parameter that is not trained.

    It is part of the module's state, so that it is saved, moved and cast with it, but
    ``nnx.state(net, nnx.Param)``, what an optimiser asks for, leaves it out.

    Examples
    --------
    >>> from flax import nnx
    >>> from spike_core import LIF, Frozen
    >>> neuron = LIF(3, trainable=("tau",))
    >>> sorted(nnx.state(neuron, nnx.Param)), sorted(nnx.state(neuron, Frozen))
    (['log_tau'], ['threshold'])
    """


def parameter(
    name: str, value: Any, features: tuple[int, ...], dtype: Any, *, trained: bool
) -> nnx.Variable:
    """Keep a scalar or one value a neuron."""
    array = jnp.asarray(value, dtype=dtype)
    if array.shape not in ((), features):
        raise ValueError(
            f"`{name}` must be a scalar or have the shape of the features {features}, "
            f"got shape {array.shape}"
        )
    return nnx.Param(array) if trained else Frozen(array)
