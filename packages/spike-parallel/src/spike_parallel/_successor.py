r"""Successor pointers: a reset to a fixed value, solved in logarithmic depth.

Without reset the membrane is $P_t = \alpha P_{t-1} + b_t$. With one at step $t_0$ it
is, from the end $e = t_0 + r$ of the refractory period on,

$$u_t = P_t - \alpha^{t-e} D_e, \qquad D_e = P_e - v_\mathrm{reset},$$

so the next spike after $t_0$ is the first $t > e$ with
$P_t - \theta > \alpha^{t-e} D_e$. It depends on $t_0$ alone: it is found for every step
at once, and the spikes are the orbit of the first one.

The search is a binary descent in a table of block maxima that are normalised to the
end of their block,

$$E_k(s) = \max_{0 \le i < 2^k} \alpha^{2^k - 1 - i} (P_{s+i} - \theta), \qquad
E_{k+1}(s) = \max\big(\alpha^{2^k} E_k(s),\, E_k(s + 2^k)\big),$$

in which no negative power of $\alpha$ appears. Blocks over which $\alpha$ decays below
the smallest numbers are not used: past them a reset is forgotten, and the next spike
is the next step at which the free membrane is above threshold.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import _check
from ._recurrence import linear_recurrence


class ResetTrajectory(NamedTuple):
    """Spikes and membranes of neurons that reset to a value.

    Parameters
    ----------
    spikes
        Whether a neuron fired, booleans ``[T, ...]``.
    v
        Membrane after each step, ``[T, ...]``.
    resting
        Steps for which a neuron still rests after each step, int32 ``[T, ...]``.
    """

    spikes: Array
    v: Array
    resting: Array


def successor_pointers(
    decay: Any,
    drive: Any,
    threshold: Any,
    *,
    v0: Any = 0.0,
    v_reset: Any = 0.0,
    refractory: int = 0,
) -> ResetTrajectory:
    r"""Solve neurons that reset to a fixed value, without a loop over time.

    $$u_t = \alpha v_{t-1} + b_t, \quad s_t = H(u_t - \theta), \quad
    v_t = (1 - s_t) u_t + s_t v_\mathrm{reset}$$

    and for `refractory` steps after a spike the membrane keeps its value. Depth grows
    as $\log T$; work and memory as $T \log T$, a few dozen arrays of the size of
    `drive`. In float64 the spikes are those of the loop unless a membrane is within
    rounding of its threshold; in float32 and with a slow decay the difference of large
    numbers loses digits, and the result is a guess for `pointer_scan` to verify.

    Parameters
    ----------
    decay
        $\alpha$, above 0 and at most 1; a scalar or of a shape that broadcasts to
        one step.
    drive
        $b_t$, ``[T, ...]``, floating.
    threshold
        $\theta$; broadcasts to one step.
    v0
        Membrane before the first step; broadcasts to one step.
    v_reset
        Membrane after a spike; broadcasts to one step.
    refractory
        Whole steps for which a neuron rests after a spike.

    Returns
    -------
    ResetTrajectory
        Spikes, membranes after each step and what is left of the rest.

    Raises
    ------
    ValueError
        If a shape or dtype does not fit, or `refractory` is negative.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> drive = jnp.full((8, 1), 0.6)
    >>> successor_pointers(0.5, drive, 1.0).spikes[:, 0].astype(int).tolist()
    [0, 0, 1, 0, 0, 1, 0, 0]
    """
    drive = _check.inexact("drive", drive)
    if not jnp.issubdtype(drive.dtype, jnp.floating) or drive.dtype.itemsize < 4:
        raise ValueError(f"`drive` must be float32 or float64, got {drive.dtype}")
    if drive.ndim == 0:
        raise ValueError("`drive` must have a time axis, got a scalar")
    if isinstance(refractory, bool) or not isinstance(refractory, int | np.integer):
        raise ValueError(f"`refractory` must be an integer, got {refractory!r}")
    if refractory < 0:
        raise ValueError(f"`refractory` must not be negative, got {refractory}")
    shape, dtype = drive.shape, drive.dtype

    def lanes(name: str, value: Any) -> Array:
        value = _check.inexact(name, value, dtype)
        _check.same_dtype(name, value, "drive", dtype)
        _check.broadcastable(name, value.shape, shape[1:])
        return jnp.broadcast_to(value, shape[1:]).reshape(1, -1)

    parts = {"decay": decay, "threshold": threshold, "v0": v0, "v_reset": v_reset}
    a, theta, v0, v_reset = (lanes(name, value) for name, value in parts.items())
    if drive.size == 0:
        return ResetTrajectory(
            jnp.zeros(shape, bool), drive, jnp.zeros(shape, jnp.int32)
        )
    free = linear_recurrence(a, drive.reshape(shape[0], -1), v0[0])
    spikes = _spikes(a, free, theta, v_reset, refractory)
    v, resting = _membranes(a, free, spikes, v_reset, refractory)
    return ResetTrajectory(*(x.reshape(shape) for x in (spikes, v, resting)))


def _spikes(
    a: Array, free: Array, theta: Array, v_reset: Array, refractory: int
) -> Array:
    steps, lanes = free.shape
    first, following = _pointers(a, free - theta, free - v_reset)
    # From a spike at t0 the search starts at the end of its rest.
    start = jnp.minimum(jnp.arange(steps) + refractory, steps)[:, None]
    following = jnp.concatenate([following, jnp.full((1, lanes), steps)])
    successor = jnp.take_along_axis(
        following, jnp.broadcast_to(start, (steps, lanes)), axis=0
    )
    successor = jnp.concatenate([successor, jnp.full((1, lanes), steps)])
    # Pointer doubling: each round marks twice as many spikes of the orbit.
    lane = jnp.arange(lanes)[None]
    orbit = jnp.zeros((steps + 1, lanes), bool).at[first, lane[0]].set(True)

    def double(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        orbit, successor = carry
        marked = orbit.at[successor, lane].max(orbit)
        return marked, jnp.take_along_axis(successor, successor, axis=0)

    rounds = math.ceil(math.log2(steps + 1))
    orbit, _ = lax.fori_loop(0, rounds, double, (orbit, successor))
    return orbit[:steps]


def _pointers(a: Array, above: Array, debt: Array) -> tuple[Array, Array]:
    r"""Return the first crossing of the free membrane, and the one after a reset.

    `above` is $P - \theta$ and `debt` is $D$; the second result, at $e$, is the first
    $t > e$ with ``above[t] > a**(t - e) * debt[e]``. The number of steps means never.
    """
    steps = above.shape[0]
    time = jnp.arange(steps)[:, None]
    crossing = jnp.where(above > 0, time, steps)
    next_free = lax.cummin(crossing, axis=0, reverse=True)
    next_free = jnp.concatenate([next_free, jnp.full_like(next_free[:1], steps)])

    # Past half of the range of exponents products of two decays would underflow.
    tiny = float(jnp.finfo(above.dtype).tiny) ** 0.75
    floor = jnp.asarray(-(float(jnp.finfo(above.dtype).max) ** 0.5), above.dtype)
    levels = max(1, math.ceil(math.log2(steps + 1)))
    widths = 2 ** jnp.arange(levels)

    def look_up(table: Array, position: Array) -> Array:
        inside = jnp.minimum(position, steps - 1)
        found = jnp.take_along_axis(table, inside, axis=0)
        return jnp.where(position < steps, found, floor)

    def widen(carry: tuple, width: Array) -> tuple[tuple, tuple]:
        table, power, power_less_one = carry  # power = a ** width
        ahead = look_up(table, jnp.broadcast_to(time + width, table.shape))
        wider = jnp.maximum(power * table, ahead)
        return (wider, power * power, power_less_one * power), carry

    _, blocks = lax.scan(widen, (above, a, jnp.ones_like(a)), widths)

    def descend(carry: tuple, block: tuple) -> tuple[tuple, None]:
        position, decayed = carry  # decayed = a ** (position - e)
        (table, power, power_less_one), width = block
        crosses = look_up(table, position) > decayed * power_less_one * debt
        quiet = ~crosses & (power > tiny)
        position = jnp.where(quiet, jnp.minimum(position + width, steps), position)
        return (position, jnp.where(quiet, decayed * power, decayed)), None

    start = (jnp.broadcast_to(time + 1, above.shape), jnp.broadcast_to(a, above.shape))
    (position, decayed), _ = lax.scan(descend, start, (blocks, widths), reverse=True)
    found = look_up(above, position) > decayed * debt
    later = jnp.take_along_axis(next_free, position, axis=0)
    return next_free[0], jnp.where(found, position, later)


def _membranes(
    a: Array, free: Array, spikes: Array, v_reset: Array, refractory: int
) -> tuple[Array, Array]:
    steps = free.shape[0]
    time = jnp.arange(steps)[:, None]
    latest = lax.cummax(jnp.where(spikes, time, -1), axis=0)
    end = latest + refractory
    resting = jnp.where(latest < 0, 0, jnp.maximum(end - time, 0)).astype(jnp.int32)
    from_end = jnp.take_along_axis(free, jnp.clip(end, 0, steps - 1), axis=0)
    decayed = jnp.power(a, jnp.maximum(time - end, 0).astype(a.dtype))
    after = jnp.where(time <= end, v_reset, free - decayed * (from_end - v_reset))
    return jnp.where(latest < 0, free, after), resting
