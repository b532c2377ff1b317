"""A neuron that hears its own output of the step before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from ._sequential import is_neuron


class RecurrentState(NamedTuple):
    """State of `Recurrent`.

    Parameters
    ----------
    neuron
        State of the neuron.
    feedback
        State of the feedback; `()` if it has none.
    y
        Output of the step before, ``[*batch, *features]``.
    """

    neuron: Any
    feedback: Any
    y: jax.Array


class Recurrent(nnx.Module):
    r"""Add to a neuron's input what a layer makes of its output one step before.

    $$y_t = \mathrm{neuron}(x_t + \mathrm{feedback}(y_{t-1})), \qquad y_{-1} = 0$$

    Parameters
    ----------
    neuron
        A neuron, or anything with a state, that has the attribute ``features``: the
        shape of its output without batch axes.
    feedback
        A layer from the output to the input of the neuron, such as
        ``nnx.Linear(n, n)``; it may have a state of its own.

    Raises
    ------
    TypeError
        If `neuron` has no state or no ``features``, or `feedback` cannot be called.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, Recurrent, unroll
    >>> layer = Recurrent(LIF(16), nnx.Linear(16, 16, rngs=nnx.Rngs(0)))
    >>> state, spikes = unroll(layer, jnp.ones((50, 4, 16), jnp.float32))
    >>> spikes.shape
    (50, 4, 16)
    """

    def __init__(self, neuron: Any, feedback: Any):
        if not is_neuron(neuron):
            raise TypeError(
                f"`neuron` must be a neuron, got {type(neuron).__name__}, which has no "
                "`initial_state`"
            )
        if not hasattr(neuron, "features"):
            raise TypeError(
                f"`neuron` must have the attribute `features`, the shape of its output "
                f"without batch axes; {type(neuron).__name__} has not"
            )
        if not callable(feedback):
            raise TypeError(
                f"`feedback` must be callable, got {type(feedback).__name__}"
            )
        self.neuron = neuron
        self.feedback = feedback

    @property
    def features(self) -> tuple[int, ...]:
        """Shape of the output without batch axes."""
        return self.neuron.features

    def initial_state(self, batch_shape: Sequence[int] = ()) -> RecurrentState:
        """Return the state before the first step: nothing has been said yet.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        RecurrentState
            The state.
        """
        layer: Any = self.feedback
        feedback = layer.initial_state(batch_shape) if is_neuron(layer) else ()
        y = jnp.zeros((*batch_shape, *self.features), jnp.float32)
        return RecurrentState(self.neuron.initial_state(batch_shape), feedback, y)

    def __call__(
        self, state: RecurrentState, x: jax.Array
    ) -> tuple[RecurrentState, jax.Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            Input, ``[*batch, *features]``.

        Returns
        -------
        state, y
            The next state and the output of the neuron.

        Raises
        ------
        TypeError
            If `state` is not a `RecurrentState`.
        ValueError
            If the feedback has not the shape of the input.
        """
        if not isinstance(state, RecurrentState):
            raise TypeError(
                f"`state` must be a RecurrentState, got {type(state).__name__}"
            )
        said = state.y.astype(x.dtype)
        inner = state.feedback
        if is_neuron(self.feedback):
            inner, heard = self.feedback(inner, said)
        else:
            heard = self.feedback(said)
        if heard.shape != x.shape:
            raise ValueError(
                f"`feedback` must return the shape {x.shape} of the input, "
                f"got {heard.shape}"
            )
        neuron, y = self.neuron(state.neuron, x + heard.astype(x.dtype))
        return RecurrentState(neuron, inner, y), y
