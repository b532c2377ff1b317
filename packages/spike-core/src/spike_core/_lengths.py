"""Sequences of unequal length in one batch: each ends with its own last step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from . import _check
from ._time_axis import within


class Remaining(nnx.Variable):
    """Steps that each sequence still has, ``[*batch]``; below zero after its end."""


class WithLengths(nnx.Module):
    """A network, and how many steps of each sequence are still to come.

    That number changes while the network runs, so that a strategy which runs one
    stretch of time after another carries it along with everything else that does.

    Parameters
    ----------
    net
        A network or a single neuron.
    lengths
        Steps of each sequence, ``[*batch]``, integers.
    """

    def __init__(self, net: Any, lengths: jax.Array):
        self.net = net
        self.remaining = Remaining(jnp.asarray(lengths, jnp.int32))

    def initial_state(self, batch_shape: Sequence[int] = ()) -> Any:
        """See the network's own."""
        return self.net.initial_state(batch_shape)

    def __call__(self, state: Any, x: Any) -> tuple[Any, Any]:
        """Advance by one step; a sequence that has ended keeps its state."""
        lengths = self.remaining[...]
        after, y = self.net(state, x)
        self.remaining[...] = lengths - 1
        return _choose(lengths > 0, after, state), _or_zero(lengths > 0, y)

    def run(
        self, run_net: Callable[..., tuple[Any, Any]], run_neuron: Callable, xs: Any
    ) -> tuple[Any, jax.Array]:
        """Run stretches of steps; see `spike_core.run_layers`.

        Parameters
        ----------
        run_net
            Called as ``run_net(net, run_neuron)``.
        run_neuron
            As for `spike_core.run_layers`.
        xs
            Input, ``[T, *batch, *features]``.
        """
        lengths, n_steps = self.remaining[...], xs.shape[0]

        def run_to_own_end(name, neuron, xs, state):
            _, ys = run_neuron(name, neuron, xs, state)
            return state_at(neuron, xs, state, lengths), ys

        state, ys = run_net(self.net, run_to_own_end)
        self.remaining[...] = lengths - n_steps
        return state, _or_zero(within(lengths, n_steps), ys)


def state_at(neuron: Any, xs: Any, state: Any, lengths: jax.Array) -> Any:
    """Return the state of a neuron after `lengths` steps, one number a sequence.

    A loop of its own, which leaves every strategy to run as it does; where the state
    is not used, the compiler drops it.
    """

    def step(carry, x):
        state, remaining = carry
        after, _ = neuron(state, x)
        return (_choose(remaining > 0, after, state), remaining - 1), None

    return jax.lax.scan(step, (state, lengths), xs)[0][0]


def check_lengths(lengths: Any, batch_shape: tuple[int, ...], n_steps: int) -> None:
    """Refuse lengths that do not fit the batch."""
    if not hasattr(lengths, "dtype") or not jnp.issubdtype(lengths.dtype, jnp.integer):
        seen = getattr(lengths, "dtype", type(lengths).__name__)
        raise TypeError(f"`lengths` must be an array of integers, got {seen}")
    if lengths.shape != batch_shape:
        raise ValueError(
            f"`lengths` must have the shape of the batch axes of `xs`, {batch_shape}, "
            f"got {lengths.shape}"
        )
    _check.number("lengths", lengths, least=0, most=n_steps)


def _choose(going_on, after, before):
    def choose(after, before):
        if after.shape[: going_on.ndim] != going_on.shape:
            raise ValueError(
                f"`lengths` need a state whose leaves begin with the batch axes "
                f"{going_on.shape}, got a leaf of shape {after.shape}"
            )
        return jnp.where(_like(going_on, after), after, before)

    return jax.tree.map(choose, after, before)


def _or_zero(counts, ys):
    return jnp.where(_like(counts, ys), ys, jnp.zeros((), ys.dtype))


def _like(counts, array):
    return counts.reshape(counts.shape + (1,) * (array.ndim - counts.ndim))
