"""Gradients of a whole sequence, in memory that does not grow with its length."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from . import _check, _memory, _step
from ._engine import Loss, make_engine
from ._fit import fit
from ._rate import RatePenalty
from ._rule import Rule, eprop


def value_and_grad(
    net: Any,
    xs: jax.Array,
    targets: Any,
    loss: Loss,
    *,
    rule: Rule | None = None,
    mask: jax.Array | None = None,
    state: Any = None,
    penalty: RatePenalty | None = None,
) -> tuple[jax.Array, nnx.State]:
    r"""Return the loss of a sequence and its gradient, by eligibility traces.

    The sequence is gone through once, forwards. The derivatives of each neuron by its
    own past, reset and adaptation included, and the leak of the readout are part of
    the traces, so that for one hidden layer of neurons under a leaky (or instantaneous)
    readout the gradient is that of backpropagation through time, for all parameters.
    Of deeper layers it is an approximation: what a spike does to layers above in
    *later* steps is left out, except through the readout.

    Memory is that of one step and its traces. It is `O(batch * inputs * neurons)` for
    the weights into a layer of hidden neurons, whatever the number of steps.

    Parameters
    ----------
    net
        A `spike_core.Sequential`. A neuron may be fed by an `nnx.Linear` or `nnx.Conv`;
        other layers below a neuron must have no parameters. Above the last neuron any
        layers may follow.
    xs
        Input, ``[T, *batch, *features]``; bool and integer spikes are converted.
    targets
        What `loss` compares with: an array, or a pytree of arrays, with one entry a
        step along the first axis. `jnp.broadcast_to` repeats one without a copy.
    loss
        ``loss(y, target) -> [*batch]``: one number an example, for the output and the
        target of one step.
    rule
        The learning rule; `eprop()` if None. With another than the exact one, or other
        than symmetric feedback, the gradient is an approximation.
    mask
        Weight of each step, ``[T]``, or of each step and example, ``[T, *batch]``,
        bool or nonnegative; all count the same if None.
    state
        State of `net` before the first step; the initial one if None.
    penalty
        A price on the rates of hidden neurons, added to the loss.

    Returns
    -------
    value : jax.Array
        Mean of the loss over the steps and examples, weighted by `mask`; 0 if nothing
        has a weight.
    gradients : flax.nnx.State
        Of the shape of ``nnx.state(net, nnx.Param)``, as ``nnx.Optimizer.update``
        takes it.

    Raises
    ------
    TypeError
        If an argument is of the wrong type.
    ValueError
        If a shape does not fit or `xs` is not finite; or if a layer is not covered,
        and then the message names it.

    References
    ----------
    Bellec et al., "A solution to the learning dilemma for recurrent networks of spiking
    neurons", Nature Communications 11 (2020), eqs. 4, 13 and 28, with the Jacobian of
    the whole step, reset included, in place of the leak alone.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, LeakyIntegrator, Sequential
    >>> from spike_eprop import value_and_grad
    >>> rngs = nnx.Rngs(0)
    >>> net = Sequential(
    ...     nnx.Linear(8, 16, rngs=rngs), LIF(16),
    ...     nnx.Linear(16, 1, rngs=rngs), LeakyIntegrator(1),
    ... )
    >>> xs = jnp.ones((50, 4, 8), jnp.float32)
    >>> targets = jnp.zeros((50, 4, 1), jnp.float32)
    >>> value, gradients = value_and_grad(
    ...     net, xs, targets, lambda y, target: ((y - target) ** 2).mean(-1)
    ... )
    >>> gradients["layers"][0]["kernel"].shape
    (8, 16)
    """
    rule = eprop() if rule is None else rule
    if getattr(rule, "feedback", None) == "adaptive":
        raise ValueError(
            '`rule` must not have `feedback="adaptive"` here: it learns with the '
            "network, so use a Learner"
        )
    engine = make_engine(net, rule, loss, penalty)
    xs = _check.sequence("xs", xs)
    targets = _check.steps_of("targets", targets, xs.shape[0])
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    dtype = _step.sum_dtype(params)
    xs = _check.floating(xs, dtype)
    x = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
    batch, state = fit(net, x, state)
    weights = None
    if mask is not None:
        weights = _check.weights(mask, xs.shape[0], batch, dtype)
    if rule.trace == "auto":
        engine = _memory.choose(engine, net, x, batch, xs.shape[0])
    carry = _step.start(engine, net, state, x, batch)

    def body(carry, inputs):
        carry, rest = carry
        x, target, weight = inputs
        if weight is None:  # made here, for an array of all steps would be memory
            weight = jnp.ones(batch, dtype)
        module = nnx.merge(graphdef, params, rest)
        carry, *_ = _step.advance(engine, module, carry, x, target, weight)
        return (carry, nnx.state(module, nnx.Not(nnx.Param))), None

    (carry, _), _ = jax.lax.scan(body, (carry, rest), (xs, targets, weights))
    return _step.mean(engine, net, carry.sums)
