"""Leaky integrate-and-fire with an adaptive threshold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, broadcast, decay_and_gain
from .spiking import Reset, SpikingNeuron


class ALIFState(NamedTuple):
    """State of `ALIF`.

    Parameters
    ----------
    v
        Membrane potential after the reset, ``[*batch, *features]``.
    a
        Adaptation: decayed count of the neuron's spikes, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    a: jax.Array
    refractory: jax.Array | tuple[()] = ()


class ALIFParameters(NamedTuple):
    """Parameters of `ALIF` as stored.

    Parameters
    ----------
    log_tau, log_tau_adaptation
        Natural logarithms of the time constants in milliseconds.
    threshold
        Threshold of a neuron that has not fired.
    beta
        What a spike adds to the threshold.
    v_reset, log_slope
        As in `LIFParameters`.
    """

    log_tau: jax.Array
    log_tau_adaptation: jax.Array
    threshold: jax.Array
    beta: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class ALIF(SpikingNeuron):
    r"""Leaky integrate-and-fire neurons whose threshold rises with their own spikes.

    $$u_t = \alpha v_{t-1} + g x_t, \qquad A_t = \theta + \beta a_{t-1}, \qquad
    s_t = H(u_t - A_t), \qquad a_t = \rho a_{t-1} + s_t,$$

    with $\rho = e^{-dt/\tau_a}$ and the reset of `LIF`, where ``"subtract"`` takes off
    the threshold $A_t$ that was crossed.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
    tau_adaptation
        Time constant $\tau_a$ of the adaptation in milliseconds, positive.
    beta
        What a spike adds to the threshold, in units of the membrane.
    threshold, reset, v_reset, input_gain, detach_reset, refractory, surrogate, dt
        As for `LIF`. `detach_reset` leaves the gradient through the adaptation.
    trainable
        Names of what is learned, of ``"tau"``, ``"tau_adaptation"``, ``"beta"``,
        ``"threshold"``, ``"v_reset"``, ``"slope"``.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Bellec et al., "A solution to the learning dilemma for recurrent networks of spiking
    neurons", Nature Communications 11 (2020), eq. 8 to 10; there the reset takes off
    $\theta$.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import ALIF, unroll
    >>> neuron = ALIF(1, input_gain="unit", beta=1.0)
    >>> state, spikes = unroll(neuron, jnp.full((18, 1), 0.5))
    >>> jnp.flatnonzero(spikes[:, 0]).tolist()
    [2, 6, 13]
    """

    State = ALIFState
    Parameters = ALIFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        tau_adaptation: Any = 200.0,
        beta: Any = 0.2,
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
        _check.one_of("input_gain", input_gain, ("leak", "unit"))
        self.input_gain = input_gain
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
            positive={"tau": tau, "tau_adaptation": tau_adaptation},
            free={"beta": beta},
        )

    def prepare(self, parameters: ALIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        decay, gain = decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
        rho, _ = decay_and_gain(
            parameters.log_tau_adaptation, like, dt=self.dt, input_gain="unit"
        )
        own = {"decay": decay, "gain": gain, "rho": rho}
        beta = broadcast(parameters.beta, like)
        return {**super().prepare(parameters, like), **own, "beta": beta}

    def integrate(self, p: Prepared, state: ALIFState, x: jax.Array) -> ALIFState:
        """See `SpikingNeuron.integrate`."""
        return state._replace(v=p["decay"] * state.v + p["gain"] * x)

    def firing_threshold(self, p: Prepared, state: ALIFState) -> jax.Array:
        """See `SpikingNeuron.firing_threshold`."""
        return p["threshold"] + p["beta"] * state.a

    def on_spike(self, p: Prepared, state: ALIFState, spikes: jax.Array) -> ALIFState:
        """See `SpikingNeuron.on_spike`."""
        return state._replace(a=p["rho"] * state.a + spikes)
