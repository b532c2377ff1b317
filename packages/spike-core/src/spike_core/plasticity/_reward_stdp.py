"""Spike-timing-dependent plasticity that waits for a reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ._stdp import check_settings, check_spikes, decayed, pairs, risen, start


class RewardSTDPState(NamedTuple):
    """State of `RewardSTDP`.

    Parameters
    ----------
    weights
        Presynaptic by postsynaptic neurons, ``[n_pre, n_post]``.
    pre
        Trace of the presynaptic spikes, ``[*batch, n_pre]``.
    post
        Trace of the postsynaptic spikes, ``[*batch, n_post]``.
    eligibility
        Trace $c$ of each synapse, ``[*batch, n_pre, n_post]``.
    dopamine
        Concentration $d$, ``[*batch]``.
    """

    weights: jax.Array
    pre: jax.Array
    post: jax.Array
    eligibility: jax.Array
    dopamine: jax.Array


@dataclass(frozen=True)
class RewardSTDP:
    r"""Change weights by spike timing when a reward comes, even if it comes late.

    A pair of spikes leaves a trace in its synapse, the eligibility $c$. A reward raises
    the dopamine $d$. The weight changes while both are there:

    $$\frac{dc}{dt} = -\frac{c}{\tau_c} + \text{STDP}, \qquad
    \frac{dd}{dt} = -\frac{d}{\tau_d} + \text{reward}, \qquad
    \frac{dw}{dt} = c\, d.$$

    The pairs are those of `STDP` with $\mu = 0$. The integration between steps is
    exact, so that the result does not depend on `dt`. Weights are clipped to their
    bounds.

    Parameters
    ----------
    a_plus, a_minus
        Rise and fall of the eligibility by a pair without delay, at least 0.
    tau_plus, tau_minus
        Time constants of the window in milliseconds, positive.
    tau_eligibility
        Time constant $\tau_c$ in milliseconds, positive: how long a reward may take.
    tau_dopamine
        Time constant $\tau_d$ in milliseconds, positive.
    w_min, w_max
        Bounds of the weights.
    dt
        Length of a step in milliseconds, positive.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Izhikevich, *Solving the distal reward problem through linkage of STDP and dopamine
    signaling* (2007), the equations of $c$, $s$ and $d$ and their time constants. Time
    is in milliseconds here, in seconds there: $c\,d$ is a change a millisecond.

    Examples
    --------
    A reward that comes half a second after a pair of spikes:

    >>> import jax, jax.numpy as jnp
    >>> from spike_core.plasticity import RewardSTDP
    >>> rule = RewardSTDP()
    >>> pre = jnp.zeros((2000, 1)).at[0].set(1)
    >>> post = jnp.zeros((2000, 1)).at[10].set(1)
    >>> reward = jnp.zeros(2000).at[500].set(0.1)
    >>> def step(state, inputs):
    ...     return rule.step(state, *inputs), state.weights[0, 0]
    >>> start = rule.initial_state(jnp.full((1, 1), 0.5))
    >>> state, weight = jax.lax.scan(step, start, (pre, post, reward))
    >>> [round(float(weight[t]), 3) for t in (0, 500, 700, 1999)]
    [0.5, 0.5, 0.543, 0.562]
    """

    a_plus: float = 0.01
    a_minus: float = 0.01
    tau_plus: float = 20.0
    tau_minus: float = 20.0
    tau_eligibility: float = 1000.0
    tau_dopamine: float = 200.0
    w_min: float = 0.0
    w_max: float = 1.0
    dt: float = 1.0

    def __post_init__(self):
        check_settings(self, positive=("tau_eligibility", "tau_dopamine"))

    def initial_state(
        self, weights: jax.Array, batch_shape: Sequence[int] = ()
    ) -> RewardSTDPState:
        """Return the state before the first spike; see `STDP.initial_state`."""
        weights, pre, post = start(weights, batch_shape)
        return RewardSTDPState(
            weights,
            pre,
            post,
            eligibility=jnp.zeros((*batch_shape, *weights.shape), weights.dtype),
            dopamine=jnp.zeros(batch_shape, weights.dtype),
        )

    def step(
        self,
        state: RewardSTDPState,
        pre: jax.Array,
        post: jax.Array,
        reward: jax.Array | float,
    ) -> RewardSTDPState:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        pre, post
            Spikes of this step, zeros and ones, ``[*batch, n_pre]`` and
            ``[*batch, n_post]``. Over a batch, changes of the weights are averaged.
        reward
            Rise of the dopamine in this step, a number or one a sample, ``[*batch]``;
            negative for less than what was expected.

        Returns
        -------
        RewardSTDPState
            The new weights and traces.

        Raises
        ------
        ValueError
            If spikes or rewards do not have the shape of their traces.
        """
        check_spikes(state, pre, post)
        if jnp.shape(reward) not in ((), state.dopamine.shape):
            raise ValueError(
                "`reward` must be a number or one a sample, of shape "
                f"{state.dopamine.shape}, got {jnp.shape(reward)}"
            )
        # The product of two decays is a decay: its integral over the step is exact.
        rate = 1 / self.tau_eligibility + 1 / self.tau_dopamine
        product = state.eligibility * state.dopamine[..., None, None]
        change = product.mean(tuple(range(product.ndim - 2))) * (
            -math.expm1(-self.dt * rate) / rate
        )
        traces = decayed(self, state)
        up, down = pairs(traces, pre, post)
        eligibility = state.eligibility * math.exp(-self.dt / self.tau_eligibility)
        dopamine = state.dopamine * math.exp(-self.dt / self.tau_dopamine)
        return RewardSTDPState(
            jnp.clip(state.weights + change, self.w_min, self.w_max),
            *risen(traces, pre, post),
            eligibility=eligibility + self.a_plus * up - self.a_minus * down,
            dopamine=dopamine + jnp.asarray(reward, dopamine.dtype),
        )
