"""Leaky integrate-and-fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, along_time, decay_and_gain
from .spiking import LinearWithoutReset, Reset


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


class LIF(LinearWithoutReset):
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
            positive={"tau": tau},
            free={},
        )

    def prepare(self, parameters: LIFParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        decay, gain = self._coefficients(parameters, like)
        return {**super().prepare(parameters, like), "decay": decay, "gain": gain}

    def integrate(self, p: Prepared, state: LIFState, x: jax.Array) -> LIFState:
        """See `SpikingNeuron.integrate`."""
        return state._replace(v=p["decay"] * state.v + p["gain"] * x)

    def form(self, parameters: LIFParameters, xs: jax.Array) -> LinearForm:
        """See `LinearWithoutReset.form`."""
        like = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
        decay, gain = self._coefficients(parameters, like)
        return LinearForm(decay, along_time(gain) * xs)

    def _coefficients(self, parameters, like):
        return decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
