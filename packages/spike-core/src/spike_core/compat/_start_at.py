"""A neuron that starts elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from .. import _check
from .._neuron.base import broadcast
from .._variable import Frozen


class StartAt(nnx.Module):
    """Let the membrane of a neuron start at another potential than zero.

    Parameters
    ----------
    neuron
        A neuron whose state has a membrane ``v``.
    v
        The potential before the first step, a scalar or one a neuron.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import IF
    >>> from spike_core.compat import StartAt
    >>> StartAt(IF(2), 0.5).initial_state().v.tolist()
    [0.5, 0.5]
    """

    def __init__(self, neuron: Any, v: Any):
        _check.number("v", v)
        self.neuron = neuron
        self.v = Frozen(jnp.asarray(v, jnp.float32))

    @property
    def features(self) -> tuple[int, ...]:
        """Shape of the output without batch axes."""
        return self.neuron.features

    def initial_state(self, batch_shape: Sequence[int] = ()) -> Any:
        """Return the state of the neuron with the membrane put there."""
        state = self.neuron.initial_state(batch_shape)
        v = jnp.broadcast_to(broadcast(self.v[...], state.v), state.v.shape)
        return state._replace(v=v)

    def __call__(self, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        """Advance by one step, as the neuron does."""
        return self.neuron(state, x)
