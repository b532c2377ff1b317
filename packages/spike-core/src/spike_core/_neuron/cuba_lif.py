"""Current-based leaky integrate-and-fire: a synapse before the membrane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, along_time, decay_and_gain
from .spiking import LinearWithoutReset, Reset, in_blocks


class CubaLIFState(NamedTuple):
    """State of `CubaLIF`.

    Parameters
    ----------
    v
        Membrane potential after the reset, ``[*batch, *features]``.
    i
        Synaptic current, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    i: jax.Array
    refractory: jax.Array | tuple[()] = ()


class CubaLIFParameters(NamedTuple):
    """Parameters of `CubaLIF` as stored.

    Parameters
    ----------
    log_tau, log_tau_synapse
        Natural logarithms of the time constants in milliseconds.
    threshold, v_reset, log_slope
        As in `LIFParameters`.
    """

    log_tau: jax.Array
    log_tau_synapse: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class CubaLIF(LinearWithoutReset):
    r"""Current-based leaky integrate-and-fire neurons ("synaptic").

    The input is filtered by an exponential synapse before it reaches the membrane:

    $$i_t = \alpha_s i_{t-1} + g_s x_t, \qquad u_t = \alpha v_{t-1} + g i_t, \qquad
    s_t = H(u_t - \theta)$$

    with $\alpha_s = e^{-dt/\tau_s}$ and the reset of `LIF`, which leaves the current
    alone.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Membrane time constant in milliseconds, positive; a scalar or one a neuron.
    tau_synapse
        Time constant $\tau_s$ of the synapse in milliseconds, positive.
    input_gain
        ``"leak"`` for $g = 1 - \alpha$ and $g_s = 1 - \alpha_s$, so that a constant
        input $x$ leads to $v = x$; ``"unit"`` for $g = g_s = 1$.
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
    Neftci, Mostafa and Zenke, IEEE Signal Processing Magazine 36 (2019), eq. 2 to 5.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import CubaLIF, unroll
    >>> neuron = CubaLIF(1, input_gain="unit")
    >>> state, spikes = unroll(neuron, jnp.full((6, 1), 0.3))
    >>> spikes[:, 0].astype(int).tolist()
    [0, 0, 1, 1, 1, 1]
    """

    State = CubaLIFState
    Parameters = CubaLIFParameters

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

    def prepare(self, parameters: CubaLIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        names = ("decay", "gain", "decay_s", "gain_s")
        own = dict(zip(names, self._coefficients(parameters, like), strict=True))
        return {**super().prepare(parameters, like), **own}

    def integrate(self, p: Prepared, state: CubaLIFState, x: jax.Array) -> CubaLIFState:
        """See `SpikingNeuron.integrate`."""
        i = p["decay_s"] * state.i + p["gain_s"] * x
        return state._replace(v=p["decay"] * state.v + p["gain"] * i, i=i)

    def form(self, parameters: CubaLIFParameters, xs: jax.Array) -> LinearForm:
        """See `LinearWithoutReset.form`."""
        like = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
        decay, gain, decay_s, gain_s = self._coefficients(parameters, like)
        a = in_blocks([[decay, gain * decay_s], [jnp.zeros_like(decay), decay_s]])
        i = along_time(gain_s) * xs
        return LinearForm(a, jnp.stack([along_time(gain) * i, i], axis=-1))

    def _coefficients(self, parameters, like):
        membrane, synapse = (
            decay_and_gain(log_tau, like, dt=self.dt, input_gain=self.input_gain)
            for log_tau in (parameters.log_tau, parameters.log_tau_synapse)
        )
        return *membrane, *synapse
