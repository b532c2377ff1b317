"""What the built-in neurons that fire share: threshold, reset, refractory period."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .._surrogate import Surrogate
from .base import Neuron, Prepared, broadcast, state_dtype

Reset = Literal["subtract", "value", "zero", "none"]


class SpikingNeuron(Neuron):
    """Base of the built-in neurons that fire.

    A subclass writes `integrate`, and `firing_threshold` and `on_spike` where they are
    not the usual ones. The first field of its state is the membrane ``v``, the last
    ``refractory``; its parameters have ``threshold``, ``v_reset`` and ``log_slope``.
    """

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        threshold: Any,
        reset: Reset,
        v_reset: Any,
        detach_reset: bool,
        refractory: int,
        surrogate: Surrogate,
        dt: float,
        trainable: Collection[str],
        param_dtype: Any,
        positive: dict[str, Any],
        free: dict[str, Any],
    ):
        _check.one_of("reset", reset, ("subtract", "value", "zero", "none"))
        _check.one_of("detach_reset", detach_reset, (False, True))
        if v_reset is not None and reset != "value":
            raise ValueError(f'`v_reset` needs `reset="value"`, got `reset={reset!r}`')
        if not isinstance(surrogate, Surrogate):
            raise TypeError(
                f"`surrogate` must be a Surrogate, such as ATan(), got {surrogate!r}"
            )
        self.reset = reset
        self.detach_reset = detach_reset
        self.refractory = _check.whole("refractory", refractory, least=0)
        self.surrogate = surrogate
        if "slope" in trainable:
            positive = {**positive, "slope": surrogate.slope}
        free = {"threshold": threshold, **free}
        if reset == "value":
            free["v_reset"] = 0.0 if v_reset is None else v_reset
        super().__init__(
            features,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive=positive,
            free=free,
        )

    def initial_state(self, batch_shape: Sequence[int] = ()) -> Any:
        """Return the state before the first step: at rest.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        NamedTuple
            Leaves of shape ``[*batch_shape, *features]``.
        """
        state = super().initial_state(batch_shape)
        if not self.refractory:
            return state._replace(refractory=())
        return state._replace(refractory=jnp.zeros(state.v.shape, jnp.int32))

    def prepare(self, parameters: Any, like: Any) -> Prepared:
        """Return what all steps use, by name; a subclass adds its own.

        See `Neuron.prepare`.
        """
        prepared = {"threshold": broadcast(parameters.threshold, like)}
        if not isinstance(parameters.v_reset, tuple):
            prepared["v_reset"] = broadcast(parameters.v_reset, like)
        if not isinstance(parameters.log_slope, tuple):
            prepared["slope"] = jnp.exp(broadcast(parameters.log_slope, like))
        return prepared

    @abc.abstractmethod
    def integrate(self, p: Prepared, state: Any, x: jax.Array) -> Any:
        """Return the state a step later, before the threshold is looked at."""

    def firing_threshold(self, p: Prepared, state: Any) -> jax.Array:
        """Return what the membrane of an integrated state has to exceed to fire."""
        del state
        return p["threshold"]

    def on_spike(self, p: Prepared, state: Any, spikes: jax.Array) -> Any:
        """Return the state after the spikes, apart from the membrane's reset."""
        del p, spikes
        return state

    def advance(
        self, prepared: Prepared, state: Any, x: jax.Array
    ) -> tuple[Any, jax.Array]:
        """See `Neuron.advance`."""
        dtype = prepared["threshold"].dtype
        state = type(state)(*(_widen(leaf, dtype) for leaf in state))
        after = self.integrate(prepared, state, x.astype(dtype))
        threshold = self.firing_threshold(prepared, after)
        spikes = self.fire(prepared, after.v, threshold)
        if isinstance(state.refractory, tuple):
            v = self.reset_membrane(prepared, after.v, threshold, spikes)
            after = after._replace(v=v)
        else:
            resting = state.refractory > 0
            spikes = jnp.where(resting, 0, spikes)
            v = self.reset_membrane(prepared, after.v, threshold, spikes)
            left = jnp.where(
                spikes > 0, self.refractory, jnp.maximum(state.refractory - 1, 0)
            )
            after = after._replace(
                v=jnp.where(resting, state.v, v), refractory=left.astype(jnp.int32)
            )
        return self.on_spike(prepared, after, spikes), spikes.astype(x.dtype)

    def fire(self, p: Prepared, v: jax.Array, threshold: jax.Array) -> jax.Array:
        """Return the spikes of membranes `v`, before any reset."""
        return self.surrogate(v - threshold, p.get("slope"))

    def reset_membrane(
        self,
        p: Prepared,
        v: jax.Array,
        threshold: jax.Array,
        spikes: jax.Array,
    ) -> jax.Array:
        """Return the membranes after the reset."""
        if self.reset == "none":
            return v
        if self.detach_reset:
            spikes = jax.lax.stop_gradient(spikes)
        if self.reset == "subtract":
            return v - threshold * spikes
        kept = v * (1 - spikes)
        return kept + p["v_reset"] * spikes if self.reset == "value" else kept


