"""The time axis cut over devices."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from spike_core import Frozen


def check_mesh(mesh: Mesh | None, axis: str) -> None:
    """Raise unless `mesh` is None or has the axis."""
    if mesh is None:
        return
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"`mesh` must be a jax.sharding.Mesh or None, got {type(mesh).__name__}"
        )
    if axis not in mesh.axis_names:
        raise ValueError(
            f"`axis` must be one of the mesh axes {mesh.axis_names}, got {axis!r}"
        )


def check_pieces(what: str, steps: int, mesh: Mesh, axis: str) -> None:
    """Raise unless a stretch of time can be cut into equal pieces."""
    pieces = mesh.shape[axis]
    if steps % pieces:
        raise ValueError(
            f"{what} must be a multiple of the {pieces} devices along the axis "
            f"{axis!r} of `mesh`, got {steps}"
        )


def run_sharded(
    run_piece: Callable[[Any, Array, Any], tuple[Any, Array]],
    net: Any,
    xs: Array,
    state: Any,
    mesh: Mesh,
    time: PartitionSpec,
    output: PartitionSpec,
) -> tuple[Any, Array]:
    """Run a function of network, input and state on every device's piece of time.

    Parameters
    ----------
    run_piece
        Called on each device as ``run_piece(net, xs, state) -> (state, ys)``.
    net, xs, state
        As for `spike_core.Strategy.run`; network and state are on every device.
    mesh
        The devices.
    time, output
        How the input and the output are laid over the devices.

    Returns
    -------
    state, ys
        As from `spike_core.Strategy.run`.
    """
    graph, fixed, changing = None, (), ()
    if isinstance(net, nnx.Module):
        graph, fixed, changing = nnx.split(net, (nnx.Param, Frozen), ...)
    if jax.tree.leaves(changing):
        paths = jax.tree_util.tree_leaves_with_path(changing)
        raise ValueError(
            "a network whose layers change as they run (random numbers, running "
            "statistics) cannot have its time axis sharded: each device would change "
            f"a copy of its own; got {[jax.tree_util.keystr(p) for p, _ in paths]}"
        )

    def run(fixed: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        piece = net if graph is None else nnx.merge(graph, fixed, changing)
        return run_piece(piece, xs, state)

    everywhere = PartitionSpec()
    if mesh.are_all_axes_explicit:
        # There arrays carry their layout in their type, and it must be the right one.
        fixed, state = (
            jax.tree.map(
                lambda x: jax.reshard(x, NamedSharding(mesh, everywhere)), tree
            )
            for tree in (fixed, state)
        )
        xs = jax.reshard(xs, NamedSharding(mesh, time))
    # Every device computes the same last state from what it gathered, which the check
    # of replication cannot know.
    return jax.shard_map(
        run,
        mesh=mesh,
        in_specs=(everywhere, time, everywhere),
        out_specs=(everywhere, output),
        check_vma=False,
    )(fixed, xs, state)
