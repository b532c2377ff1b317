"""The simple model of Izhikevich."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._surrogate import ATan, Surrogate
from .base import Prepared, broadcast
from .spiking import Reset, SpikingNeuron, check_runaway, over_substeps

#: The published firing patterns, as arguments of `Izhikevich`.
IZHIKEVICH_PRESETS: dict[str, dict[str, float]] = {
    "regular spiking": {"a": 0.02, "b": 0.2, "v_reset": -65.0, "d": 8.0},
    "intrinsically bursting": {"a": 0.02, "b": 0.2, "v_reset": -55.0, "d": 4.0},
    "chattering": {"a": 0.02, "b": 0.2, "v_reset": -50.0, "d": 2.0},
    "fast spiking": {"a": 0.1, "b": 0.2, "v_reset": -65.0, "d": 2.0},
    "thalamo-cortical": {"a": 0.02, "b": 0.25, "v_reset": -65.0, "d": 0.05},
    "resonator": {"a": 0.1, "b": 0.26, "v_reset": -65.0, "d": 2.0},
    "low-threshold spiking": {"a": 0.02, "b": 0.25, "v_reset": -65.0, "d": 2.0},
}


class IzhikevichState(NamedTuple):
    """State of `Izhikevich`.

    Parameters
    ----------
    v
        Membrane potential after the reset in millivolts, ``[*batch, *features]``.
    u
        Recovery, ``[*batch, *features]``.
    refractory
        As in `LIFState`.
    """

    v: jax.Array
    u: jax.Array
    refractory: jax.Array | tuple[()] = ()


class IzhikevichParameters(NamedTuple):
    """Parameters of `Izhikevich` as stored; `log_a` is the natural logarithm of `a`."""

    log_a: jax.Array
    b: jax.Array
    d: jax.Array
    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class Izhikevich(SpikingNeuron):
    r"""Neurons of Izhikevich's simple model, in its own units.

    $$\dot v = 0.04 v^2 + 5 v + 140 - u + x, \qquad \dot u = a (b v - u)$$

    by forward Euler, $v$ in `substeps` steps and then $u$; a spike sets $v$ to
    `v_reset` (the paper's $c$) and adds $d$ to $u$. A membrane above the threshold
    waits for the end of the step, and drives $u$ as one at the threshold.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    a
        Rate of the recovery per millisecond, positive; a scalar or one a neuron.
    b
        Sensitivity of the recovery to the membrane.
    d
        Recovery by a spike.
    threshold
        Peak of the spike in millivolts.
    v_reset
        In millivolts; by default -65 for ``reset="value"``.
    substeps
        Euler steps of the membrane in one step `dt`; the paper takes two.
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
    Izhikevich, "Simple model of spiking neurons", IEEE Transactions on Neural Networks
    14 (2003), eq. 1 to 3; `IZHIKEVICH_PRESETS` has the values of its figure 2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import IZHIKEVICH_PRESETS, Izhikevich, unroll
    >>> rates = {}
    >>> for name in ("regular spiking", "fast spiking"):
    ...     neuron = Izhikevich(1, **IZHIKEVICH_PRESETS[name])
    ...     rates[name] = int(unroll(neuron, jnp.full((500, 1), 10.0))[1].sum())
    >>> rates["regular spiking"] < rates["fast spiking"]
    True
    """

    State = IzhikevichState
    Parameters = IzhikevichParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        a: Any = 0.02,
        b: Any = 0.2,
        d: Any = 8.0,
        threshold: Any = 30.0,
        reset: Reset = "value",
        v_reset: Any = None,
        substeps: int = 2,
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
            v_reset=-65.0 if v_reset is None and reset == "value" else v_reset,
            detach_reset=detach_reset,
            refractory=refractory,
            surrogate=surrogate,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive={"a": a},
            free={"b": b, "d": d},
        )

    def initial_state(self, batch_shape: Sequence[int] = ()) -> IzhikevichState:
        r"""Return the state at $v = -65$, $u = b v$, where the paper starts.

        See `SpikingNeuron.initial_state`.
        """
        state = super().initial_state(batch_shape)
        v = jnp.full_like(state.v, -65.0)
        return state._replace(v=v, u=broadcast(self.parameters.b, v) * v)

    def prepare(self, parameters: IzhikevichParameters, like: Any) -> Prepared:
        """See `SpikingNeuron.prepare`."""
        return {
            **super().prepare(parameters, like),
            "rate": self.dt * jnp.exp(broadcast(parameters.log_a, like)),
            "b": broadcast(parameters.b, like),
            "d": broadcast(parameters.d, like),
        }

    def integrate(
        self, p: Prepared, state: IzhikevichState, x: jax.Array
    ) -> IzhikevichState:
        """See `SpikingNeuron.integrate`."""

        def increment(v):
            return self.dt * (0.04 * v**2 + 5 * v + 140 - state.u + x)

        v = over_substeps(increment, state.v, p["threshold"], self.substeps)
        drive = p["b"] * jnp.minimum(v, p["threshold"])
        return state._replace(v=v, u=state.u + p["rate"] * (drive - state.u))

    def on_spike(
        self, p: Prepared, state: IzhikevichState, spikes: jax.Array
    ) -> IzhikevichState:
        """See `SpikingNeuron.on_spike`."""
        return state._replace(u=state.u + p["d"] * spikes)
