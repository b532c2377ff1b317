"""Weights with which a layer neither falls silent nor saturates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _check
from ._neuron.base import decay_and_gain

Initializer = Callable[..., jax.Array]


def fluctuation_init(neuron: Any, *, rate: float, xi: float = 1.0) -> Initializer:
    r"""Draw weights with which membranes fluctuate by a share of their threshold.

    Before any spike, $n$ inputs that fire with probability $\nu$ in a step, through
    weights of mean zero and variance $\sigma^2$, give the membrane the second moment

    $$n \sigma^2 \left( \nu (1 - \nu) \sum_k h_k^2 + \nu^2 (\sum_k h_k)^2 \right),
    \qquad h_k = g \alpha^k$$

    and $\sigma$ is chosen so that its root is $\theta / \xi$. Normal weights.

    Parameters
    ----------
    neuron
        The `LIF` or `ALIF` that the weights lead to.
    rate
        Probability $\nu$ that an input fires in a step, in ``(0, 1]``.
    xi
        Threshold in units of the membrane's fluctuation, positive; the smaller, the
        more spikes. With 1 and a rate of 0.02 a deep network of default LIFs stays
        active; `layer_activity` tells.

    Returns
    -------
    callable
        ``init(key, shape, dtype)``, for ``nnx.Linear(..., kernel_init=...)`` and alike;
        the last axis runs over outputs, all others over inputs.

    Raises
    ------
    TypeError
        If `neuron` has not the parameters of a `LIF`.
    ValueError
        If `rate` or `xi` is out of range, or the last axis of the weights does not fit
        the parameters of the neuron.

    References
    ----------
    Rossbroich, Gygax and Zenke, "Fluctuation-driven initialization for spiking neural
    network training", Neuromorphic Computing and Engineering 2 (2022), eq. 9.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, fluctuation_init
    >>> lif = LIF(64)
    >>> layer = nnx.Linear(
    ...     100, 64, kernel_init=fluctuation_init(lif, rate=0.05), rngs=nnx.Rngs(0)
    ... )
    >>> bool(0.5 < layer.kernel[...].std() < 2)
    True
    """
    parameters: Any = getattr(neuron, "parameters", None)
    if not hasattr(parameters, "log_tau") or not hasattr(neuron, "input_gain"):
        raise TypeError(f"`neuron` must be a LIF or ALIF, got {type(neuron).__name__}")
    _check.number("rate", rate, above=0, most=1)
    _check.number("xi", xi, above=0)
    like = jax.ShapeDtypeStruct(neuron.features, jnp.dtype(jnp.float32))
    decay, gain = decay_and_gain(
        parameters.log_tau, like, dt=neuron.dt, input_gain=neuron.input_gain
    )
    squares, total = gain**2 / (1 - decay**2), gain / (1 - decay)
    moment = rate * (1 - rate) * squares + rate**2 * total**2
    scale = np.asarray(parameters.threshold / (xi * jnp.sqrt(moment)))

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        del out_sharding
        if scale.ndim and scale.shape != shape[-1:]:
            raise ValueError(
                f"`shape` must end in the features {scale.shape} of the neuron, "
                f"got {tuple(shape)}"
            )
        inputs = math.prod(shape[:-1])
        width = jnp.asarray(scale / math.sqrt(inputs), dtype)
        if width.ndim:
            width = width.reshape((1,) * (len(shape) - 1) + width.shape)
        return width * jax.random.normal(key, shape, dtype)

    return init
