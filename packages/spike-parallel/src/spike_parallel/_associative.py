"""Every layer over the whole sequence at once, for networks without reset."""

import dataclasses
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import Array
from spike_core import Strategy, run_layers

from ._recurrence import linear_recurrence


def _refuse(name: str, neuron: Any, why: str) -> NoReturn:
    raise ValueError(
        f"{name}, a {type(neuron).__name__}, has no linear recurrence to solve in "
        f"parallel: {why}. Run it with `spike_core.Scan()`, or build it without reset"
    )


def solve_neuron(name: str, neuron: Any, xs: Array, state: Any) -> tuple[Any, Array]:
    """Run one neuron over a sequence by solving its recurrence in parallel.

    Parameters
    ----------
    name
        The neuron's place in the network, for messages.
    neuron
        A neuron with `linear_form` and `emit`, or one that runs a whole sequence in
        parallel by itself, ``all_steps(state, xs) -> (state, ys)``.
    xs
        Input, ``[T, *batch, *features]``.
    state
        State before the first step, one leaf (diagonal) or two (block).

    Returns
    -------
    state, ys
        The state after the last step, and the output of each step.
    """
    if hasattr(neuron, "all_steps"):
        return neuron.all_steps(state, xs)
    if not hasattr(neuron, "linear_form"):
        _refuse(name, neuron, "it does not offer `linear_form(xs)`")
    try:
        form = neuron.linear_form(xs)
    except ValueError as error:
        _refuse(name, neuron, str(error))
    leaves, structure = jax.tree.flatten(state)
    # The state says how wide to compute: a float64 one stays float64.
    a, b = (x.astype(leaves[0].dtype) for x in form)
    if b.ndim == leaves[0].ndim + 1:
        trajectory = [linear_recurrence(a, b, leaves[0])]
    else:
        a = a.reshape((1,) * (b.ndim + 1 - a.ndim) + a.shape)
        both = linear_recurrence(a, b, jnp.stack(leaves, axis=-1))
        trajectory = [both[..., 0], both[..., 1]]
    states = jax.tree.unflatten(structure, trajectory)
    if b.shape[0]:
        state = jax.tree.map(lambda leaf: leaf[-1], states)
    return state, neuron.emit(states).astype(xs.dtype)


@dataclasses.dataclass(frozen=True)
class Associative(Strategy):
    """Run each neuron over all steps in parallel.

    For networks whose neurons and readouts do not reset: their state is a linear
    recurrence, which `linear_recurrence` solves, forward and backward. The whole
    trajectory of every layer is kept for the backward pass. On a CPU the plain
    `spike_core.Scan` is faster.

    Raises
    ------
    ValueError
        When it runs a neuron whose recurrence is not linear, such as one that resets;
        the message names the layer and the reason.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> neuron = LIF(3, reset="none")
    >>> state, spikes = unroll(neuron, jnp.ones((100, 8, 3)), strategy=Associative())
    >>> spikes.shape, state.v.shape
    ((100, 8, 3), (8, 3))
    """

    def run(self, net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        """See `spike_core.Strategy.run`."""
        return run_layers(net, xs, state, solve_neuron)
