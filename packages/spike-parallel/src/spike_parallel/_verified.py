r"""Chunks side by side from guessed states, until a certificate proves them right.

The sequence is cut into chunks that run side by side, each sequential inside, so that
any step function will do. A chunk's entry state is guessed by running the steps just
before it from the initial state: most neurons forget. If every chunk entered with
exactly the state, bit for bit, with which the one before it ended, the whole is, by
induction over chunks, what the sequential loop computes. If not, each takes the end of
the one before as its entry and all run again: a *sweep*. The first $k$ chunks are right
after $k$ sweeps whatever the guess, so it always ends.

In the words of the literature on parallel-in-time solvers, sweeps are Picard (Jacobi)
iterations on the chunk borders.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import _check

Step = Callable[[Any, Any], tuple[Any, Any]]


class Verified(NamedTuple):
    """What `verified_scan` returns.

    Parameters
    ----------
    state
        The state after the last step.
    ys
        The output of each step, ``[T, ...]``.
    sweeps
        Sweeps that were made, an integer.
    sequential
        Whether the certificate was not reached within the allowed sweeps (or there was
        only one chunk), so that this is the result of the sequential scan.
    """

    state: Any
    ys: Any
    sweeps: Array
    sequential: Array


def verified_scan(
    step: Step,
    state: Any,
    xs: Any,
    *,
    chunk: int | None = None,
    warmup: int | None = None,
    max_sweeps: int | None = None,
) -> Verified:
    r"""Run a step over a sequence, chunks side by side, with proof.

    The result is that of ``lax.scan(step, state, xs)``: a bitwise certificate proves
    each chunk to continue the one before, and where it is not reached within
    `max_sweeps` the sequential scan runs. Constant drive and slow neurons with
    subtractive reset end there; a reset to a value makes a neuron forget at its next
    spike, and one sweep is usually enough.

    The proof is about the step as it is compiled for chunks side by side. A built-in
    neuron rounds the same way alone; with several layers in one step, or a matrix
    product, the compiler may contract or order additions otherwise for many chunks
    than for one, and the last digit may differ from that of a `lax.scan`.

    It is not differentiable in reverse mode. On a CPU the plain scan is faster.

    Parameters
    ----------
    step
        ``step(state, x) -> (state, y)``: a neuron of spike-core, a whole network, or
        any function that `jax.lax.scan` takes.
    state
        The state before the first step: a pytree of arrays.
    xs
        Input: a pytree of arrays ``[T, ...]``.
    chunk
        Steps in a chunk. For a neuron by default the number of steps after which an
        initial difference is below rounding, $\ln(1/\epsilon) / (1 - \alpha)$ for
        its slowest decay $\alpha$; for other steps, and where the time constants are
        traced, it must be given.
    warmup
        Steps, at most `chunk`, that lead to the guess of an entry state; by default
        `chunk`.
    max_sweeps
        Sweeps after which the sequential scan takes over; by default a quarter of the
        number of chunks, at least one. Sweeps cost `chunk` steps in a row each.

    Returns
    -------
    Verified
        The last state, the outputs, the number of sweeps, and whether the sequential
        scan had to be run.

    Raises
    ------
    ValueError
        If a number is out of range, `chunk` is missing for a step without known time
        constants, or the leaves of `xs` disagree about the number of steps.

    References
    ----------
    Gonzalez et al., *A unifying framework for parallelizing sequential models with
    linear dynamical systems* (2025), section 3, for the family of iterations.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF
    >>> neuron = LIF(8, tau=5.0, reset="zero", input_gain="unit")
    >>> xs = jax.random.normal(jax.random.key(0), (2000, 8), jnp.float32)
    >>> result = verified_scan(neuron, neuron.initial_state(), xs, chunk=200)
    >>> result.ys.shape, bool(result.sequential)
    ((2000, 8), False)
    """
    if not callable(step):
        raise ValueError(f"`step` must be callable, got {type(step).__name__}")
    xs = jax.tree.map(jnp.asarray, xs)
    steps = _steps(xs)
    if chunk is None:
        chunk = _forgetting_time(step)
    chunk = _check.positive_int("chunk", chunk)
    warmup = chunk if warmup is None else _check.positive_int("warmup", warmup)
    if warmup > chunk:
        raise ValueError(f"`warmup` must be at most `chunk`, {chunk}, got {warmup}")
    chunks = steps // chunk
    if max_sweeps is None:
        max_sweeps = max(1, chunks // 4)
    max_sweeps = _check.positive_int("max_sweeps", max_sweeps)
    state = _as_carried(step, state, xs) if steps else state
    if chunks < 2:
        state, ys = lax.scan(step, state, xs)
        return Verified(state, ys, jnp.asarray(0), jnp.asarray(True))
    guess = _warm_up(step, state, _side_by_side(xs, chunk, chunks), warmup)
    return verify(step, state, xs, guess, chunk=chunk, max_sweeps=max_sweeps)


def verify(
    step: Step, state: Any, xs: Any, guess: Any, *, chunk: int, max_sweeps: int
) -> Verified:
    """Sweep from guessed entry states until they are proved, or run sequentially.

    Parameters
    ----------
    step, state, xs
        As for `verified_scan`.
    guess
        An entry state for each whole chunk after the first, ``[chunks - 1, ...]``.
    chunk, max_sweeps
        As for `verified_scan`.

    Returns
    -------
    Verified
        As from `verified_scan`.
    """
    chunks = _steps(xs) // chunk
    whole = chunks * chunk
    lanes = _side_by_side(xs, chunk, chunks)

    def sweep(entries):
        return lax.scan(jax.vmap(step), entries, lanes)

    def entries_from(ends):
        return jax.tree.map(
            lambda first, end: jnp.concatenate([first[None], end]), state, ends
        )

    def unproved(carry):
        entries, (ends, _), sweeps = carry
        return (sweeps < max_sweeps) & ~_continues(entries, ends)

    def again(carry):
        _, (ends, _), sweeps = carry
        entries = entries_from(jax.tree.map(lambda end: end[:-1], ends))
        return entries, sweep(entries), sweeps + 1

    entries = entries_from(guess)
    entries, (ends, ys), sweeps = lax.while_loop(
        unproved, again, (entries, sweep(entries), jnp.asarray(1))
    )
    proved = _continues(entries, ends)

    def in_time_order(y):
        return jnp.swapaxes(y, 0, 1).reshape(whole, *y.shape[2:])

    last, ys = lax.cond(
        proved,
        lambda: (
            jax.tree.map(lambda end: end[-1], ends),
            jax.tree.map(in_time_order, ys),
        ),
        lambda: lax.scan(step, state, jax.tree.map(lambda x: x[:whole], xs)),
    )
    rest = jax.tree.map(lambda x: x[whole:], xs)
    if _steps(rest):
        last, ys_rest = lax.scan(step, last, rest)
        ys = jax.tree.map(lambda *both: jnp.concatenate(both), ys, ys_rest)
    return Verified(last, ys, sweeps, ~proved)


def _steps(xs: Any) -> int:
    leaves = jax.tree.leaves(xs)
    lengths = {leaf.shape[0] if leaf.ndim else -1 for leaf in leaves}
    if len(lengths) != 1 or -1 in lengths:
        raise ValueError(
            "`xs` must have arrays with one common number of steps along their first "
            f"axis, got shapes {[leaf.shape for leaf in leaves]}"
        )
    return lengths.pop()


def _as_carried(step: Step, state: Any, xs: Any) -> Any:
    """Give the state the dtypes that the step returns, as `spike_core.unroll` does."""
    state = jax.tree.map(jnp.asarray, state)
    after, _ = jax.eval_shape(step, state, jax.tree.map(lambda x: x[0], xs))
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), state, after)


def _side_by_side(xs: Any, chunk: int, chunks: int) -> Any:
    """Return the whole chunks as lanes, ``[chunk, chunks, ...]``."""
    return jax.tree.map(
        lambda x: jnp.swapaxes(
            x[: chunk * chunks].reshape(chunks, chunk, *x.shape[1:]), 0, 1
        ),
        xs,
    )


def _warm_up(step: Step, state: Any, lanes: Any, warmup: int) -> Any:
    before = jax.tree.map(lambda lane: lane[lane.shape[0] - warmup :, :-1], lanes)
    count = jax.tree.leaves(lanes)[0].shape[1] - 1
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), state)
    return lax.scan(jax.vmap(lambda s, x: step(s, x)), start, before)[0]


def _continues(entries: Any, ends: Any) -> Array:
    """Tell whether each chunk entered with the bits that the one before ended with."""
    same = [
        (_bits(entry[1:]) == _bits(end[:-1])).all()
        for entry, end in zip(
            jax.tree.leaves(entries), jax.tree.leaves(ends), strict=True
        )
    ]
    return jnp.stack(same).all() if same else jnp.asarray(True)


def _bits(x: Array) -> Array:
    # Zeros of both signs compare equal as floats, and NaN does not equal itself.
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag])
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")


def _forgetting_time(step: Any) -> int:
    """Return the steps in which a neuron's slowest decay reaches rounding."""
    parameters = getattr(step, "parameters", None)
    fields = getattr(parameters, "_fields", ())
    logs = [getattr(parameters, name) for name in fields if name.startswith("log_tau")]
    if not logs or any(isinstance(log, jax.core.Tracer) for log in logs):
        why = "is not a neuron" if not logs else "has time constants that are traced"
        raise ValueError(
            f"`chunk` must be given: `step` {why}, so its decay is not known. Several "
            "times the number of steps that it remembers is a good choice"
        )
    slowest = max(float(np.max(np.asarray(log, np.float64))) for log in logs)
    rounding = float(np.finfo(np.asarray(logs[0]).dtype).eps)
    return math.ceil(math.log(1 / rounding) / -math.expm1(-step.dt / math.exp(slowest)))
