"""Leaky integrate-and-fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .._surrogate import ATan, Surrogate
from .base import (
    Neuron,
    along_time,
    broadcast,
    check_surrogate,
    decay_and_gain,
    state_dtype,
)

Reset = Literal["subtract", "value", "zero", "none"]
InputGain = Literal["leak", "unit"]


class LIFState(NamedTuple):
    """State of `LIF`.

    Parameters
    ----------
    v
        Membrane potential after the reset, ``[*batch, *features]``.
    refractory
        Steps for which the neuron still rests, int32, ``[*batch, *features]``; `()`
        for a neuron without a refractory period.
    """

    v: jax.Array
    refractory: jax.Array | tuple[()] = ()


class LIFParameters(NamedTuple):
    """Parameters of `LIF` as stored; each a scalar or of the shape of the features.

    Parameters
    ----------
    log_tau
        Natural logarithm of the membrane time constant in milliseconds.
    threshold
        Spike threshold.
    v_reset
        Where a spike puts the membrane; `()` unless ``reset="value"``.
    log_slope
        Natural logarithm of the surrogate's slope; `()` unless it is trained.
    """

    log_tau: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class LIF(Neuron):
    r"""Leaky integrate-and-fire neurons.

    $$u_t = \alpha v_{t-1} + g x_t, \qquad s_t = H(u_t - \theta), \qquad
    \alpha = e^{-dt/\tau}$$

    and then the reset $v_t = u_t - \theta s_t$ (``"subtract"``),
    $v_t = (1 - s_t) u_t + s_t v_\mathrm{reset}$ (``"value"``; ``"zero"`` is the same
    at 0) or $v_t = u_t$ (``"none"``). Exact for an input that is constant over a step.
    The comparison is strict: a membrane exactly at the threshold does not fire. The
    spike belongs to the step that crossed, and so does the reset.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
        Kept as its logarithm.
    threshold
        Spike threshold $\theta$, in units of the membrane; a scalar or one a neuron.
    reset
        ``"subtract"``, ``"value"``, ``"zero"`` or ``"none"``.
    v_reset
        Potential after a spike for ``reset="value"``; a scalar or one a neuron.
    input_gain
        ``"leak"`` for $g = 1 - \alpha$, so that a constant input $x$ leads to $v = x$
        whatever `tau`; ``"unit"`` for $g = 1$.
    detach_reset
        Whether the reset counts as a constant in the gradient.
    refractory
        Whole steps for which a neuron rests after a spike: the membrane keeps its
        value, input is ignored, nothing fires.
    surrogate
        The derivative of the spike.
    dt
        Length of a step in milliseconds, positive.
    trainable
        Names of what is learned, of ``"tau"``, ``"threshold"``, ``"v_reset"`` and
        ``"slope"`` (of the surrogate). Those are `flax.nnx.Param`, the others
        `Frozen`.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError
        If an argument is out of range, or `v_reset` is given for another reset.
        Values that are traced are not looked at.
    TypeError
        If `surrogate` is not a `Surrogate`.

    References
    ----------
    Gerstner et al., *Neuronal Dynamics* (2014), section 1.3. Gradients by surrogates:
    Neftci, Mostafa and Zenke, IEEE Signal Processing Magazine 36 (2019).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> state, spikes = unroll(LIF(1, input_gain="unit"), jnp.full((8, 1), 0.3))
    >>> spikes[:, 0].astype(int).tolist()
    [0, 0, 0, 1, 0, 0, 0, 1]
    """

    State = LIFState
    Parameters = LIFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        threshold: Any = 1.0,
        reset: Reset = "subtract",
        v_reset: Any = None,
        input_gain: InputGain = "leak",
        detach_reset: bool = False,
        refractory: int = 0,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        _check.one_of("reset", reset, ("subtract", "value", "zero", "none"))
        _check.one_of("input_gain", input_gain, ("leak", "unit"))
        _check.one_of("detach_reset", detach_reset, (False, True))
        if v_reset is not None and reset != "value":
            raise ValueError(f'`v_reset` needs `reset="value"`, got `reset={reset!r}`')
        self.reset = reset
        self.input_gain = input_gain
        self.detach_reset = detach_reset
        self.refractory = _check.whole("refractory", refractory, least=0)
        self.surrogate = check_surrogate(surrogate)
        positive = {"tau": tau}
        if "slope" in trainable:
            positive["slope"] = surrogate.slope
        free = {"threshold": threshold}
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

    def initial_state(self, batch_shape: Sequence[int] = ()) -> LIFState:
        """Return the state before the first step: at rest, potential zero.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        LIFState
            Leaves of shape ``[*batch_shape, *features]``.
        """
        v = super().initial_state(batch_shape).v
        return LIFState(v, jnp.zeros(v.shape, jnp.int32) if self.refractory else ())

    def step(
        self, parameters: LIFParameters, state: LIFState, x: jax.Array
    ) -> tuple[LIFState, jax.Array]:
        """Advance by one step; see `Neuron.step`."""
        v = state.v.astype(state_dtype(state.v, x))
        decay, gain = self._coefficients(parameters, v)
        u = decay * v + gain * x.astype(v.dtype)
        if isinstance(state.refractory, tuple):
            spikes = self._fire(parameters, u)
            return LIFState(self._reset(parameters, u, spikes)), spikes.astype(x.dtype)
        resting = state.refractory > 0
        u = jnp.where(resting, v, u)
        spikes = jnp.where(resting, 0, self._fire(parameters, u))
        after = jnp.where(resting, v, self._reset(parameters, u, spikes))
        left = jnp.where(
            spikes > 0, self.refractory, jnp.maximum(state.refractory - 1, 0)
        )
        return LIFState(after, left.astype(jnp.int32)), spikes.astype(x.dtype)

    def linear_form(self, xs: jax.Array) -> LinearForm:
        r"""Return the membrane as a linear recurrence, for ``reset="none"``.

        Parameters
        ----------
        xs
            Input, ``[T, *batch, *features]``.

        Returns
        -------
        LinearForm
            $a = \alpha$ and $b_t = g x_t$, at least float32.

        Raises
        ------
        ValueError
            If the neuron resets or rests after a spike: then it is not linear.
        """
        if self.reset != "none":
            raise ValueError(
                f'LIF is linear only for `reset="none"`, got `reset={self.reset!r}`'
            )
        if self.refractory:
            raise ValueError(
                f"LIF is linear only without a refractory period, got "
                f"`refractory={self.refractory}`"
            )
        self.check_sequence(xs)
        xs = xs.astype(state_dtype(xs, *jax.tree.leaves(self.parameters)))
        one_step = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
        decay, gain = self._coefficients(self.parameters, one_step)
        return LinearForm(decay, along_time(gain) * xs)

    def emit(self, states: LIFState) -> jax.Array:
        """Return the spikes of a trajectory of the reset-free neuron.

        Parameters
        ----------
        states
            The state after each step, ``[T, *batch, *features]``.

        Returns
        -------
        jax.Array
            Spikes, ``[T, *batch, *features]``, in the dtype of the membrane.
        """
        return self._fire(self.parameters, states.v)

    def _fire(self, parameters, u):
        slope = None
        if not isinstance(parameters.log_slope, tuple):
            slope = jnp.exp(broadcast(parameters.log_slope, u))
        return self.surrogate(u - broadcast(parameters.threshold, u), slope)

    def _reset(self, parameters, u, spikes):
        if self.reset == "none":
            return u
        if self.detach_reset:
            spikes = jax.lax.stop_gradient(spikes)
        if self.reset == "subtract":
            return u - broadcast(parameters.threshold, u) * spikes
        kept = u * (1 - spikes)
        if self.reset == "zero":
            return kept
        return kept + broadcast(parameters.v_reset, u) * spikes

    def _coefficients(self, parameters, like):
        return decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
