"""Integrate-and-fire with a voltage-dependent drift: exponential and quadratic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, broadcast
from .spiking import Reset, SpikingNeuron, check_runaway, over_substeps


class EIFState(NamedTuple):
    """State of `EIF`; see `LIFState`."""

    v: jax.Array
    refractory: jax.Array | tuple[()] = ()


class EIFParameters(NamedTuple):
    """Parameters of `EIF` as stored; those called log_ as natural logarithms."""

    log_tau: jax.Array
    log_sharpness: jax.Array
    v_rheobase: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class EIF(SpikingNeuron):
    r"""Exponential integrate-and-fire neurons.

    $$\tau \dot v = -v + \Delta_T \exp\frac{v - \vartheta_{rh}}{\Delta_T} + x$$

    by forward Euler, the input added at once; then the spike and the reset of `LIF`.
    The resting potential is near zero. A membrane above the threshold waits for the end
    of the step: the exponential is not followed to infinity.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
    sharpness
        Sharpness $\Delta_T$ of a spike's onset, positive, in units of the membrane.
    v_rheobase
        Potential $\vartheta_{rh}$ where the exponential takes over.
    threshold
        Where the spike is called one.
    input_gain
        Factor of the input in a step: ``"leak"`` for $dt/\tau$, ``"unit"`` for 1.
    substeps
        Euler steps in one step `dt`.
    reset, v_reset, detach_reset, refractory, surrogate, dt, param_dtype
        As for `LIF`; the reset is to a value, as published, and cannot be ``"none"``,
        with which the membrane would run away.
    trainable
        Names of what is learned, of ``"tau"``, ``"sharpness"``, ``"v_rheobase"``,
        ``"threshold"``, ``"v_reset"``, ``"slope"``.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Fourcaud-Trocmé et al., Journal of Neuroscience 23 (2003); Gerstner et al.,
    *Neuronal Dynamics* (2014), eq. 5.6.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import EIF, unroll
    >>> _, slow = unroll(EIF(1), jnp.full((200, 1), 0.9))
    >>> _, fast = unroll(EIF(1), jnp.full((200, 1), 1.8))
    >>> int(slow.sum()) < int(fast.sum())
    True
    """

    State = EIFState
    Parameters = EIFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        sharpness: Any = 0.1,
        v_rheobase: Any = 0.8,
        threshold: Any = 1.0,
        reset: Reset = "value",
        v_reset: Any = None,
        input_gain: InputGain = "leak",
        substeps: int = 1,
        detach_reset: bool = False,
        refractory: int = 0,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        _check.one_of("input_gain", input_gain, ("leak", "unit"))
        check_runaway(reset)
        self.input_gain = input_gain
        self.substeps = _check.whole("substeps", substeps, least=1)
        super().__init__(
            features,
            threshold=threshold,
            reset=reset,
            v_reset=v_reset,
            detach_reset=detach_reset,
            refractory=refractory,
            surrogate=surrogate,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive={"tau": tau, "sharpness": sharpness},
            free={"v_rheobase": v_rheobase},
        )

    def prepare(self, parameters: EIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        return {
            **super().prepare(parameters, like),
            "rate": self.dt * jnp.exp(-broadcast(parameters.log_tau, like)),
            "width": jnp.exp(broadcast(parameters.log_sharpness, like)),
            "onset": broadcast(parameters.v_rheobase, like),
        }

    def integrate(self, p: Prepared, state: EIFState, x: jax.Array) -> EIFState:
        """See `SpikingNeuron.integrate`."""
        push = p["rate"] * x if self.input_gain == "leak" else x

        def increment(v):
            upswing = p["width"] * jnp.exp((v - p["onset"]) / p["width"])
            return p["rate"] * (upswing - v) + push

        v = over_substeps(increment, state.v, p["threshold"], self.substeps)
        return state._replace(v=v)


class QIFState(NamedTuple):
    """State of `QIF`; see `LIFState`."""

    v: jax.Array
    refractory: jax.Array | tuple[()] = ()


class QIFParameters(NamedTuple):
    """Parameters of `QIF` as stored; those called log_ as natural logarithms."""

    log_tau: jax.Array
    log_curvature: jax.Array
    v_critical: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class QIF(SpikingNeuron):
    r"""Quadratic integrate-and-fire neurons.

    $$\tau \dot v = a_0 v (v - v_c) + x$$

    by forward Euler, the input added at once; then the spike and the reset of `LIF`.
    The resting potential is zero. A membrane above the threshold waits for the end of
    the step: the parabola is not followed to infinity.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
    curvature
        The factor $a_0$, positive.
    v_critical
        Potential $v_c$ from which the membrane rises by itself.
    threshold
        Where the spike is called one.
    input_gain, substeps
        As for `EIF`.
    reset, v_reset, detach_reset, refractory, surrogate, dt, param_dtype
        As for `LIF`; the reset is to a value, as published, and cannot be ``"none"``,
        with which the membrane would run away.
    trainable
        Names of what is learned, of ``"tau"``, ``"curvature"``, ``"v_critical"``,
        ``"threshold"``, ``"v_reset"``, ``"slope"``.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Latham et al., Journal of Neurophysiology 83 (2000); Gerstner et al., *Neuronal
    Dynamics* (2014), eq. 5.16.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import QIF, unroll
    >>> _, spikes = unroll(QIF(1), jnp.full((200, 1), 0.5))
    >>> int(spikes.sum()) > 0
    True
    """

    State = QIFState
    Parameters = QIFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        curvature: Any = 1.0,
        v_critical: Any = 0.8,
        threshold: Any = 1.0,
        reset: Reset = "value",
        v_reset: Any = None,
        input_gain: InputGain = "leak",
        substeps: int = 1,
        detach_reset: bool = False,
        refractory: int = 0,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        _check.one_of("input_gain", input_gain, ("leak", "unit"))
        check_runaway(reset)
        self.input_gain = input_gain
        self.substeps = _check.whole("substeps", substeps, least=1)
        super().__init__(
            features,
            threshold=threshold,
            reset=reset,
            v_reset=v_reset,
            detach_reset=detach_reset,
            refractory=refractory,
            surrogate=surrogate,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive={"tau": tau, "curvature": curvature},
            free={"v_critical": v_critical},
        )

    def prepare(self, parameters: QIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        return {
            **super().prepare(parameters, like),
            "rate": self.dt * jnp.exp(-broadcast(parameters.log_tau, like)),
            "curvature": jnp.exp(broadcast(parameters.log_curvature, like)),
            "critical": broadcast(parameters.v_critical, like),
        }

    def integrate(self, p: Prepared, state: QIFState, x: jax.Array) -> QIFState:
        """See `SpikingNeuron.integrate`."""
        push = p["rate"] * x if self.input_gain == "leak" else x

        def increment(v):
            return p["rate"] * p["curvature"] * v * (v - p["critical"]) + push

        v = over_substeps(increment, state.v, p["threshold"], self.substeps)
        return state._replace(v=v)
