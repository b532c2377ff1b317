"""Leaky integrate-and-fire behind synapses with an alpha function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, broadcast, decay_and_gain
from .spiking import Reset, SpikingNeuron


class AlphaLIFState(NamedTuple):
    """State of `AlphaLIF`.

    Parameters
    ----------
    v
        Membrane potential after the reset, ``[*batch, *features]``.
    i
        Synaptic current, ``[*batch, *features]``.
    r
        What the current still has to rise by, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    i: jax.Array
    r: jax.Array
    refractory: jax.Array | tuple[()] = ()


class AlphaLIFParameters(NamedTuple):
    """Parameters of `AlphaLIF` as stored; see `CubaLIFParameters`."""

    log_tau: jax.Array
    log_tau_synapse: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class AlphaLIF(SpikingNeuron):
    r"""Leaky integrate-and-fire neurons whose synapses rise before they decay.

    After one input spike the current follows the alpha function
    $\frac{t}{\tau_s} e^{1 - t/\tau_s}$, which peaks at $\tau_s$. Exactly, step by step:

    $$i_t = \alpha_s i_{t-1} + c\, r_{t-1}, \qquad r_t = \alpha_s r_{t-1} + x_t, \qquad
    u_t = \alpha v_{t-1} + g i_t, \qquad s_t = H(u_t - \theta)$$

    with $\alpha_s = e^{-dt/\tau_s}$ and the reset of `LIF`, which leaves the synapse
    alone. An input reaches the current one step later, as the function is zero at zero.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
    tau_synapse
        Time $\tau_s$ to the peak of the current in milliseconds, positive.
    input_gain
        ``"leak"`` for $g = 1 - \alpha$ and $c = (1 - \alpha_s)^2$, so that a constant
        input $x$ leads to $v = x$; ``"unit"`` for $g = 1$ and
        $c = e\, \alpha_s\, dt/\tau_s$, so that one spike of size 1 gives a current that
        peaks at 1.
    threshold, reset, v_reset, detach_reset, refractory, surrogate, dt
        As for `LIF`.
    trainable
        Names of what is learned, of ``"tau"``, ``"tau_synapse"``, ``"threshold"``,
        ``"v_reset"``, ``"slope"``.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Rall, Journal of Neurophysiology 30 (1967), eq. 1, for the alpha function;
    Rotter and Diesmann, Biological Cybernetics 81 (1999), section 3, for exact steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import AlphaLIF
    >>> neuron = AlphaLIF(1, tau_synapse=4.0, input_gain="unit", threshold=1e9)
    >>> state, currents = neuron.initial_state(), []
    >>> for x in [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]:
    ...     state, _ = neuron(state, jnp.full(1, x))
    ...     currents.append(round(float(state.i[0]), 3))
    >>> currents
    [0.0, 0.529, 0.824, 0.963, 1.0, 0.974, 0.91, 0.827]
    """

    State = AlphaLIFState
    Parameters = AlphaLIFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        tau_synapse: Any = 5.0,
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
            positive={"tau": tau, "tau_synapse": tau_synapse},
            free={},
        )

    def prepare(self, parameters: AlphaLIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        decay, gain = decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
        log_tau_s = parameters.log_tau_synapse
        decay_s, gain_s = decay_and_gain(log_tau_s, like, dt=self.dt, input_gain="leak")
        if self.input_gain == "leak":
            rise = gain_s**2
        else:
            rise = decay_s * self.dt * jnp.exp(1 - broadcast(log_tau_s, like))
        own = {"decay": decay, "gain": gain, "decay_s": decay_s, "rise": rise}
        return {**super().prepare(parameters, like), **own}

    def integrate(
        self, p: Prepared, state: AlphaLIFState, x: jax.Array
    ) -> AlphaLIFState:
        """See `SpikingNeuron.integrate`."""
        i = p["decay_s"] * state.i + p["rise"] * state.r
        v = p["decay"] * state.v + p["gain"] * i
        return state._replace(v=v, i=i, r=p["decay_s"] * state.r + x)
