r"""Spikes with a usable gradient.

A spike is $H(u)$, one where $u > 0$ and zero elsewhere, and its derivative is zero or
undefined. A surrogate replaces that derivative by the one of a smooth *relaxation* of
$H$. Only the relaxation is written down here; its derivative comes from JAX.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, dataclass_transform

import jax
import jax.numpy as jnp

from . import _check


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _spike(surrogate: Surrogate, u: jax.Array, slope: jax.Array) -> jax.Array:
    return (u > 0).astype(u.dtype)


@_spike.defjvp
def _spike_jvp(surrogate, primals, tangents):
    spikes = _spike(surrogate, *primals)
    _, tangent = jax.jvp(surrogate.relaxation, primals, tangents)
    return spikes, tangent


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Surrogate:
    """Base class of surrogates: write `relaxation`, the rest follows.

    A subclass becomes a frozen dataclass by itself. Calling it gives spikes: exactly
    zero or one, one where the argument is strictly positive.

    Parameters
    ----------
    slope
        Steepness of the relaxation; must be positive. A neuron that is built with
        ``trainable=("slope",)`` learns it.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Surrogate
    >>> class Logistic(Surrogate):
    ...     def relaxation(self, u, slope):
    ...         return jax.nn.sigmoid(slope * u)
    >>> float(Logistic(slope=4.0)(jnp.float32(0.5)))
    1.0
    >>> float(jax.grad(Logistic(slope=4.0))(jnp.float32(0.0)))
    1.0
    """

    slope: float = 1.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        _check.number("slope", self.slope, above=0)

    def relaxation(self, u: jax.Array, slope: jax.Array) -> jax.Array:
        """Smooth stand-in for the step, up to a constant.

        Parameters
        ----------
        u
            Distance to the threshold, any shape.
        slope
            Steepness, a scalar or of a shape that broadcasts to `u`.

        Returns
        -------
        jax.Array
            Of the shape of `u`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `relaxation`")

    def __call__(self, u: jax.Array, slope: jax.Array | None = None) -> jax.Array:
        """Return the spikes at distance `u` from the threshold.

        Parameters
        ----------
        u
            Distance to the threshold, floating, any shape.
        slope
            Steepness to use in place of the one given at construction.

        Returns
        -------
        jax.Array
            Zeros and ones, in the shape and dtype of `u`.

        Raises
        ------
        TypeError
            If `u` is not an array of a real floating dtype.
        """
        _check.floating("u", u)
        used = self.slope if slope is None else slope
        return _spike(self, u, jnp.asarray(used, dtype=u.dtype))


def _odd(half, u):
    # `jnp.abs` has derivative 0 at 0, where a surrogate has its peak.
    sign = jnp.where(u < 0, -1, 1).astype(u.dtype)
    return sign * half(sign * u)


class ATan(Surrogate):
    r"""Arctangent: $\partial s/\partial u = \frac{k/2}{1 + (\pi k u / 2)^2}$.

    Peak $k/2$, area 1.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Fang et al., "Incorporating learnable membrane time constant to enhance learning
    of spiking neural networks", ICCV 2021.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import ATan
    >>> float(jax.grad(ATan())(jnp.float32(0.0)))
    1.0
    """

    slope: float = 2.0

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return jnp.arctan(jnp.pi / 2 * slope * u) / jnp.pi


class FastSigmoid(Surrogate):
    r"""Fast sigmoid: $\partial s/\partial u = \frac{1}{(1 + k |u|)^2}$.

    Peak 1, area $2/k$.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Zenke and Ganguli, "SuperSpike", Neural Computation 30 (2018), section 2.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import FastSigmoid
    >>> float(jax.grad(FastSigmoid(slope=4.0))(jnp.float32(0.25)))
    0.25
    """

    slope: float = 25.0

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        # 1/(1 + ku), not u/(1 + ku): its derivative has no cancellation far out.
        return _odd(lambda r: (1 - 1 / (1 + slope * r)) / slope, u)
