"""Parallel within a stretch of time, sequential from one to the next."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from spike_core import Frozen, Strategy, run_layers

from . import _check
from ._associative import solve_neuron

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

    Raises
    ------
    ValueError
        If `chunk` is not a positive integer, `reduce` cannot be called, or `initial`
        comes without `reduce`; when it runs, for a layer whose recurrence is not
        linear, which the message names.

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

    def __post_init__(self) -> None:
        _check.positive_int("chunk", self.chunk)
        if self.reduce is not None and not callable(self.reduce):
            raise ValueError(f"`reduce` must be callable, got {self.reduce!r}")
        if (self.reduce is None) != (self.initial is None):
            raise ValueError("`reduce` and `initial` must be given together or not")

    def run(self, net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        """See `spike_core.Strategy.run`."""
        fold = self.reduce
        total = jax.tree.map(jnp.asarray, self.initial)
        call, changing, store = _functional(net)

        @jax.checkpoint
        def advance(carry, inputs):
            state, changing, total = carry
            xs, start = inputs
            state, ys, changing = call(state, xs, changing)
            if fold is not None:
                total, ys = _same_kind(fold(total, ys, start), total), None
            return (state, changing, total), ys

        steps = xs.shape[0]
        whole = steps - steps % self.chunk
        carry = (state, changing, total)
        starts = jnp.arange(0, whole, self.chunk)
        chunks = xs[:whole].reshape(-1, self.chunk, *xs.shape[1:])
        carry, ys = lax.scan(advance, carry, (chunks, starts))
        if fold is None:
            ys = ys.reshape(whole, *ys.shape[2:])
        if whole < steps:
            carry, rest = advance(carry, (xs[whole:], jnp.asarray(whole)))
            if fold is None:
                ys = jnp.concatenate([ys, rest])
        state, changing, total = carry
        store(changing)
        return state, ys if fold is None else total


def _functional(net: Any) -> tuple[Callable, Any, Callable]:
    """Return the network as a function of what a call may change in it.

    Inside a `lax.scan` a module must not change in place. Parameters stay what they
    are; what is neither trained nor frozen (counts of random numbers, running
    statistics) goes through the loop and back into the module at its end.
    """
    if not isinstance(net, nnx.Module):

        def plain(state, xs, changing):
            return *run_layers(net, xs, state, solve_neuron), changing

        return plain, (), lambda changing: None
    graph, fixed, changing = nnx.split(net, (nnx.Param, Frozen), ...)

    def call(state, xs, changing):
        copy = nnx.merge(graph, fixed, changing)
        state, ys = run_layers(copy, xs, state, solve_neuron)
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