class LinearWithoutReset(SpikingNeuron):
    """Base of the neurons whose state obeys a linear recurrence unless they reset."""

    @abc.abstractmethod
    def form(self, parameters: Any, xs: jax.Array) -> LinearForm:
        """Return the recurrence for an input that has been checked and widened."""

    def linear_form(self, xs: jax.Array) -> LinearForm:
        """Return the state as a linear recurrence, for ``reset="none"``.

        Parameters
        ----------
        xs
            Input, ``[T, *batch, *features]``.

        Returns
        -------
        LinearForm
            The recurrence, at least float32.

        Raises
        ------
        ValueError
            If the neuron resets or rests after a spike: then it is not linear. Or if
            the shape of `xs` does not fit.
        TypeError
            If `xs` is not floating.
        """
        name = type(self).__name__
        if self.reset != "none":
            raise ValueError(
                f'{name} is linear only for `reset="none"`, got `reset={self.reset!r}`'
            )
        if self.refractory:
            raise ValueError(
                f"{name} is linear only without a refractory period, got "
                f"`refractory={self.refractory}`"
            )
        self.check_sequence(xs)
        dtype = state_dtype(xs, *jax.tree.leaves(self.parameters))
        return self.form(self.parameters, xs.astype(dtype))

    def emit(self, states: Any) -> jax.Array:
        """Return the spikes of a trajectory of the neuron without reset.

        Parameters
        ----------
        states
            The state after each step, leaves ``[T, *batch, *features]``.

        Returns
        -------
        jax.Array
            Spikes, ``[T, *batch, *features]``, in the dtype of the membrane.
        """
        prepared = self.prepare(self.parameters, states.v)
        return self.fire(prepared, states.v, self.firing_threshold(prepared, states))


def check_runaway(reset: Any) -> None:
    """Refuse ``reset="none"`` for a membrane that only the reset brings back."""
    if reset == "none":
        raise ValueError(
            "`reset` must be one of 'subtract', 'value', 'zero', got 'none': "
            "without a reset this membrane runs away"
        )


def over_substeps(
    increment: Callable[[jax.Array], jax.Array],
    v: jax.Array,
    threshold: jax.Array,
    n: int,
) -> jax.Array:
    """Take `n` Euler steps of ``increment(v) / n``; stop where the threshold is passed.

    A drift that explodes must not even be evaluated above the threshold, or the
    gradient is not a number.
    """
    for _ in range(n):
        above = v > threshold
        drift = increment(jnp.minimum(v, threshold)) / n
        v = jnp.where(above, v, v + drift)
    return v


def in_blocks(rows: list[list[jax.Array]]) -> jax.Array:
    """Put the entries of a 2x2 matrix, scalars or arrays, into the last two axes."""
    shape = jnp.broadcast_shapes(*(entry.shape for row in rows for entry in row))
    flat = [jnp.broadcast_to(entry, shape) for row in rows for entry in row]
    return jnp.stack(flat, axis=-1).reshape(*shape, 2, 2)


def _widen(leaf, dtype):
    if isinstance(leaf, tuple) or not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return leaf.astype(dtype)
