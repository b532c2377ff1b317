"""Spike-timing-dependent plasticity of pairs of spikes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .. import _check


class STDPState(NamedTuple):
    """State of `STDP`.

    Parameters
    ----------
    weights
        Presynaptic by postsynaptic neurons, ``[n_pre, n_post]``, as the kernel of
        `flax.nnx.Linear`.
    pre
        Trace of the presynaptic spikes, ``[*batch, n_pre]``.
    post
        Trace of the postsynaptic spikes, ``[*batch, n_post]``.
    """

    weights: jax.Array
    pre: jax.Array
    post: jax.Array


@dataclass(frozen=True)
class STDP:
    r"""Strengthen a synapse whose input fires before its output, weaken it otherwise.

    Every pair of a presynaptic spike and a postsynaptic spike that comes
    $\Delta = t_\text{post} - t_\text{pre}$ later changes the weight by

    $$\Delta w = A_+ f_+(w)\, e^{-\Delta / \tau_+} \;\; (\Delta > 0), \qquad
    \Delta w = -A_- f_-(w)\, e^{\Delta / \tau_-} \;\; (\Delta < 0),$$

    and not at all if both come in the same step. All pairs count. Two traces, which
    decay and rise by one with each spike, hold the sums over the past.

    The weight dependence is $f_+ = (1 - \hat w)^\mu$ and $f_- = \hat w^\mu$ for the
    weight $\hat w$ scaled to its bounds: $\mu = 0$ is the additive rule, $\mu = 1$ the
    multiplicative one. Weights are clipped to the bounds.

    A rule is only its numbers, and `step` is a pure function, to be used in
    `jax.lax.scan` and under `jit`.

    Parameters
    ----------
    a_plus, a_minus
        Change of the weight $A_+$, $A_-$ by a pair without delay, at least 0.
    tau_plus, tau_minus
        Time constants of the window in milliseconds, positive.
    w_min, w_max
        Bounds of the weights.
    mu
        Exponent $\mu$ of the weight dependence, at least 0.
    dt
        Length of a step in milliseconds, positive.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Morrison, Diesmann and Gerstner, *Phenomenological models of synaptic plasticity
    based on spike timing* (2008), section 4.1, all-to-all interaction; the weight
    dependence is that of Gütig et al., *Learning input correlations through nonlinear
    temporally asymmetric Hebbian plasticity* (2003).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core.plasticity import STDP
    >>> rule = STDP(a_plus=0.1, tau_plus=20.0)
    >>> state = rule.initial_state(jnp.full((1, 1), 0.5))
    >>> spike, silence = jnp.ones(1), jnp.zeros(1)
    >>> state = rule.step(state, spike, silence)
    >>> state = rule.step(state, silence, spike)  # one step later
    >>> round(float(state.weights[0, 0]), 4)  # 0.5 + 0.1 exp(-1 / 20)
    0.5951
    """

    a_plus: float = 0.01
    a_minus: float = 0.01
    tau_plus: float = 20.0
    tau_minus: float = 20.0
    w_min: float = 0.0
    w_max: float = 1.0
    mu: float = 0.0
    dt: float = 1.0

    def __post_init__(self):
        check_settings(self, not_negative=("mu",))

    def initial_state(
        self, weights: jax.Array, batch_shape: Sequence[int] = ()
    ) -> STDPState:
        """Return the state before the first spike.

        Parameters
        ----------
        weights
            Weights to start from, ``[n_pre, n_post]``, floating.
        batch_shape
            Sizes of the batch axes; empty for a single sample. The samples of a batch
            share the weights.

        Returns
        -------
        STDPState
            The weights and traces of zero.

        Raises
        ------
        TypeError
            If weights are not floating.
        ValueError
            If weights do not have two axes.
        """
        weights, pre, post = start(weights, batch_shape)
        return STDPState(weights, pre, post)

    def step(self, state: STDPState, pre: jax.Array, post: jax.Array) -> STDPState:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        pre, post
            Spikes of this step, zeros and ones, ``[*batch, n_pre]`` and
            ``[*batch, n_post]``. Over a batch, changes of the weights are averaged.

        Returns
        -------
        STDPState
            The new weights and traces.

        Raises
        ------
        ValueError
            If spikes do not have the shape of the traces.
        """
        check_spikes(state, pre, post)
        traces = decayed(self, state)
        up, down = pairs(traces, pre, post)
        axes = tuple(range(up.ndim - 2))
        scaled = (state.weights - self.w_min) / (self.w_max - self.w_min)
        change = self.a_plus * (1 - scaled) ** self.mu * up.mean(axes)
        change = change - self.a_minus * scaled**self.mu * down.mean(axes)
        weights = jnp.clip(state.weights + change, self.w_min, self.w_max)
        return STDPState(weights, *risen(traces, pre, post))


def check_settings(rule, *, not_negative=(), positive=()):
    """Refuse numbers out of range: the window's, the bounds, and those named."""
    for name in ("a_plus", "a_minus", *not_negative):
        _check.number(name, getattr(rule, name), least=0)
    for name in ("tau_plus", "tau_minus", *positive, "dt"):
        _check.number(name, getattr(rule, name), above=0)
    _check.number("w_min", rule.w_min)
    _check.number("w_max", rule.w_max)
    if not rule.w_min < rule.w_max:
        raise ValueError(
            f"`w_min` must be less than `w_max`, got {rule.w_min} and {rule.w_max}"
        )


def start(weights, batch_shape):
    """Return the weights and traces of zero."""
    _check.floating("weights", weights)
    if weights.ndim != 2:
        raise ValueError(
            f"`weights` must be presynaptic by postsynaptic, got shape {weights.shape}"
        )
    n_pre, n_post = weights.shape
    pre = jnp.zeros((*batch_shape, n_pre), weights.dtype)
    return jnp.asarray(weights), pre, jnp.zeros((*batch_shape, n_post), weights.dtype)


def check_spikes(state, pre, post):
    """Refuse spikes of another shape than the traces."""
    for name, spikes, trace in (("pre", pre, state.pre), ("post", post, state.post)):
        if jnp.shape(spikes) != trace.shape:
            raise ValueError(
                f"`{name}` must have the shape {trace.shape} of its trace, "
                f"got {jnp.shape(spikes)}"
            )


def decayed(rule, state):
    """Return the traces one step later."""
    return (
        state.pre * math.exp(-rule.dt / rule.tau_plus),
        state.post * math.exp(-rule.dt / rule.tau_minus),
    )


def pairs(traces, pre, post):
    """Sum the window over the pairs that end in this step, ``[*batch, n_pre, n_post]``.

    Traces from before this step: a pair within it counts for nothing.
    """
    pre_trace, post_trace = traces
    up = pre_trace[..., :, None] * post.astype(pre_trace.dtype)[..., None, :]
    down = pre.astype(post_trace.dtype)[..., :, None] * post_trace[..., None, :]
    return up, down


def risen(traces, pre, post):
    """Add the spikes of this step to the traces."""
    pre_trace, post_trace = traces
    return (
        pre_trace + pre.astype(pre_trace.dtype),
        post_trace + post.astype(post_trace.dtype),
    )
