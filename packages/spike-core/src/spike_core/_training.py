"""A step of training with optax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from ._activity import layer_outputs
from ._strategy import Strategy
from ._unroll import unroll

Loss = Callable[..., jax.Array]


_STATIC = ("loss", "penalty", "strategy", "time_axis")


@partial(nnx.jit, static_argnames=_STATIC)
def train_step(
    net: nnx.Module,
    optimizer: nnx.Optimizer,
    xs: jax.Array,
    *targets: Any,
    loss: Loss,
    penalty: Callable[[dict[str, jax.Array]], jax.Array] | None = None,
    strategy: Strategy | Literal["auto"] = "auto",
    time_axis: int = 0,
) -> jax.Array:
    """Take one step down the gradient of a loss; changes `net` and `optimizer`.

    Compiled once for each loss, strategy and shape, so define `loss` once and not in
    the loop.

    Parameters
    ----------
    net
        A network, as for `unroll`.
    optimizer
        Of this network: ``nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)``.
    xs
        Input, ``[T, *batch, *features]``; whole numbers and booleans become float32.
    *targets
        What the loss compares with: labels, and lengths if it takes them.
    loss
        Called as ``loss(ys, *targets)`` with the output of each step; returns a scalar.
    penalty
        Called with the output of every neuron by its name, as `layer_outputs` gives
        them; returns a scalar that is added to the loss, for example by `rate_penalty`.
        The network is then run by `Scan`.
    strategy
        How to run, as for `unroll`.
    time_axis
        Where time is in `xs`, and in what `loss` is given, as for `unroll`.

    Returns
    -------
    jax.Array
        The loss before the step, a scalar.

    Raises
    ------
    TypeError, ValueError
        As `unroll` does, if `loss` or `penalty` does not return a scalar, or if both
        `penalty` and `strategy` are given.

    Examples
    --------
    >>> import jax.numpy as jnp, optax
    >>> from flax import nnx
    >>> from spike_core import LeakyIntegrator, Sequential, train_step
    >>> net = Sequential(nnx.Linear(2, 1, rngs=nnx.Rngs(0)), LeakyIntegrator(1))
    >>> optimizer = nnx.Optimizer(net, optax.adam(0.1), wrt=nnx.Param)
    >>> def loss(ys, target):
    ...     return jnp.mean((ys[-1] - target) ** 2)
    >>> xs = jnp.ones((30, 4, 2), jnp.float32)
    >>> losses = [train_step(net, optimizer, xs, 0.5, loss=loss) for _ in range(30)]
    >>> bool(losses[-1] < 0.1 * losses[0])
    True
    """
    return take_step(
        net,
        optimizer,
        xs,
        *targets,
        loss=loss,
        penalty=penalty,
        strategy=strategy,
        time_axis=time_axis,
    )[0]


@partial(nnx.jit, static_argnames=_STATIC)
def take_step(
    net, optimizer, xs, *targets, loss, penalty, strategy, time_axis
) -> tuple[jax.Array, jax.Array]:
    """Take a step as `train_step` does; tell also whether the gradient was finite.

    The loss alone does not: a membrane that is not a number never fires, and a network
    without spikes has a finite loss.
    """
    if penalty is not None and strategy != "auto":
        raise ValueError(
            '`strategy` must be "auto" where there is a `penalty`, which Scan() runs, '
            f"got {strategy!r}"
        )
    xs = as_floats(xs)

    def objective(net):
        if penalty is None:
            ys = unroll(net, xs, strategy=strategy, time_axis=time_axis)[1]
            return scalar("loss", loss(ys, *targets))
        _, ys, outputs = layer_outputs(net, xs, time_axis=time_axis)
        return scalar("loss", loss(ys, *targets)) + scalar("penalty", penalty(outputs))

    value, gradients = nnx.value_and_grad(objective)(net)
    finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients)]
    # optax counts steps in int32 and multiplies: strict promotion would refuse.
    with jax.numpy_dtype_promotion("standard"):
        optimizer.update(net, gradients)
    return value, jnp.all(jnp.stack([jnp.isfinite(value), *finite]))


def scalar(name: str, value: Any) -> jax.Array:
    """Refuse what a function of the user's returned, unless it is a scalar."""
    if getattr(value, "shape", None) != ():
        seen = getattr(value, "shape", type(value).__name__)
        raise ValueError(f"`{name}` must return a scalar, got {seen}")
    return value


def as_floats(xs: Any) -> jax.Array:
    """Make spikes kept as bytes or booleans numbers to compute with."""
    xs = jnp.asarray(xs)
    return xs if jnp.issubdtype(xs.dtype, jnp.floating) else xs.astype(jnp.float32)
