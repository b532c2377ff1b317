"""Parallel within a stretch of time, sequential from one to the next."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from spike_core import Frozen, Strategy, run_layers

from . import _check
from ._associative import solve_neuron
from ._sharded import check_mesh, check_pieces, run_sharded

Fold = Callable[[Any, Array, Array], Any]


@dataclasses.dataclass(frozen=True)
class Chunked(Strategy):
    """Run each chunk of steps in parallel, and the chunks one after another.

    For the networks that `Associative` runs, with the same result: the state goes from
    chunk to chunk exactly. Only the states at the chunk borders are kept for the
    backward pass, which computes a chunk anew before it goes through it. Beside input
    and output the memory is that of one chunk plus `T / chunk` states, smallest for a
    chunk of a few times the square root of $T$; the price is one more forward pass.

    The output of every step and its cotangent are then the largest arrays there are.
    Where a loss or readout is all that is wanted of them, `reduce` folds it into the
    loop, and they are never stored.

    A layer that keeps statistics of its input, as batch normalisation in training
    does, sees one chunk at a time.

    Parameters
    ----------
    chunk
        Steps in a chunk; the last one may be shorter.
    reduce
        ``reduce(total, ys, start) -> total``, called for each chunk in order with its
        outputs `ys`, ``[steps, *batch, *outputs]``, and the index `start` of its first
        step. The structure, shapes and dtypes of `total` must stay the same. The last
        total is what `unroll` returns in the place of the outputs.
    initial
        The total before the first chunk: an array or a pytree of arrays.
    mesh
        Devices over which every chunk is cut into consecutive pieces; none by default.
        Each neuron exchanges one state a device and chunk, in one collective, and
        `reduce` sees whole chunks on every device.
    axis
        Name of the mesh axis that the pieces lie along.

    Raises
    ------
    ValueError
        If `chunk` is not a positive integer, `reduce` cannot be called, `initial`
        comes without `reduce`, or `mesh` has no axis `axis`; when it runs, for a layer
        whose recurrence is not linear, which the message names, and with a mesh if
        `chunk` is not a multiple of its size or the steps are not one of `chunk`.

    References
    ----------
    Chen et al., *Training deep nets with sublinear memory cost* (2016), section 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> neuron, xs = LIF(3, reset="none"), jnp.ones((1000, 8, 3))
    >>> state, spikes = unroll(neuron, xs, strategy=Chunked(chunk=64))
    >>> spikes.shape
    (1000, 8, 3)

    The number of spikes alone, without their record:

    >>> counting = Chunked(
    ...     chunk=64,
    ...     reduce=lambda total, ys, start: total + ys.sum(0),
    ...     initial=jnp.zeros((8, 3)),
    ... )
    >>> state, count = unroll(neuron, xs, strategy=counting)
    >>> bool((count == spikes.sum(0)).all())
    True
    """

    chunk: int
    reduce: Fold | None = None
    initial: Any = None
    mesh: Mesh | None = None
    axis: str = "time"

    def __post_init__(self) -> None:
        _check.positive_int("chunk", self.chunk)
        if self.reduce is not None and not callable(self.reduce):
            raise ValueError(f"`reduce` must be callable, got {self.reduce!r}")
        if (self.reduce is None) != (self.initial is None):
            raise ValueError("`reduce` and `initial` must be given together or not")
        check_mesh(self.mesh, self.axis)

    def run(self, net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        """See `spike_core.Strategy.run`."""
        steps = xs.shape[0]
        whole = steps - steps % self.chunk
        chunks = xs[:whole].reshape(-1, self.chunk, *xs.shape[1:])
        if self.mesh is not None:
            return self._run_sharded(net, chunks, xs[whole:], state, self.mesh)
        call, changing, store = _functional(net, solve_neuron)
        advance = self._advance(call)
        carry = (state, changing, jax.tree.map(jnp.asarray, self.initial))
        starts = jnp.arange(0, whole, self.chunk)
        carry, ys = lax.scan(advance, carry, (chunks, starts))
        if self.reduce is None:
            ys = ys.reshape(whole, *ys.shape[2:])
        if whole < steps:
            carry, rest = advance(carry, (xs[whole:], jnp.asarray(whole)))
            if self.reduce is None:
                ys = jnp.concatenate([ys, rest])
        state, changing, total = carry
        store(changing)
        return state, ys if self.reduce is None else total

    def _advance(self, call: Callable, axis_name: str | None = None) -> Callable:
        """Return the body of the loop over chunks; it is computed anew backwards."""
        fold = self.reduce

        @jax.checkpoint
        def advance(carry: Any, inputs: Any) -> tuple[Any, Any]:
            state, changing, total = carry
            xs, start = inputs
            state, ys, changing = call(state, xs, changing)
            if fold is not None:
                if axis_name is not None:
                    ys = lax.all_gather(ys, axis_name, tiled=True)
                total, ys = _same_kind(fold(total, ys, start), total), None
            return (state, changing, total), ys

        return advance

    def _run_sharded(
        self, net: Any, chunks: Array, rest: Array, state: Any, mesh: Mesh
    ) -> tuple[Any, Array]:
        check_pieces("`chunk`", self.chunk, mesh, self.axis)
        if rest.shape[0]:
            raise ValueError(
                f"the number of steps must be a multiple of `chunk`, {self.chunk}, "
                f"where time is sharded; {rest.shape[0]} are left over"
            )
        solve = functools.partial(solve_neuron, axis_name=self.axis)
        starts = jnp.arange(0, chunks.shape[0] * self.chunk, self.chunk)

        def run_pieces(net: Any, chunks: Array, state: Any) -> tuple[Any, Array]:
            call, changing, _ = _functional(net, solve)
            carry = (state, changing, jax.tree.map(jnp.asarray, self.initial))
            carry, ys = lax.scan(
                self._advance(call, self.axis), carry, (chunks, starts)
            )
            return carry[0], ys if self.reduce is None else carry[2]

        time = PartitionSpec(None, self.axis)
        output = time if self.reduce is None else PartitionSpec()
        state, ys = run_sharded(run_pieces, net, chunks, state, mesh, time, output)
        if self.reduce is None:
            if mesh.are_all_axes_explicit:
                # Its chunks are cut over the devices, and no layout of the whole is.
                ys = jax.reshard(ys, NamedSharding(mesh, PartitionSpec()))
            ys = ys.reshape(-1, *ys.shape[2:])
        return state, ys


def _functional(net: Any, solve: Callable) -> tuple[Callable, Any, Callable]:
    """Return the network as a function of what a call may change in it.

    Inside a `lax.scan` a module must not change in place. Parameters stay what they
    are; what is neither trained nor frozen (counts of random numbers, running
    statistics) goes through the loop and back into the module at its end.
    """
    if not isinstance(net, nnx.Module):

        def plain(state, xs, changing):
            return *run_layers(net, xs, state, solve), changing

        return plain, (), lambda changing: None
    graph, fixed, changing = nnx.split(net, (nnx.Param, Frozen), ...)

    def call(state, xs, changing):
        copy = nnx.merge(graph, fixed, changing)
        state, ys = run_layers(copy, xs, state, solve)
        return state, ys, nnx.split(copy, (nnx.Param, Frozen), ...)[2]

    return call, changing, lambda changing: nnx.update(net, changing)


def _same_kind(total: Any, like: Any) -> Any:
    def kind(tree):
        return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)

    if kind(total) != kind(like):
        raise ValueError(
            "`reduce` must return a total of the structure, shapes and dtypes of "
            f"`initial`, {kind(like)}, got {kind(total)}"
        )
    return total
