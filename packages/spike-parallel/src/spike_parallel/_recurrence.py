r"""Linear recurrences $v_t = a_t v_{t-1} + b_t$, solved in parallel over time.

Two solvers compute the same thing. Where the time loop is cheap (a CPU) it is the
two-level scan: the sequence is cut into about $\sqrt T$ chunks that run side by side
from zero, a short scan over the chunk ends gives each chunk its true entry state, and
the chunks run once more from there. Values inside a chunk are thus rounded as the
sequential loop rounds them, and no product of decays longer than a chunk's is stored.
Elsewhere every step of a loop is a kernel launch, so the solver is
`lax.associative_scan`, whose depth is $O(\log T)$.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from spike_parallel import _check


class _Algebra(NamedTuple):
    """How coefficients act on states (`apply`) and on each other (`compose`)."""

    apply: Callable[[Array, Array], Array]
    compose: Callable[[Array, Array], Array]
    transpose: Callable[[Array], Array]
    power: Callable[[Array, int], Array]
    outer: Callable[[Array, Array], Array]


def _block_apply(a: Array, v: Array) -> Array:
    # Multiply-adds, since a batch of 2x2 products as `dot_general` is far slower.
    return (a * v[..., None, :]).sum(-1)


def _block_compose(later: Array, earlier: Array) -> Array:
    return (later[..., :, :, None] * earlier[..., None, :, :]).sum(-2)


def _block_power(a: Array, n: int) -> Array:
    result = jnp.broadcast_to(jnp.eye(2, dtype=a.dtype), a.shape)
    while n:
        if n % 2:
            result = _block_compose(a, result)
        a, n = _block_compose(a, a), n // 2
    return result


_DIAGONAL = _Algebra(
    apply=jnp.multiply,
    compose=jnp.multiply,
    transpose=lambda a: a,
    power=lax.integer_pow,
    outer=jnp.multiply,
)
_BLOCK = _Algebra(
    apply=_block_apply,
    compose=_block_compose,
    transpose=lambda a: jnp.swapaxes(a, -1, -2),
    power=_block_power,
    outer=lambda u, v: u[..., :, None] * v[..., None, :],
)


def _algebra(a: Array, b: Array) -> _Algebra:
    return _BLOCK if a.ndim == b.ndim + 1 else _DIAGONAL


def chunk_length(steps: int) -> int:
    """Return the chunk length that makes a two-level scan of `steps` shallow.

    A divisor of `steps` near its square root saves the copy that padding costs; a
    length without one (a prime) is padded.
    """
    root = math.isqrt(steps)
    near = range((root + 1) // 2, 2 * root + 1)
    divisors = [length for length in near if steps % length == 0]
    return min(divisors, key=lambda n: abs(n - root), default=root)


def _pad(x: Array, length: int, reverse: bool) -> Array:
    # At the far end of the direction of travel, where nothing follows.
    extra = -x.shape[0] % length
    if not extra or x.shape[0] == 1:
        return x
    width = (extra, 0) if reverse else (0, extra)
    return jnp.pad(x, [width] + [(0, 0)] * (x.ndim - 1))


def _two_level(a: Array, b: Array, v0: Array, reverse: bool) -> Array:
    algebra = _algebra(a, b)
    steps = b.shape[0]
    length = chunk_length(steps)
    constant = a.shape[0] == 1
    b_padded = _pad(b, length, reverse)
    b_chunks = b_padded.reshape(-1, length, *b.shape[1:])
    chunks = b_chunks.shape[0]
    if not constant:
        a_chunks = _pad(a, length, reverse).reshape(chunks, length, *a.shape[1:])

    def at(x: Array, i: Array) -> Array:
        # Rows are picked out of [chunk, step] where they lie: a transposed copy of
        # `b` costs more memory traffic than it saves.
        row = length - 1 - i if reverse else i
        return lax.dynamic_index_in_dim(x, row, axis=1, keepdims=False)

    def coefficient(i: Array) -> Array:
        return a if constant else at(a_chunks, i)

    def advance(i: Array, v: Array, b: Array) -> Array:
        return algebra.apply(coefficient(i), v) + at(b, i)

    entry = v0[None]
    if chunks > 1:
        ends = lax.fori_loop(
            0,
            length,
            lambda i, v: advance(i, v, b_chunks),
            jnp.zeros_like(b_chunks[:, 0]),
        )
        if constant:
            across = jnp.broadcast_to(algebra.power(a, length), (chunks, *a.shape[1:]))
        else:
            across = lax.fori_loop(
                1,
                length,
                lambda i, p: algebra.compose(coefficient(i), p),
                coefficient(jnp.asarray(0)),
            )
        entry = lax.scan(
            lambda v, step: (algebra.apply(step[0], v) + step[1], v),
            v0,
            (across, ends),
            reverse=reverse,
        )[1]

    # The states take the place of the input, row by row: no third array of that size.
    def write(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v, out = carry
        v = advance(i, v, out)
        row = length - 1 - i if reverse else i
        return v, lax.dynamic_update_index_in_dim(out, v, row, axis=1)

    entry = jnp.broadcast_to(entry, b_chunks[:, 0].shape)
    _, out = lax.fori_loop(0, length, write, (entry, b_chunks))
    out = out.reshape(b_padded.shape)
    return out[out.shape[0] - steps :] if reverse else out[:steps]


def _log_depth(a: Array, b: Array, v0: Array, reverse: bool) -> Array:
    algebra = _algebra(a, b)
    first = -1 if reverse else 0
    b = b.at[first].add(algebra.apply(a[first], v0))
    a = jnp.broadcast_to(a, (b.shape[0], *a.shape[1:]))

    def combine(earlier: Any, later: Any) -> Any:
        (a1, b1), (a2, b2) = earlier, later
        return algebra.compose(a2, a1), algebra.apply(a2, b1) + b2

    return lax.associative_scan(combine, (a, b), reverse=reverse)[1]


def _unbroadcast(x: Array, shape: tuple[int, ...]) -> Array:
    axes = [
        axis
        for axis, (mine, theirs) in enumerate(zip(shape, x.shape, strict=True))
        if mine != theirs
    ]
    return x.sum(axes, keepdims=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _solve(a: Array, b: Array, v0: Array, reverse: bool) -> Array:
    """Solve for coefficients that have a time axis, of length one if constant."""
    return lax.platform_dependent(
        a,
        b,
        v0,
        cpu=functools.partial(_two_level, reverse=reverse),
        default=functools.partial(_log_depth, reverse=reverse),
    )


def _solve_forward(
    a: Array, b: Array, v0: Array, reverse: bool
) -> tuple[Array, tuple[Array, Array, Array]]:
    v = _solve(a, b, v0, reverse)
    return v, (a, v, v0)


def _shift(x: Array, entry: Array, reverse: bool) -> Array:
    """Move each row one step on in the direction of travel, `entry` first."""
    if reverse:
        return jnp.concatenate([x[1:], entry[None]])
    return jnp.concatenate([entry[None], x[:-1]])


def _solve_backward(
    reverse: bool, residuals: tuple[Array, Array, Array], g: Array
) -> tuple[Array, Array, Array]:
    a, v, v0 = residuals
    algebra = _algebra(a, v)
    adjoint = algebra.transpose(a)
    # The cotangent of b runs the other way: l[t] = g[t] + a[t+1]^T l[t+1]. With a
    # coefficient that changes, m[t] = a[t]^T l[t] is solved for instead, which needs
    # no shifted copy of the coefficients; with one that does not, the gradient of a
    # is summed over two slices, which needs no shifted copy of the states.
    zero = jnp.zeros_like(v0)
    first = -1 if reverse else 0
    if a.shape[0] == 1:
        cotangent = _solve(adjoint, g, zero, not reverse)
        later, earlier = cotangent[1:], v[:-1]
        if reverse:
            later, earlier = cotangent[:-1], v[1:]
        to_a = _unbroadcast(algebra.outer(later, earlier), a.shape) + _unbroadcast(
            algebra.outer(cotangent[first], v0)[None], a.shape
        )
    else:
        moved = _solve(adjoint, algebra.apply(adjoint, g), zero, not reverse)
        cotangent = g + _shift(moved, zero, not reverse)
        to_a = _unbroadcast(algebra.outer(cotangent, _shift(v, v0, reverse)), a.shape)
    return to_a, cotangent, algebra.apply(adjoint[first], cotangent[first])


_solve.defvjp(_solve_forward, _solve_backward)


def _solve_piece(
    a: Array, b: Array, v0: Array, reverse: bool, axis_name: str
) -> tuple[Array, Array]:
    """Solve this device's piece of time, and return the last state of all."""
    algebra = _algebra(a, b)
    pieces = lax.axis_size(axis_name)
    end = _solve(a, b, jnp.zeros_like(v0), reverse)[0 if reverse else -1]
    if a.shape[0] == 1:
        across = algebra.power(a, b.shape[0])
        ends = lax.all_gather(end, axis_name)
        across = jnp.broadcast_to(across, (pieces, *a.shape[1:]))
    else:
        # Raveled into one array, so that it is one collective.
        whole = _product(algebra, a, reverse)
        both = lax.all_gather(jnp.concatenate([whole.ravel(), end.ravel()]), axis_name)
        across = both[:, : whole.size].reshape(pieces, *whole.shape)
        ends = both[:, whole.size :].reshape(pieces, *end.shape)
    last, entries = lax.scan(
        lambda v, step: (algebra.apply(step[0], v) + step[1], v),
        v0,
        (across, ends),
        reverse=reverse,
    )
    entry = lax.dynamic_index_in_dim(entries, lax.axis_index(axis_name), keepdims=False)
    return _solve(a, b, entry, reverse), last


