"""Every layer over the whole sequence at once, for networks without reset."""

import dataclasses
import functools
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from spike_core import Strategy, run_layers

from ._recurrence import recurrence_and_last
from ._sharded import check_mesh, check_pieces, run_sharded


def _refuse(name: str, neuron: Any, why: str) -> NoReturn:
    raise ValueError(
        f"{name}, a {type(neuron).__name__}, has no linear recurrence to solve in "
        f"parallel: {why}. Run it with `spike_core.Scan()`, or build it without reset"
    )


def solve_neuron(
    name: str, neuron: Any, xs: Array, state: Any, *, axis_name: str | None = None
) -> tuple[Any, Array]:
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
    axis_name
        Mesh axis over which time is cut, inside `jax.shard_map`.

    Returns
    -------
    state, ys
        The state after the last step, and the output of each step.
    """
    if hasattr(neuron, "all_steps"):
        if axis_name is not None:
            raise ValueError(
                f"{name}, a {type(neuron).__name__}, reaches over the border between "
                "devices and cannot run with its time axis sharded"
            )
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
        v, last = recurrence_and_last(a, b, leaves[0], axis_name=axis_name)
        trajectory, ends = [v], [last]
    else:
        a = a.reshape((1,) * (b.ndim + 1 - a.ndim) + a.shape)
        start = jnp.stack(leaves, axis=-1)
        v, last = recurrence_and_last(a, b, start, axis_name=axis_name)
        trajectory, ends = ([x[..., 0], x[..., 1]] for x in (v, last))
    ys = neuron.emit(jax.tree.unflatten(structure, trajectory))
    return jax.tree.unflatten(structure, ends), ys.astype(xs.dtype)


@dataclasses.dataclass(frozen=True)
class Associative(Strategy):
    """Run each neuron over all steps in parallel.

    For networks whose neurons and readouts do not reset: their state is a linear
    recurrence, which `linear_recurrence` solves, forward and backward. The whole
    trajectory of every layer is kept for the backward pass. On a CPU the plain
    `spike_core.Scan` is faster.

    Parameters
    ----------
    mesh
        Devices over which the time axis is cut into consecutive pieces, of equal
        length; none by default. Each neuron exchanges one state a device, in one
        collective.
    axis
        Name of the mesh axis that time lies along.

    Raises
    ------
    ValueError
        If `mesh` has no axis `axis`, or the number of steps is not a multiple of its
        size; when it runs a neuron whose recurrence is not linear, such as one that
        resets: the message names the layer and the reason.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> neuron = LIF(3, reset="none")
    >>> state, spikes = unroll(neuron, jnp.ones((100, 8, 3)), strategy=Associative())
    >>> spikes.shape, state.v.shape
    ((100, 8, 3), (8, 3))
    """

    mesh: Mesh | None = None
    axis: str = "time"

    def __post_init__(self) -> None:
        check_mesh(self.mesh, self.axis)

    def run(self, net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        """See `spike_core.Strategy.run`."""
        if self.mesh is None:
            return run_layers(net, xs, state, solve_neuron)
        check_pieces("the number of steps", xs.shape[0], self.mesh, self.axis)
        solve = functools.partial(solve_neuron, axis_name=self.axis)

        def run_piece(net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
            return run_layers(net, xs, state, solve)

        time = PartitionSpec(self.axis)
        return run_sharded(run_piece, net, xs, state, self.mesh, time, time)
