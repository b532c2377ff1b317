r"""The non-leaky neuron with subtractive reset, in closed form.

Without leak the membrane is the sum of the input less what the spikes took away,
$v_t = S_t - \theta n_t$ with $S_t = v_0 + \sum_{j \le t} x_j$. A step fires if that
leaves $v_t > \theta$ otherwise, at most once. If one reset is always enough, which
$x_t \le \theta$ and $v_0 \le \theta$ ensure, the number of spikes so far is

$$n_t = \max\Big(0,\, \max_{j \le t} \big(\lceil S_j / \theta \rceil - 1\big)\Big),$$

a sum and a maximum, both parallel over time.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from . import _check


class IntegrateAndFire(NamedTuple):
    """What `integrate_and_fire` returns.

    Parameters
    ----------
    v
        Membrane after the last step.
    spikes
        Output of each step, 0 or 1, ``[T, ...]``, in the dtype of the input.
    closed_form
        Whether the condition of the closed form held; if not, the loop was run.
    """

    v: Array
    spikes: Array
    closed_form: Array


def integrate_and_fire(
    xs: Any, threshold: Any = 1.0, v0: Any = 0.0
) -> IntegrateAndFire:
    r"""Run non-leaky neurons with subtractive reset in closed form.

    $$u_t = v_{t-1} + x_t, \qquad s_t = H(u_t - \theta), \qquad v_t = u_t - \theta s_t$$

    The closed form needs $x_t \le \theta$ at every step and $v_0 \le \theta$: then one
    spike a step is enough. The condition is looked at, under `jax.jit` too, and where
    it fails the sequential loop runs instead. Spikes are exact where the sums are,
    integers and dyadic fractions for example; elsewhere a membrane within rounding of
    its threshold may fire a step sooner or later than in the loop. Not differentiable:
    a spike has no derivative here.

    Parameters
    ----------
    xs
        Input, ``[T, ...]``, floating.
    threshold
        $\theta$, positive; broadcasts to one step.
    v0
        Membrane before the first step; broadcasts to one step.

    Returns
    -------
    IntegrateAndFire
        The last membrane, the spikes, and whether the closed form was used.

    Raises
    ------
    ValueError
        If a shape or dtype does not fit.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> result = integrate_and_fire(jnp.full((8, 1), 0.75))
    >>> result.spikes[:, 0].astype(int).tolist(), bool(result.closed_form)
    ([0, 1, 1, 0, 1, 1, 1, 0], True)
    """
    xs = _check.inexact("xs", xs)
    if not jnp.issubdtype(xs.dtype, jnp.floating):
        raise ValueError(f"`xs` must have a real floating dtype, got {xs.dtype}")
    if xs.ndim == 0:
        raise ValueError("`xs` must have a time axis, got a scalar")

    def one_step(name: str, value: Any) -> Array:
        value = _check.inexact(name, value, xs.dtype)
        _check.same_dtype(name, value, "xs", xs.dtype)
        _check.broadcastable(name, value.shape, xs.shape[1:])
        return jnp.broadcast_to(value, xs.shape[1:])

    theta, start = one_step("threshold", threshold), one_step("v0", v0)
    if xs.shape[0] == 0:
        return IntegrateAndFire(start, xs, jnp.asarray(True))
    holds = (xs <= theta[None]).all() & (start <= theta).all() & (theta > 0).all()
    v, spikes = lax.cond(holds, _closed_form, _loop, xs, theta, start)
    return IntegrateAndFire(v, spikes, holds)


def _closed_form(xs: Array, theta: Array, v0: Array) -> tuple[Array, Array]:
    total = v0[None] + jnp.cumsum(xs, axis=0)
    most = lax.cummax(jnp.ceil(total / theta[None]) - 1, axis=0)
    count = jnp.maximum(most, 0)
    spikes = jnp.diff(count, axis=0, prepend=jnp.zeros_like(count[:1]))
    return total[-1] - theta * count[-1], spikes


def _loop(xs: Array, theta: Array, v0: Array) -> tuple[Array, Array]:
    def step(v: Array, x: Array) -> tuple[Array, Array]:
        u = v + x
        spike = (u > theta).astype(u.dtype)
        return u - theta * spike, spike

    return lax.scan(step, v0, xs)
