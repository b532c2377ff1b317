"""Resonate-and-fire."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .._surrogate import ATan, Surrogate
from .base import InputGain, Prepared, along_time, broadcast, decay_and_gain
from .spiking import LinearWithoutReset, Reset, in_blocks


class ResonateAndFireState(NamedTuple):
    """State of `ResonateAndFire`.

    Parameters
    ----------
    v
        Imaginary part of $z$, like a potential, ``[*batch, *features]``.
    u
        Real part of $z$, like a current, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    u: jax.Array
    refractory: jax.Array | tuple[()] = ()


class ResonateAndFireParameters(NamedTuple):
    """Parameters of `ResonateAndFire` as stored.

    Parameters
    ----------
    log_tau
        Natural logarithm of the time constant of the damping in milliseconds.
    log_frequency
        Natural logarithm of the frequency in hertz.
    threshold, v_reset, log_slope
        As in `LIFParameters`.
    """

    log_tau: jax.Array
    log_frequency: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class ResonateAndFire(LinearWithoutReset):
    r"""Resonate-and-fire neurons: damped oscillators, which prefer a frequency.

    $$z_t = e^{(-1/\tau + i \omega)\, dt} z_{t-1} + g x_t, \qquad
    s_t = H(\mathrm{Im}\, z_t - \theta), \qquad \omega = 2 \pi f$$

    Exact between inputs. The reset of `LIF` acts on the imaginary part; ``"value"`` and
    ``"zero"`` also set the real part to zero.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    tau
        Time constant of the damping in milliseconds, positive; a scalar or one a
        neuron.
    frequency
        Frequency $f$ in hertz, positive; below ``500 / dt``, or it is not seen.
    input_gain
        ``"leak"`` for $g = 1 - e^{-dt/\tau}$, ``"unit"`` for $g = 1$.
    threshold, reset, v_reset, detach_reset, refractory, surrogate, dt
        As for `LIF`.
    trainable
        Names of what is learned, of ``"tau"``, ``"frequency"``, ``"threshold"``,
        ``"v_reset"``, ``"slope"``.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Izhikevich, "Resonate-and-fire neurons", Neural Networks 14 (2001), eq. 2; there a
    spike sets $z$ to $i$.

    Examples
    --------
    Pulses at the neuron's own 50 Hz make it fire, those at half a period do not.

    >>> import jax.numpy as jnp
    >>> from spike_core import ResonateAndFire, unroll
    >>> neuron = ResonateAndFire(1, frequency=50.0, input_gain="unit")
    >>> on = jnp.where(jnp.arange(100)[None] % jnp.array([[20], [10]]) == 0, 0.6, 0.0)
    >>> [int(unroll(neuron, xs[:, None])[1].sum()) > 0 for xs in on]
    [True, False]
    """

    State = ResonateAndFireState
    Parameters = ResonateAndFireParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 40.0,
        frequency: Any = 20.0,
        threshold: Any = 1.0,
        reset: Reset = "zero",
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
            positive={"tau": tau, "frequency": frequency},
            free={},
        )

    def prepare(self, parameters: ResonateAndFireParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        names = ("cos", "sin", "gain")
        own = dict(zip(names, self._coefficients(parameters, like), strict=True))
        return {**super().prepare(parameters, like), **own}

    def integrate(
        self, p: Prepared, state: ResonateAndFireState, x: jax.Array
    ) -> ResonateAndFireState:
        """See `SpikingNeuron.integrate`."""
        return state._replace(
            v=p["cos"] * state.v + p["sin"] * state.u,
            u=p["cos"] * state.u - p["sin"] * state.v + p["gain"] * x,
        )

    def on_spike(
        self, p: Prepared, state: ResonateAndFireState, spikes: jax.Array
    ) -> ResonateAndFireState:
        """See `SpikingNeuron.on_spike`."""
        del p
        if self.reset not in ("value", "zero"):
            return state
        if self.detach_reset:
            spikes = jax.lax.stop_gradient(spikes)
        return state._replace(u=state.u * (1 - spikes))

    def form(self, parameters: ResonateAndFireParameters, xs: jax.Array) -> LinearForm:
        """See `LinearWithoutReset.form`."""
        like = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
        cos, sin, gain = self._coefficients(parameters, like)
        u = along_time(gain) * xs
        return LinearForm(
            in_blocks([[cos, sin], [-sin, cos]]),
            jnp.stack([jnp.zeros_like(u), u], axis=-1),
        )

    def _coefficients(self, parameters, like):
        decay, gain = decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
        # hertz to radians in a step of dt milliseconds
        angle = (
            2e-3 * jnp.pi * self.dt * jnp.exp(broadcast(parameters.log_frequency, like))
        )
        return decay * jnp.cos(angle), decay * jnp.sin(angle), gain
