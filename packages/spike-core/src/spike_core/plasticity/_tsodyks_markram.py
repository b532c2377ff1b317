"""Synapses that facilitate and depress."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .. import _check
from .._neuron.base import broadcast, state_dtype
from .._variable import parameter


class TsodyksMarkramState(NamedTuple):
    """State of `TsodyksMarkram`.

    Parameters
    ----------
    u
        Part of the resources that a spike uses, ``[*batch, *features]``.
    r
        Part of the resources that is available, ``[*batch, *features]``.
    """

    u: jax.Array
    r: jax.Array


class TsodyksMarkramParameters(NamedTuple):
    r"""Parameters of `TsodyksMarkram` as stored, scalars or one a neuron.

    Parameters
    ----------
    logit_release
        $\log (U / (1 - U))$.
    log_tau_facilitation, log_tau_depression
        Natural logarithms of the time constants in milliseconds.
    """

    logit_release: jax.Array
    log_tau_facilitation: jax.Array
    log_tau_depression: jax.Array


class TsodyksMarkram(nnx.Module):
    r"""Synapses whose efficacy depends on the recent spikes of their input.

    Between spikes, what a spike uses decays and the resources recover,

    $$\frac{du}{dt} = -\frac{u}{\tau_F}, \qquad \frac{dr}{dt} = \frac{1 - r}{\tau_D},$$

    and a spike at the input lets through $y$ of the resources:

    $$u \leftarrow u + U (1 - u), \qquad y = u\, r, \qquad r \leftarrow r - y.$$

    The integration between steps is exact. The first spike after a long silence gives
    $y = U$. One for each presynaptic neuron stands before the weights, in place of a
    neuron: ``Sequential(TsodyksMarkram(n), nnx.Linear(n, m), LIF(m))``.

    Parameters
    ----------
    features
        Number of presynaptic neurons, or the shape of the block of them.
    release
        Part of the resources that the first spike uses, $U$, between 0 and 1, both
        excluded; a scalar or one a neuron. Kept as its logit.
    tau_facilitation
        Time constant $\tau_F$ in milliseconds, positive. Far below `dt` it means that
        nothing facilitates.
    tau_depression
        Time constant $\tau_D$ of the recovery in milliseconds, positive. Both are kept
        as their logarithm.
    dt
        Length of a step in milliseconds, positive.
    trainable
        Which of ``"release"``, ``"tau_facilitation"`` and ``"tau_depression"`` to
        learn.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError
        If an argument is out of range. Values that are traced are not looked at.

    References
    ----------
    Tsodyks and Wu, *Short-term synaptic plasticity*, Scholarpedia 8(10):3153 (2013),
    eq. 1; Tsodyks, Pawelzik and Markram, *Neural networks with dynamic synapses*
    (1998). The default values are those of Mongillo, Barak and Tsodyks, *Synaptic
    theory of working memory* (2008), where facilitation dominates.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.plasticity import TsodyksMarkram
    >>> spikes = jnp.ones((4, 1))
    >>> _, y = unroll(TsodyksMarkram(1, release=0.5), spikes)
    >>> [round(float(v), 2) for v in y[:, 0]]  # depressed: the resources run out
    [0.5, 0.38, 0.11, 0.02]
    """

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        release: Any = 0.2,
        tau_facilitation: Any = 1500.0,
        tau_depression: Any = 200.0,
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
        self.features = _check.shape_of("features", features)
        _check.number("dt", dt, above=0)
        self.dt = float(dt)
        dtype = jnp.dtype(param_dtype)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"`param_dtype` must be a floating dtype, got {dtype}")
        if isinstance(trainable, str):
            raise ValueError(
                f"`trainable` must be a tuple of names, got the string {trainable!r}"
            )
        names = ("release", "tau_facilitation", "tau_depression")
        for name in trainable:
            _check.one_of("trainable", name, names)
        _check.number("release", release, above=0, most=1)
        if not isinstance(release, jax.core.Tracer) and np.max(release) == 1:
            raise ValueError("`release` must be less than 1, got 1.0")
        _check.number("tau_facilitation", tau_facilitation, above=0)
        _check.number("tau_depression", tau_depression, above=0)

        def stored(name, value):
            return parameter(
                name, value, self.features, dtype, trained=name in trainable
            )

        self.logit_release = stored("release", _logit(release))
        self.log_tau_facilitation = stored("tau_facilitation", _log(tau_facilitation))
        self.log_tau_depression = stored("tau_depression", _log(tau_depression))

    @property
    def parameters(self) -> TsodyksMarkramParameters:
        """The parameters as stored."""
        return TsodyksMarkramParameters(
            self.logit_release[...],
            self.log_tau_facilitation[...],
            self.log_tau_depression[...],
        )

    def initial_state(self, batch_shape: Sequence[int] = ()) -> TsodyksMarkramState:
        """Return the state after a long silence: nothing in use, all available.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        TsodyksMarkramState
            Leaves of shape ``[*batch_shape, *features]``.
        """
        shape = (*batch_shape, *self.features)
        dtype = state_dtype(*self.parameters)
        return TsodyksMarkramState(jnp.zeros(shape, dtype), jnp.ones(shape, dtype))

    def __call__(
        self, state: TsodyksMarkramState, x: jax.Array
    ) -> tuple[TsodyksMarkramState, jax.Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            Spikes, zeros and ones, ``[*batch, *features]``, floating.

        Returns
        -------
        state, y
            The next state, at least float32, and what each spike lets through,
            ``[*batch, *features]`` in the dtype of `x`.

        Raises
        ------
        TypeError
            If `x` is not floating, or `state` is not of this layer.
        ValueError
            If the shape of `x` does not end in `features`, or differs from that of
            the state.
        """
        _check.floating("x", x)
        if x.shape[max(0, x.ndim - len(self.features)) :] != self.features:
            raise ValueError(
                f"`x` must end in the features {self.features}, got shape {x.shape}"
            )
        if not isinstance(state, TsodyksMarkramState):
            raise TypeError(
                "`state` must be a TsodyksMarkramState, as `initial_state` gives it, "
                f"got {type(state).__name__}"
            )
        if jnp.shape(state.u) != x.shape or jnp.shape(state.r) != x.shape:
            raise ValueError(
                f"`state` must have the shape {x.shape} of the input of one step, "
                f"got {jnp.shape(state.u)}; take it from `initial_state(batch_shape)`"
            )
        return self.step(self.parameters, state, x)

    def step(
        self,
        parameters: TsodyksMarkramParameters,
        state: TsodyksMarkramState,
        x: jax.Array,
    ) -> tuple[TsodyksMarkramState, jax.Array]:
        """Advance by one step: a pure function, which reads no variable of the module.

        Parameters
        ----------
        parameters
            As `parameters` gives them.
        state, x
            As for a call.

        Returns
        -------
        state, y
            As of a call.
        """
        like = jax.ShapeDtypeStruct(x.shape, state_dtype(state.u, x))
        logit, log_f, log_d = (broadcast(value, like) for value in parameters)
        s, u, r = (array.astype(like.dtype) for array in (x, *state))
        u = u * jnp.exp(-self.dt * jnp.exp(-log_f))
        r = 1 - (1 - r) * jnp.exp(-self.dt * jnp.exp(-log_d))
        u = u + jax.nn.sigmoid(logit) * (1 - u) * s
        y = u * r * s
        return TsodyksMarkramState(u, r - y), y.astype(x.dtype)


# In float64, and without compiling anything, where the value is known.
def _log(value):
    return jnp.log(value) if isinstance(value, jax.Array) else np.log(value)


def _logit(value):
    return _log(value) - (
        jnp.log1p(-value)
        if isinstance(value, jax.Array)
        else np.log1p(-np.asarray(value))
    )
