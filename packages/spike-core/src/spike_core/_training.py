"""Training with optax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
from flax import nnx

from ._strategy import Strategy
from ._unroll import unroll


@partial(nnx.jit, static_argnames=("loss", "strategy"))
def train_step(
    net: nnx.Module,
    optimizer: nnx.Optimizer,
    xs: jax.Array,
    targets: Any,
    *,
    loss: Callable[[jax.Array, Any], jax.Array],
    strategy: Strategy | Literal["auto"] = "auto",
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
        Input, ``[T, *batch, *features]``.
    targets
        What the loss compares with.
    loss
        Called as ``loss(ys, targets)`` with the output of each step; returns a scalar.
    strategy
        How to run, as for `unroll`.

    Returns
    -------
    jax.Array
        The loss before the step, a scalar.

    Raises
    ------
    TypeError, ValueError
        As `unroll` does, and if `loss` does not return a scalar.

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

    def objective(net):
        value = loss(unroll(net, xs, strategy=strategy)[1], targets)
        if getattr(value, "shape", None) != ():
            seen = getattr(value, "shape", type(value).__name__)
            raise ValueError(f"`loss` must return a scalar, got {seen}")
        return value

    value, gradients = nnx.value_and_grad(objective)(net)
    # optax counts steps in int32 and multiplies: strict promotion would refuse.
    with jax.numpy_dtype_promotion("standard"):
        optimizer.update(net, gradients)
    return value
