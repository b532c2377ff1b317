"""Layers in a row."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

import jax
from flax import nnx


def is_neuron(layer: Any) -> bool:
    """Tell whether a layer carries state through time.

    Parameters
    ----------
    layer
        Anything.

    Returns
    -------
    bool
        Whether it can be called and has a method ``initial_state(batch_shape)``.

    Examples
    --------
    >>> import jax
    >>> from spike_core import LIF, is_neuron
    >>> is_neuron(LIF(3)), is_neuron(jax.nn.relu)
    (True, False)
    """
    return callable(layer) and callable(getattr(layer, "initial_state", None))


class Sequential(nnx.Module):
    """Apply layers in a row: Flax modules, functions and neurons.

    A layer with a state is one with a method ``initial_state`` and is called as
    ``layer(state, x) -> (state, y)``; any other is called as ``layer(x)``. The state
    is a tuple with one entry a layer, `()` for a layer without.

    Parameters
    ----------
    *layers
        At least one.

    Attributes
    ----------
    layers
        The layers, in order.

    Raises
    ------
    ValueError
        If there is no layer.
    TypeError
        If a layer cannot be called.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, LeakyIntegrator, Sequential, unroll
    >>> rngs = nnx.Rngs(0)
    >>> net = Sequential(
    ...     nnx.Linear(8, 16, rngs=rngs), LIF(16),
    ...     nnx.Linear(16, 3, rngs=rngs), LeakyIntegrator(3),
    ... )
    >>> state, ys = unroll(net, jnp.ones((50, 4, 8), jnp.float32))
    >>> ys.shape
    (50, 4, 3)
    """

    def __init__(self, *layers: Any):
        if not layers:
            raise ValueError("`layers` must not be empty")
        for index, layer in enumerate(layers):
            if not callable(layer):
                raise TypeError(
                    f"`layers[{index}]` must be callable, got {type(layer).__name__}"
                )
        self.layers = nnx.List(layers)

    def initial_state(self, batch_shape: Sequence[int] = ()) -> tuple:
        """Return the states of the layers before the first step.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        tuple
            One entry a layer, `()` for a layer without state.
        """
        return tuple(
            layer.initial_state(batch_shape) if is_neuron(layer) else ()
            for layer in self.layers
        )

    def __call__(self, state: tuple, x: jax.Array) -> tuple[tuple, jax.Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            Input of the first layer, ``[*batch, *features]``.

        Returns
        -------
        state, y
            The next state and the output of the last layer.

        Raises
        ------
        ValueError
            If `state` has not one entry a layer.
        """
        check_entries(self, state)
        entries = []
        for index, (layer, entry) in enumerate(zip(self.layers, state, strict=True)):
            with naming(f"layers[{index}]", layer):
                if is_neuron(layer):
                    entry, x = layer(entry, x)
                else:
                    x = layer(x)
            entries.append(entry)
        return tuple(entries), x


@contextlib.contextmanager
def naming(name: str, layer: Any) -> Generator[None]:
    """Say in which layer an error came up."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {name}, a {type(layer).__name__}")
        raise


def check_entries(net: Sequential, state: Any) -> None:
    """Refuse a state that has not one entry a layer."""
    if not isinstance(state, tuple) or len(state) != len(net.layers):
        seen = (
            f"{len(state)} entries"
            if isinstance(state, tuple)
            else f"a {type(state).__name__}"
        )
        raise ValueError(
            f"`state` must be a tuple with {len(net.layers)} entries, one a layer, "
            f"got {seen}"
        )
