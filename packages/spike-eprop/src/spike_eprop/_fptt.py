"""Forward propagation through time, as a transformation of gradients."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class FPTTState(NamedTuple):
    """State of `fptt`.

    Parameters
    ----------
    average
        The running average of the parameters.
    last
        The gradient of the step before.
    """

    average: Any
    last: Any


def fptt(alpha: float = 0.1) -> optax.GradientTransformation:
    r"""Pull parameters that change inside a sequence towards their running average.

    $$g_t = \nabla \ell_t(\theta_t) + \alpha (\theta_t - \bar\theta_t) -
    \tfrac12 \nabla \ell_{t-1}, \qquad
    \bar\theta_{t+1} = \tfrac12 (\bar\theta_t + \theta_{t+1}) -
    \tfrac{1}{2\alpha} \nabla \ell_t$$

    It is the gradient of $\ell_t + \frac\alpha2 \|\theta - \bar\theta_t -
    \frac{1}{2\alpha} \nabla\ell_{t-1}\|^2$. The gradients that it is given are those of
    single steps, each with nothing before it: in a `Learner` with `sltt` and
    ``every=1``. The paper takes $\nabla \ell_t$ in the average at the new parameters;
    here, as is usual, it is the one that is there, at the old ones.

    Parameters
    ----------
    alpha
        Strength of the pull, positive.

    Returns
    -------
    optax.GradientTransformation
        To be chained before an optimiser: ``optax.chain(fptt(0.1), optax.sgd(0.1))``.

    Raises
    ------
    ValueError
        If `alpha` is not positive.

    References
    ----------
    Kag and Saligrama, "Training recurrent neural networks via forward propagation
    through time", ICML 2021, algorithm 1. For spiking networks: Yin, Corradi and Bohté,
    Nature Machine Intelligence 5 (2023).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_eprop import fptt
    >>> transform = fptt(alpha=0.5)
    >>> theta = jnp.zeros((), jnp.float32)
    >>> state = transform.init(theta)
    >>> gradient, state = transform.update(jnp.ones_like(theta), state, theta)
    >>> float(gradient)
    1.0
    >>> gradient, state = transform.update(jnp.ones_like(theta), state, theta - 1)
    >>> float(gradient)  # 1 + 0.5 * (-1 - (-0.5 - 1)) - 0.5
    0.75
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"`alpha` must be positive, got {alpha!r}")

    def init(params):
        return FPTTState(params, jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None, **extra):
        del extra
        if params is None:
            raise ValueError("`params` must be given to the update of `fptt`")
        average = jax.tree.map(
            lambda mean, theta, last: 0.5 * (mean + theta) - last / (2 * alpha),
            state.average,
            params,
            state.last,
        )
        pulled = jax.tree.map(
            lambda g, theta, mean, last: g + alpha * (theta - mean) - 0.5 * last,
            updates,
            params,
            average,
            state.last,
        )
        return pulled, FPTTState(average, updates)

    return optax.GradientTransformationExtraArgs(init, update)
