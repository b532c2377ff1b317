"""Dropout with one mask for all time steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from flax import nnx

from . import _check


class SequenceDropout(nnx.Module):
    """Drop the same features at all steps of a sequence: the mask is the state.

    A layer without state sees all steps as one block, so that `flax.nnx.Dropout` on its
    own draws a mask for every step. Here it draws one a sequence, when the sequence
    begins: every strategy uses the same, a sequence that goes on from a state keeps
    it, and it may stand in the feedback of a `Recurrent`.

    Parameters
    ----------
    features
        Shape of the input without time and batch axes: an integer or a tuple.
    dropout
        Called on an array of ones, ``[*batch, *features]``, for the mask: a
        `flax.nnx.Dropout`, whose settings, random numbers and evaluation mode hold.

    Raises
    ------
    ValueError
        If `features` are not positive.
    TypeError
        If `dropout` cannot be called.

    References
    ----------
    Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent
    neural networks", NeurIPS 2016.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import SequenceDropout, unroll
    >>> layer = SequenceDropout(6, nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    >>> state, ys = unroll(layer, jnp.ones((3, 1, 6), jnp.float32))
    >>> bool((ys[0] == ys[2]).all()), sorted(set(ys.ravel().tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(
        self,
        features: int | Sequence[int],
        dropout: Callable[[jax.Array], jax.Array],
    ):
        self.features = _check.shape_of("features", features)
        if not callable(dropout):
            raise TypeError(f"`dropout` must be callable, got {type(dropout).__name__}")
        self.dropout = dropout

    def initial_state(self, batch_shape: Sequence[int] = ()) -> jax.Array:
        """Draw the mask of a batch of sequences.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        jax.Array
            What the input is multiplied by, ``[*batch_shape, *features]``.
        """
        return self.dropout(jnp.ones((*batch_shape, *self.features), jnp.float32))

    def __call__(self, state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Apply the mask to one step.

        Parameters
        ----------
        state
            The mask.
        x
            Input, ``[*batch, *features]``, floating.

        Returns
        -------
        state, y
            The same mask, and the masked input.

        Raises
        ------
        TypeError
            If `x` is not floating.
        ValueError
            If `x` has not the shape of the mask.
        """
        _check.floating("x", x)
        if x.shape != state.shape:
            raise ValueError(
                f"`x` must have the shape {state.shape} of the mask, got {x.shape}"
            )
        return state, x * state.astype(x.dtype)

    def over_time(self, state: jax.Array, xs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Apply the mask to all steps at once.

        Parameters
        ----------
        state
            The mask.
        xs
            Input, ``[T, *batch, *features]``, floating.

        Returns
        -------
        state, ys
            The same mask, and the masked input.
        """
        _check.floating("xs", xs)
        return state, xs * state.astype(xs.dtype)[None]
