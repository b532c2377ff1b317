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
    # float16 would overflow on the way to a small derivative.
    wide = jnp.float64 if spikes.dtype == jnp.float64 else jnp.float32
    primals, tangents = jax.tree.map(lambda z: z.astype(wide), (primals, tangents))
    _, tangent = jax.jvp(surrogate.relaxation, primals, tangents)
    return spikes, tangent.astype(spikes.dtype)


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


class Sigmoid(Surrogate):
    r"""Logistic: $\partial s/\partial u = k\, \sigma(k u) (1 - \sigma(k u))$.

    Peak $k/4$, area 1.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Fang et al., "SpikingJelly", Science Advances 9 (2023), whose default this is.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Sigmoid
    >>> float(jax.grad(Sigmoid())(jnp.float32(0.0)))
    1.0
    """

    slope: float = 4.0

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return jax.nn.sigmoid(slope * u)


class Tanh(Surrogate):
    r"""Hyperbolic tangent: $\partial s/\partial u = 1 - \tanh^2(k u)$.

    Peak 1, area $2/k$.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Wozniak et al., "Deep learning incorporating biologically inspired neural dynamics
    and in-memory computing", Nature Machine Intelligence 2 (2020).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Tanh
    >>> float(jax.grad(Tanh())(jnp.float32(0.0)))
    1.0
    """

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return jnp.tanh(slope * u) / slope


class Erf(Surrogate):
    r"""Gaussian: $\partial s/\partial u = \frac{k}{\sqrt\pi} e^{-k^2 u^2}$.

    Peak $k/\sqrt\pi$, area 1.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Esser et al., "Convolutional networks for fast, energy-efficient neuromorphic
    computing", PNAS 113 (2016).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Erf
    >>> round(float(jax.grad(Erf())(jnp.float32(0.0))), 4)
    1.1284
    """

    slope: float = 2.0

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return jax.scipy.special.erf(slope * u) / 2


class Exponential(Surrogate):
    r"""Two-sided exponential: $\partial s/\partial u = \frac{k}{2} e^{-k |u|}$.

    Peak $k/2$, area 1.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Shrestha and Orchard, "SLAYER", NeurIPS 2018, eq. 14.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Exponential
    >>> float(jax.grad(Exponential())(jnp.float32(0.0)))
    1.0
    """

    slope: float = 2.0

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return _odd(lambda r: -jnp.expm1(-slope * r) / 2, u)


class Triangular(Surrogate):
    r"""Triangle: $\partial s/\partial u = k \max(0, 1 - k |u|)$.

    Peak $k$, area 1; zero further than $1/k$ from the threshold.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Bellec et al., "Long short-term memory and learning-to-learn in networks of spiking
    neurons", NeurIPS 2018, eq. 5, there times 0.3.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Triangular
    >>> [float(jax.grad(Triangular())(jnp.float32(u))) for u in (0.0, 0.5, 1.5)]
    [1.0, 0.5, 0.0]
    """

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""

        def half(r):
            z = jnp.minimum(slope * r, 1)
            return z - z**2 / 2

        return _odd(half, u)


class Boxcar(Surrogate):
    r"""Rectangle: $\partial s/\partial u = k$ for $|u| < \frac{1}{2k}$, else zero.

    Peak $k$, area 1.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Wu et al., "Spatio-temporal backpropagation for training high-performance spiking
    neural networks", Frontiers in Neuroscience 12 (2018), eq. 24.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Boxcar
    >>> [float(jax.grad(Boxcar())(jnp.float32(u))) for u in (0.0, 0.4, 0.6)]
    [1.0, 1.0, 0.0]
    """

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return _odd(lambda r: jnp.minimum(slope * r, 0.5), u)


class MultiGaussian(Surrogate):
    r"""A Gaussian between two wide negative ones.

    $$\frac{\partial s}{\partial u} = (1 + h)\, \mathcal N(u; 0, \sigma)
    - h\, \mathcal N(u; \sigma, w \sigma) - h\, \mathcal N(u; -\sigma, w \sigma)$$

    where $\sigma = 1/k$ is a standard deviation. Area $1 - h$; negative far out.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.
    height
        The $h$ above; must not be negative.
    width
        The $w$ above; must be positive.

    References
    ----------
    Yin, Corradi and Bohté, "Accurate and efficient time-domain classification with
    adaptive spiking recurrent neural networks", Nature Machine Intelligence 3 (2021).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import MultiGaussian
    >>> bool(jax.grad(MultiGaussian())(jnp.float32(2.0)) < 0)
    True
    """

    slope: float = 2.0
    height: float = 0.15
    width: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.number("height", self.height, least=0)
        _check.number("width", self.width, above=0)

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""

        def normal(z):
            return jax.scipy.special.erf(z / 2**0.5) / 2

        z = slope * u
        sides = normal((z - 1) / self.width) + normal((z + 1) / self.width)
        return (1 + self.height) * normal(z) - self.height * sides


class PowerLaw(Surrogate):
    r"""Power law: $\partial s/\partial u = (1 + \frac{2 k}{p - 1} |u|)^{-p}$.

    Peak 1, area $1/k$; the larger $p$, the faster the tail falls.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.
    exponent
        The $p$ above; must be greater than 1.

    References
    ----------
    Herranz-Celotti and Rouat, "Stabilizing spiking neuron training" (2022), the
    q-PseudoSpike.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import PowerLaw
    >>> float(jax.grad(PowerLaw())(jnp.float32(0.5)))
    0.25
    """

    exponent: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.number("exponent", self.exponent, above=1)

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        p = self.exponent

        def half(r):
            return (1 - (1 + 2 / (p - 1) * slope * r) ** (1 - p)) / (2 * slope)

        return _odd(half, u)


class Logarithmic(Surrogate):
    r"""Logarithm: $\partial s/\partial u = \frac{k}{1 + k |u|}$.

    Peak $k$; the tail is so heavy that the area has no end.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Fang et al., "SpikingJelly", Science Advances 9 (2023), ``NonzeroSignLogAbs``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import Logarithmic
    >>> float(jax.grad(Logarithmic())(jnp.float32(1.0)))
    0.5
    """

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return _odd(lambda r: jnp.log1p(slope * r), u)


class StraightThrough(Surrogate):
    r"""Straight-through estimator: $\partial s/\partial u = k$ everywhere.

    Parameters
    ----------
    slope
        The $k$ above; must be positive.

    References
    ----------
    Bengio, Léonard and Courville, "Estimating or propagating gradients through
    stochastic neurons for conditional computation" (2013).

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import StraightThrough
    >>> float(jax.grad(StraightThrough())(jnp.float32(-7.0)))
    1.0
    """

    def relaxation(self, u, slope):
        """See `Surrogate.relaxation`."""
        return slope * u
