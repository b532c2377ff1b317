"""Learning while the input arrives."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from . import _check, _feedback, _step
from ._engine import Loss, make_engine
from ._fit import fit
from ._rate import RatePenalty
from ._rule import Rule, eprop


class LearnerState(NamedTuple):
    """All that a `Learner` knows: a pytree of arrays that does not grow.

    Parameters
    ----------
    params
        The network's parameters, as ``nnx.state(net, nnx.Param)``.
    rest
        The network's other variables.
    carry
        The network's state, the traces, the feedback weights, and the sums from which
        the mean gradient since the last update is made.
    optimizer
        State of the optimiser.
    steps
        Number of steps so far, int32; it wraps around, which nothing depends on but
        when the next update comes.
    """

    params: nnx.State
    rest: Any
    carry: _step.Carry
    optimizer: Any
    steps: jax.Array


class Output(NamedTuple):
    """What a step gives.

    Parameters
    ----------
    y
        Output of the network before the update, ``[*batch, *outputs]``.
    loss
        Weighted mean over the examples, 0 if none has a weight.
    """

    y: jax.Array
    loss: jax.Array


class Learner:
    """Learn from a stream, step by step, in memory that does not grow.

    Every step advances the network and its traces and adds to the gradient; every
    `every` steps the optimiser is given the mean gradient since the last time. The
    traces go on through an update. All state is in a `LearnerState`, nothing in the
    learner: to stop and resume, save that.

    Parameters
    ----------
    net
        A `spike_core.Sequential`, as for `value_and_grad`. Its parameters are where
        learning starts; the module itself is not changed.
    loss
        ``loss(y, target) -> [*batch]``, one number an example.
    rule
        The learning rule; `eprop()` if None.
    optimizer
        Any optax optimiser; without one the gradient is summed up and nothing is
        changed.
    every
        Steps between updates, a positive integer.
    penalty
        A price on the rates of hidden neurons, of the steps between updates.

    Raises
    ------
    TypeError, ValueError
        As `value_and_grad` does; or if `optimizer` or `every` is of the wrong kind.

    Examples
    --------
    >>> import jax.numpy as jnp, optax
    >>> from flax import nnx
    >>> from spike_core import LIF, LeakyIntegrator, Sequential
    >>> from spike_eprop import Learner
    >>> rngs = nnx.Rngs(0)
    >>> net = Sequential(
    ...     nnx.Linear(8, 16, rngs=rngs), LIF(16),
    ...     nnx.Linear(16, 1, rngs=rngs), LeakyIntegrator(1),
    ... )
    >>> learner = Learner(
    ...     net, lambda y, target: ((y - target) ** 2).mean(-1),
    ...     optimizer=optax.sgd(0.1), every=10,
    ... )
    >>> x, target = jnp.ones((4, 8), jnp.float32), jnp.zeros((4, 1), jnp.float32)
    >>> state = learner.init(x)
    >>> state, out = learner.step(state, x, target)
    >>> out.y.shape, int(state.steps)
    ((4, 1), 1)
    """

    def __init__(
        self,
        net: Any,
        loss: Loss,
        *,
        rule: Rule | None = None,
        optimizer: optax.GradientTransformation | None = None,
        every: int = 1,
        penalty: RatePenalty | None = None,
    ):
        rule = eprop() if rule is None else rule
        self._engine = make_engine(net, rule, loss, penalty)
        if optimizer is not None and not hasattr(optimizer, "update"):
            raise TypeError(
                "`optimizer` must be an optax.GradientTransformation, "
                f"got {type(optimizer).__name__}"
            )
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"`every` must be a positive integer, got {every!r}")
        self._optimizer = optimizer
        self._every = every
        self._graphdef, self._params, self._rest = nnx.split(net, nnx.Param, ...)
        self._kernels = {
            _feedback.of_layer(i): ("layers", i, "kernel")
            for i in range(len(getattr(net, "layers", ())))
        }
        self._batches = {}
        self._run = jax.jit(self._scan)

    def init(self, x: jax.Array, state: Any = None) -> LearnerState:
        """Return the state before the first step.

        Parameters
        ----------
        x
            Input of a step, or anything like it, ``[*batch, *features]``.
        state
            State of the network; the initial one if None.

        Returns
        -------
        LearnerState
        """
        x = _check.one_step("x", x)
        dtype = _step.sum_dtype(self._params)
        floating = jnp.issubdtype(x.dtype, jnp.floating)
        like = jax.ShapeDtypeStruct(x.shape, x.dtype if floating else dtype)
        net = nnx.merge(self._graphdef, self._params, self._rest)
        batch, state = fit(net, like, state)
        carry = _step.start(self._engine, net, state, like, batch)
        optimizer = ()
        if self._optimizer is not None:
            optimizer = self._optimizer.init(self._trained(self._params, carry))
        return LearnerState(
            self._params, self._rest, carry, optimizer, jnp.zeros((), jnp.int32)
        )

    def step(
        self,
        state: LearnerState,
        x: jax.Array,
        target: Any,
        mask: jax.Array | None = None,
    ) -> tuple[LearnerState, Output]:
        """Learn from one step.

        Parameters
        ----------
        state
            As `init` or an earlier call returned it.
        x
            Input, ``[*batch, *features]``.
        target
            What the loss compares the output with, an array or a pytree of arrays.
        mask
            Weight of each example, ``[*batch]``, or of all, a scalar.

        Returns
        -------
        state, output
            The next state, and the network's output and loss at this step.
        """
        first = jax.tree.map(lambda a: jnp.asarray(a)[None], (x, target, mask))
        state, out = self.run(state, *first)
        return state, jax.tree.map(lambda a: a[0], out)

    def run(
        self,
        state: LearnerState,
        xs: jax.Array,
        targets: Any,
        mask: jax.Array | None = None,
    ) -> tuple[LearnerState, Output]:
        """Learn from a stretch of steps, as if from one after another.

        Parameters
        ----------
        state
            As `init` or an earlier call returned it.
        xs
            Input, ``[T, *batch, *features]``.
        targets
            One entry a step along the first axis.
        mask
            Weight of each step, ``[T]``, or of each step and example, ``[T, *batch]``.

        Returns
        -------
        state, outputs
            The next state, and outputs and losses with a leading axis of steps.
        """
        if not isinstance(state, LearnerState):
            raise TypeError(
                f"`state` must be a LearnerState, as `init` returns it, "
                f"got {type(state).__name__}"
            )
        xs = _check.sequence("xs", xs)
        targets = _check.steps_of("targets", targets, xs.shape[0])
        dtype = _step.sum_dtype(self._params)
        xs = _check.floating(xs, dtype)
        batch = self._batch(state, jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype))
        weights = _check.weights(mask, xs.shape[0], batch, dtype)
        return self._run(state, xs, targets, weights)

    def value_and_grad(self, state: LearnerState) -> tuple[jax.Array, nnx.State]:
        """Return the mean loss and gradient since the last update.

        Without an optimiser that is all steps so far, and the same as
        `spike_eprop.value_and_grad` gives for them, however they were divided.

        Parameters
        ----------
        state
            As a step returned it.

        Returns
        -------
        value, gradients
        """
        return _step.mean(self._engine, self.network(state), state.carry.sums)

    def network(self, state: LearnerState) -> Any:
        """Return the network as it is now, a new module.

        Parameters
        ----------
        state
            As a step returned it.

        Returns
        -------
        spike_core.Sequential
        """
        return nnx.merge(self._graphdef, state.params, state.rest)

    def _batch(self, state, x):
        """Return the batch shape, which only the network can tell; once a shape."""
        if x not in self._batches:
            net = nnx.merge(self._graphdef, self._params, self._rest)
            batch, fresh = fit(net, x, None)
            self._batches[x] = batch, [leaf.shape for leaf in jax.tree.leaves(fresh)]
        batch, shapes = self._batches[x]
        if [leaf.shape for leaf in jax.tree.leaves(state.carry.state)] != shapes:
            raise ValueError(
                "`xs` must have the shape of a step that `init` was given, after the "
                f"time axis, got {x.shape} for a step"
            )
        return batch

    def _trained(self, params, carry) -> Any:
        # Adaptive feedback is trained beside the weights that it stands for.
        adaptive = self._engine.rule.feedback == "adaptive"
        return (params, carry.feedback) if adaptive else params

    def _scan(self, state, xs, targets, weights):
        def body(state, inputs):
            net = self.network(state)
            carry, y, value = _step.advance(self._engine, net, state.carry, *inputs)
            weight = inputs[-1].sum().astype(value.dtype)
            loss = jnp.where(weight > 0, value / jnp.where(weight > 0, weight, 1), 0)
            state = state._replace(
                rest=nnx.state(net, nnx.Not(nnx.Param)),
                carry=carry,
                steps=state.steps + 1,
            )
            if self._optimizer is not None:
                state = jax.lax.cond(
                    state.steps % self._every == 0, self._update, lambda s: s, state
                )
            return state, Output(y, loss)

        return jax.lax.scan(body, state, (xs, targets, weights))

    def _update(self, state: LearnerState) -> LearnerState:
        assert self._optimizer is not None  # nobody calls it without
        carry = state.carry
        _, gradients = self.value_and_grad(state)
        trained = self._trained(state.params, carry)
        if trained is not state.params:
            gradients = gradients, self._mirror(gradients, carry.feedback)
        # optax counts steps in int32 and multiplies: strict promotion would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, optimizer = self._optimizer.update(
                gradients, state.optimizer, trained
            )
            updated: Any = optax.apply_updates(trained, updates)
        params, feedback = (
            (updated, carry.feedback) if trained is state.params else updated
        )
        return state._replace(
            params=params,
            optimizer=optimizer,
            carry=carry._replace(
                feedback=feedback, sums=jax.tree.map(jnp.zeros_like, carry.sums)
            ),
        )

    def _mirror(self, gradients, feedback):
        """Give feedback weights the gradients of the weights they stand for."""
        found = dict(nnx.to_flat_state(gradients))
        # A frozen layer has no gradient, and its feedback weights stay too.
        return {
            name: found[path][...].astype(b.dtype)
            if (path := self._kernels[name]) in found
            else jnp.zeros_like(b)
            for name, b in feedback.items()
        }
