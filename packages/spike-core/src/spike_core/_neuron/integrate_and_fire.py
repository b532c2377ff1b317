"""Integrate-and-fire without a leak."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._linear_form import LinearForm
from .._surrogate import ATan, Surrogate
from .base import Prepared
from .spiking import LinearWithoutReset, Reset


class IFState(NamedTuple):
    """State of `IF`; see `LIFState`."""

    v: jax.Array
    refractory: jax.Array | tuple[()] = ()


class IFParameters(NamedTuple):
    """Parameters of `IF` as stored; see `LIFParameters`."""

    threshold: jax.Array
    v_reset: jax.Array | tuple[()] = ()
    log_slope: jax.Array | tuple[()] = ()


class IF(LinearWithoutReset):
    r"""Integrate-and-fire neurons, which do not forget.

    $$u_t = v_{t-1} + x_t, \qquad s_t = H(u_t - \theta)$$

    and the reset of `LIF`.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    threshold, reset, v_reset, detach_reset, refractory, surrogate, param_dtype
        As for `LIF`.
    dt
        Length of a step in milliseconds. The input is what a step adds, so that this
        does not enter.
    trainable
        Names of what is learned, of ``"threshold"``, ``"v_reset"``, ``"slope"``.

    Raises
    ------
    ValueError, TypeError
        As `LIF` does.

    References
    ----------
    Gerstner et al., *Neuronal Dynamics* (2014), section 1.3, without leak.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import IF, unroll
    >>> state, spikes = unroll(IF(1), jnp.full((8, 1), 0.375))
    >>> spikes[:, 0].astype(int).tolist()
    [0, 0, 1, 0, 0, 1, 0, 0]
    """

    State = IFState
    Parameters = IFParameters

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        threshold: Any = 1.0,
        reset: Reset = "subtract",
        v_reset: Any = None,
        detach_reset: bool = False,
        refractory: int = 0,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        dt: float = 1.0,
        trainable: Collection[str] = (),
        param_dtype: Any = jnp.float32,
    ):
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
            positive={},
            free={},
        )

    def integrate(self, p: Prepared, state: IFState, x: jax.Array) -> IFState:
        """See `SpikingNeuron.integrate`."""
        del p
        return state._replace(v=state.v + x)

    def form(self, parameters: IFParameters, xs: jax.Array) -> LinearForm:
        """See `LinearWithoutReset.form`."""
        del parameters
        return LinearForm(jnp.ones((), xs.dtype), xs)