def _product(algebra: _Algebra, a: Array, reverse: bool) -> Array:
    """Return the coefficient of all steps together."""

    def combine(earlier: Array, later: Array) -> Array:
        return algebra.compose(later, earlier)

    # `associative_scan` is differentiable, and only its last row is used.
    return lax.associative_scan(combine, a, reverse=reverse)[0 if reverse else -1]


def _align(a: Array, b: Array) -> Array:
    """Give the coefficient the rank of `b` (one more for a block)."""
    shape, state = a.shape, b.shape[1:]
    if a.ndim == b.ndim + 1:
        if shape[-2:] != (2, 2) or state[-1:] != (2,):
            raise ValueError(
                "`a` has one axis more than `b`, so it must be blocks of shape "
                f"[..., 2, 2] for `b` of shape [..., 2]; got {shape} and {b.shape}"
            )
        _check.broadcastable("a", shape[:-1], b.shape)
        return a
    _check.broadcastable("a", shape, b.shape)
    if a.ndim == b.ndim:
        return a
    return a.reshape((1,) * (b.ndim - a.ndim) + shape)


def linear_recurrence(
    a: Any, b: Any, v0: Any, *, reverse: bool = False, axis_name: str | None = None
) -> Array:
    r"""Solve a linear recurrence over the first axis, in parallel over time.

    $$v_t = a_t\, v_{t-1} + b_t, \qquad v_{-1} = v_0$$

    and, with `reverse`, $v_t = a_t\, v_{t+1} + b_t$ with $v_T = v_0$. The coefficient
    is a scalar for each state (*diagonal*) or a 2x2 matrix that couples two states
    (*block*). The derivative in reverse mode is a recurrence of the same kind that
    runs the other way, and is solved by the same means; it can be taken again.
    Forward mode (`jax.jvp`) is not defined.

    No quotient and no power of a negative exponent is formed, so decays from exactly
    0 to beyond 1 are safe for any $T$. 16-bit types are computed in float32.

    Parameters
    ----------
    a
        The coefficient; its rank says what it is. Diagonal: any shape that broadcasts
        to `b`; a rank below that of `b` is constant over time. Block: one axis more
        than `b`, `[T or 1, ..., 2, 2]`, its leading axes broadcasting to those of `b`.
    b
        The input, `[T, ...]` (`[T, ..., 2]` for a block). Any floating or complex
        dtype, any $T$, zero included.
    v0
        The state before the first step (after the last one with `reverse`); broadcasts
        to `b.shape[1:]`.
    reverse
        Whether time runs from the last step to the first.
    axis_name
        Inside `jax.shard_map`: the mesh axis over which the time axis of `b` (and of
        `a`, where it has one) is cut into consecutive pieces; `v0` is the state before
        the very first step, the same on every device. The devices exchange one state
        each, in one collective.

    Returns
    -------
    Array
        The states, with the shape and dtype of `b`.

    Raises
    ------
    ValueError
        If a dtype is not a floating one, the dtypes differ (Python numbers take that
        of `b`), or the shapes do not fit.

    References
    ----------
    Blelloch, *Prefix sums and their applications* (1990), section 1.4.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> linear_recurrence(0.5, jnp.array([1.0, 0.0, 0.0, 2.0]), 4.0)
    Array([3.   , 1.5  , 0.75 , 2.375], dtype=...)
    """
    return recurrence_and_last(a, b, v0, reverse=reverse, axis_name=axis_name)[0]


def recurrence_and_last(
    a: Any, b: Any, v0: Any, *, reverse: bool = False, axis_name: str | None = None
) -> tuple[Array, Array]:
    """Return what `linear_recurrence` returns, and the state at the end of time."""
    b = _check.inexact("b", b)
    if b.ndim == 0:
        raise ValueError("`b` must have a time axis, got a scalar")
    a = _check.inexact("a", a, b.dtype)
    v0 = _check.inexact("v0", v0, b.dtype)
    _check.same_dtype("a", a, "b", b.dtype)
    _check.same_dtype("v0", v0, "b", b.dtype)
    _check.broadcastable("v0", v0.shape, b.shape[1:])
    a = _align(a, b)
    v0 = jnp.broadcast_to(v0, b.shape[1:])
    if b.size == 0:
        return b, v0
    dtype = b.dtype
    if dtype.itemsize < 4:
        a, b, v0 = (x.astype(jnp.float32) for x in (a, b, v0))
    if axis_name is None:
        v = _solve(a, b, v0, reverse)
        last = v[0 if reverse else -1]
    else:
        v, last = _solve_piece(a, b, v0, reverse, axis_name)
    return v.astype(dtype), last.astype(dtype)
