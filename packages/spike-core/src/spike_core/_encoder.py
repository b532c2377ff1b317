"""Numbers to spikes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import _check


def encode_rate(
    values: jax.Array, n_steps: int, *, key: jax.Array, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    """Fire at random, with the value as the probability of a spike in each step.

    Parameters
    ----------
    values
        Spikes per step, between 0 and 1, any shape, floating.
    n_steps
        Length of the sequence, at least 1.
    key
        Key of the random numbers, as `jax.random.key` gives it.
    dtype
        Dtype of the spikes.

    Returns
    -------
    jax.Array
        Zeros and ones, ``[n_steps, *values.shape]``.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If a value is not between 0 and 1, or `n_steps` is not a positive integer.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from spike_core import encode_rate
    >>> spikes = encode_rate(jnp.array([0.0, 0.5, 1.0]), 1000, key=jax.random.key(0))
    >>> spikes.shape, [round(float(r), 1) for r in spikes.mean(0)]
    ((1000, 3), [0.0, 0.5, 1.0])
    """
    _check_values(values)
    n_steps = _check.whole("n_steps", n_steps, least=1)
    # In float32 whatever the values: bfloat16 has few numbers near one.
    chance = jax.random.uniform(key, (n_steps, *values.shape), jnp.float32)
    return (chance < values[None].astype(jnp.float32)).astype(dtype)


def encode_latency(
    values: jax.Array, n_steps: int, *, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    r"""Fire once, the earlier the larger the value.

    A value $x$ fires in step $\mathrm{round}((1 - x)(T - 1))$; zero never fires.

    Parameters
    ----------
    values
        Between 0 and 1, any shape, floating.
    n_steps
        Length $T$ of the sequence, at least 1.
    dtype
        Dtype of the spikes.

    Returns
    -------
    jax.Array
        Zeros and ones, ``[n_steps, *values.shape]``.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If a value is not between 0 and 1, or `n_steps` is not a positive integer.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import encode_latency
    >>> encode_latency(jnp.array([1.0, 0.5, 0.0]), 3).astype(int).T.tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    """
    _check_values(values)
    n_steps = _check.whole("n_steps", n_steps, least=1)
    # bfloat16 has no number for step 999, and would round it to 1000.
    values = _widened(values)
    times = jnp.round((1 - values) * (n_steps - 1)).astype(jnp.int32)
    times = jnp.where(values > 0, times, n_steps)
    steps = jnp.arange(n_steps, dtype=jnp.int32)
    return (steps.reshape(-1, *[1] * values.ndim) == times[None]).astype(dtype)


def encode_delta(
    values: jax.Array, threshold: float, *, dtype: jnp.dtype = jnp.float32
) -> jax.Array:
    r"""Fire when the signal has moved by a threshold since the last spike.

    A reference $r$ starts at the first value and follows the signal in steps of the
    threshold $\theta$, one a time step at most:

    $$s^+_t = H(x_t - r_t - \theta), \quad s^-_t = H(r_t - x_t - \theta), \quad
    r_{t+1} = r_t + \theta (s^+_t - s^-_t)$$

    with $H(0) = 0$. A signal that never moves by more than $\theta$ in a step is within
    $\theta$ of its reference, however slowly it drifts. Spikes on the difference of
    neighbouring steps alone would miss a drift.

    Parameters
    ----------
    values
        Signal, ``[T, ...]``, floating, at least one step.
    threshold
        Change $\theta$ that makes a spike, positive, in the unit of the signal.
    dtype
        Dtype of the spikes.

    Returns
    -------
    jax.Array
        Zeros and ones, ``[T, ..., 2]``: spikes of a rise and of a fall.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If there are no steps, a value is not finite, or `threshold` is not positive.

    References
    ----------
    Petro et al., *Selection and optimization of temporal spike encoding methods for
    spiking neural networks* (2020), section II, step-forward encoding.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import encode_delta
    >>> spikes = encode_delta(jnp.array([0.0, 0.5, 1.5, 1.5, 0.0]), 1.0)
    >>> spikes.astype(int).T.tolist()
    [[0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    >>> encode_delta(jnp.array([0.0, -0.75, -1.5, -2.25]), 1.0)[:, 1].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    _check.floating("values", values)
    if values.ndim < 1 or values.shape[0] == 0:
        raise ValueError(f"`values` must have at least one step, got {values.shape}")
    _check.number("values", values)
    _check.number("threshold", threshold, above=0)
    values = _widened(values)
    unit = jnp.asarray(threshold, values.dtype)

    # The reference is counted in thresholds: a sum of many would drift away.
    def step(count, value):
        moved = value - (values[0] + count * unit)
        up, down = moved > unit, -moved > unit
        count = count + up.astype(count.dtype) - down.astype(count.dtype)
        return count, jnp.stack([up, down], axis=-1)

    return jax.lax.scan(step, jnp.zeros_like(values[0]), values)[1].astype(dtype)


def encode_population(
    values: jax.Array,
    n_neurons: int,
    *,
    low: float,
    high: float,
    overlap: float = 1.5,
) -> jax.Array:
    r"""Spread each value over neurons with Gaussian receptive fields.

    Neuron $i = 1 \dots m$ responds with $e^{-(x - c_i)^2 / 2 \sigma^2}$ around its
    centre $c_i = a + \frac{2 i - 3}{2} \frac{b - a}{m - 2}$, the first and the last a
    little outside the range from $a$ to $b$, with the width
    $\sigma = \frac{1}{\beta} \frac{b - a}{m - 2}$. The responses are between 0 and 1,
    for `encode_latency` or `encode_rate` to turn into spikes.

    Parameters
    ----------
    values
        Any shape, floating.
    n_neurons
        Neurons a value, $m$, at least 3.
    low, high
        Range $a$ to $b$ of the values, `low` less than `high`. A value outside it is
        not an error; the farther it is, the weaker the response.
    overlap
        $\beta$, positive; the larger, the narrower the fields. The source takes 1.5,
        and recommends 1 to 2.

    Returns
    -------
    jax.Array
        Responses, ``[*values.shape, n_neurons]``, of the dtype of `values`.

    Raises
    ------
    TypeError
        If `values` is not floating.
    ValueError
        If a value is not finite or another argument is out of range.

    References
    ----------
    Bohte, Kok and La Poutré, *Error-backpropagation in temporally encoded networks of
    spiking neurons* (2002), section 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import encode_latency, encode_population
    >>> responses = encode_population(jnp.array([0.0, 0.5]), 4, low=0.0, high=1.0)
    >>> [[round(float(r), 2) for r in row] for row in responses]
    [[0.75, 0.75, 0.08, 0.0], [0.08, 0.75, 0.75, 0.08]]
    >>> encode_latency(responses, n_steps=100).shape
    (100, 2, 4)
    """
    _check.floating("values", values)
    _check.number("values", values)
    n_neurons = _check.whole("n_neurons", n_neurons, least=3)
    _check.number("low", low)
    _check.number("high", high)
    if not low < high:
        raise ValueError(f"`low` must be less than `high`, got {low} and {high}")
    _check.number("overlap", overlap, above=0)
    spacing = (high - low) / (n_neurons - 2)
    centres = [low + (i - 0.5) * spacing for i in range(n_neurons)]
    distance = jnp.asarray(values)[..., None] - jnp.asarray(
        centres, values.dtype
    ).reshape(*[1] * values.ndim, n_neurons)
    return jnp.exp(-0.5 * jnp.square(distance * (overlap / spacing)))


def _check_values(values):
    _check.floating("values", values)
    _check.number("values", values, least=0, most=1)


def _widened(values):
    wide = jnp.float64 if values.dtype == jnp.float64 else jnp.float32
    return jnp.asarray(values, wide)
