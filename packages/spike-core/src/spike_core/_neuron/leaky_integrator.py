"""A leaky integrator, the usual readout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._linear_form import LinearForm
from .base import InputGain, Neuron, along_time, decay_and_gain, state_dtype


class LeakyIntegratorState(NamedTuple):
    """State of `LeakyIntegrator`.

    Parameters
    ----------
    v
        Potential, ``[*batch, *features]``.
    """

    v: jax.Array


class LeakyIntegratorParameters(NamedTuple):
    """Parameters of `LeakyIntegrator` as stored.

    Parameters
    ----------
    log_tau
        Natural logarithm of the time constant in milliseconds, a scalar or of the
        shape of the features.
    """

    log_tau: jax.Array


class LeakyIntegrator(Neuron):
    r"""Leaky integrators that never fire; the output is the potential.

    $$v_t = \alpha v_{t-1} + g x_t, \qquad \alpha = e^{-dt/\tau}$$

    Parameters
    ----------
    features
        Number of integrators, or the shape of the block of them.
    tau
        Time constant in milliseconds, positive; a scalar or one an integrator. Kept as
        its logarithm.
    input_gain
        ``"leak"`` for $g = 1 - \alpha$, ``"unit"`` for $g = 1$.
    dt
        Length of a step in milliseconds, positive.
    trainable
        ``("tau",)`` to learn the time constant.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError
        If an argument is out of range. Values that are traced are not looked at.

    References
    ----------
    Gerstner et al., *Neuronal Dynamics* (2014), eq. 1.5.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LeakyIntegrator, unroll
    >>> _, v = unroll(LeakyIntegrator(1, tau=1.4426950408889634), jnp.ones((3, 1)))
    >>> [round(float(x), 4) for x in v[:, 0]]
    [0.5, 0.75, 0.875]
    """

    State = LeakyIntegratorState
    Parameters = LeakyIntegratorParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        tau: Any = 20.0,
        input_gain: InputGain = "leak",
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        _check.one_of("input_gain", input_gain, ("leak", "unit"))
        self.input_gain = input_gain
        super().__init__(
            features,
            dt=dt,
            trainable=trainable,
            param_dtype=param_dtype,
            positive={"tau": tau},
            free={},
        )

    def prepare(self, parameters: LeakyIntegratorParameters, like: Any) -> Any:
        """See `Neuron.prepare`."""
        return self._coefficients(parameters, like)

    def advance(
        self, prepared: Any, state: LeakyIntegratorState, x: jax.Array
    ) -> tuple[LeakyIntegratorState, jax.Array]:
        """See `Neuron.advance`."""
        decay, gain = prepared
        v = decay * state.v.astype(decay.dtype) + gain * x.astype(decay.dtype)
        return LeakyIntegratorState(v), v.astype(x.dtype)

    def linear_form(self, xs: jax.Array) -> LinearForm:
        r"""Return the potential as a linear recurrence.

        Parameters
        ----------
        xs
            Input, ``[T, *batch, *features]``.

        Returns
        -------
        LinearForm
            $a = \alpha$ and $b_t = g x_t$, at least float32.
        """
        self.check_sequence(xs)
        xs = xs.astype(state_dtype(xs, *jax.tree.leaves(self.parameters)))
        one_step = jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype)
        decay, gain = self._coefficients(self.parameters, one_step)
        return LinearForm(decay, along_time(gain) * xs)

    def emit(self, states: LeakyIntegratorState) -> jax.Array:
        """Return the output of a trajectory: the potential itself.

        Parameters
        ----------
        states
            The state after each step, ``[T, *batch, *features]``.

        Returns
        -------
        jax.Array
            ``[T, *batch, *features]``.
        """
        return states.v

    def _coefficients(self, parameters, like):
        return decay_and_gain(
            parameters.log_tau, like, dt=self.dt, input_gain=self.input_gain
        )
