"""Adaptive exponential integrate-and-fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._surrogate import ATan, Surrogate
from .base import Prepared, broadcast
from .spiking import Reset, SpikingNeuron, check_runaway, over_substeps


class AdExState(NamedTuple):
    """State of `AdEx`.

    Parameters
    ----------
    v
        Membrane potential after the reset in millivolts, ``[*batch, *features]``.
    w
        Adaptation current in picoamperes, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    w: jax.Array
    refractory: jax.Array | tuple[()] = ()


class AdExParameters(NamedTuple):
    """Parameters of `AdEx` as stored; those called log_ as natural logarithms."""

    log_capacitance: jax.Array
    log_conductance: jax.Array
    log_sharpness: jax.Array
    log_tau_adaptation: jax.Array
    v_rest: jax.Array
    v_rheobase: jax.Array
    a: jax.Array
    b: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class AdEx(SpikingNeuron):
    r"""Adaptive exponential integrate-and-fire neurons, in physical units.

    $$C \dot v = -g_L (v - E_L) + g_L \Delta_T e^{(v - V_T)/\Delta_T} - w + x, \qquad
    \tau_w \dot w = a (v - E_L) - w$$

    by forward Euler; a spike sets $v$ to `v_reset` and adds $b$ to $w$. A membrane
    above the threshold waits for the end of the step: the exponential is not followed
    to infinity.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    capacitance
        $C$ in picofarads, positive; a scalar or one a neuron, as all parameters.
    conductance
        $g_L$ in nanosiemens, positive.
    v_rest
        $E_L$ in millivolts, the potential at the start.
    v_rheobase
        $V_T$ in millivolts, where the exponential takes over.
    sharpness
        $\Delta_T$ in millivolts, positive.
    tau_adaptation
        $\tau_w$ in milliseconds, positive.
    a
        Adaptation below the threshold in nanosiemens.
    b
        Adaptation by a spike in picoamperes.
    threshold
        Where the spike is called one, in millivolts; by default $V_T + 5 \Delta_T$ of
        the default values.
    v_reset
        In millivolts; by default -70.6 for ``reset="value"``.
    substeps
        Euler steps in one step `dt`.
    reset, detach_reset, refractory, dt, param_dtype
        As for `LIF`; the reset cannot be ``"none"``, with which the membrane would run
        away.
    surrogate
        The derivative of the spike by the membrane in millivolts.
    trainable
        Names of what is learned, any of the parameters above or ``"slope"``.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Brette and Gerstner, Journal of Neurophysiology 94 (2005), eq. 2 and 3; the defaults
    are those of its table 1.

    Examples
    --------
    The intervals between spikes grow: the neuron adapts.

    >>> import jax.numpy as jnp
    >>> from spike_core import AdEx, unroll
    >>> _, spikes = unroll(AdEx(1, dt=0.1), jnp.full((4000, 1), 1000.0))
    >>> intervals = jnp.diff(jnp.flatnonzero(spikes[:, 0]))
    >>> bool(intervals[0] < intervals[-1])
    True
    """

    State = AdExState
    Parameters = AdExParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        capacitance: Any = 281.0,
        conductance: Any = 30.0,
        v_rest: Any = -70.6,
        v_rheobase: Any = -50.4,
        sharpness: Any = 2.0,
        tau_adaptation: Any = 144.0,
        a: Any = 4.0,
        b: Any = 80.5,
        threshold: Any = -40.4,
        reset: Reset = "value",
        v_reset: Any = None,
        substeps: int = 1,
        detach_reset: bool = False,
        refractory: int = 0,
        surrogate: Surrogate = ATan(0.2),  # noqa: B008 -- immutable
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        check_runaway(reset)
        self.substeps = _check.whole("substeps", substeps, least=1)
        super().__init__(
            features,
            threshold=threshold,
            reset=reset,
            v_reset=-70.6 if v_reset is None and reset == "value" else v_reset,
            detach_reset=detach_reset,
            refractory=refractory,
            surrogate=surrogate,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive={
                "capacitance": capacitance,
                "conductance": conductance,
                "sharpness": sharpness,
                "tau_adaptation": tau_adaptation,
            },
            free={"v_rest": v_rest, "v_rheobase": v_rheobase, "a": a, "b": b},
        )

    def initial_state(self, batch_shape: Sequence[int] = ()) -> AdExState:
        """Return the state at rest; see `SpikingNeuron.initial_state`."""
        state = super().initial_state(batch_shape)
        v_rest = broadcast(self.parameters.v_rest, state.v)
        return state._replace(v=jnp.broadcast_to(v_rest, state.v.shape))

    def prepare(self, parameters: AdExParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        free = ("v_rest", "v_rheobase", "a", "b")
        return {
            **super().prepare(parameters, like),
            **{name: broadcast(getattr(parameters, name), like) for name in free},
            "conductance": jnp.exp(broadcast(parameters.log_conductance, like)),
            "width": jnp.exp(broadcast(parameters.log_sharpness, like)),
            "by_capacitance": self.dt
            * jnp.exp(-broadcast(parameters.log_capacitance, like)),
            "rate": self.dt * jnp.exp(-broadcast(parameters.log_tau_adaptation, like)),
        }

    def integrate(self, p: Prepared, state: AdExState, x: jax.Array) -> AdExState:
        """See `SpikingNeuron.integrate`."""

        def increment(v):
            upswing = p["width"] * jnp.exp((v - p["v_rheobase"]) / p["width"])
            leak = p["conductance"] * (upswing - (v - p["v_rest"]))
            return p["by_capacitance"] * (leak - state.w + x)

        v = over_substeps(increment, state.v, p["threshold"], self.substeps)
        drive = p["a"] * (state.v - p["v_rest"])
        return state._replace(v=v, w=state.w + p["rate"] * (drive - state.w))

    def on_spike(self, p: Prepared, state: AdExState, spikes: jax.Array) -> AdExState:
        """See `SpikingNeuron.on_spike`."""
        return state._replace(w=state.w + p["b"] * spikes)
