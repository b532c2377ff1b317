"""Encoders: delta and population against their definitions, all on bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spike_core import encode_delta, encode_latency, encode_population, encode_rate

delta = jax.jit(encode_delta)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), threshold=st.floats(0.3, 3.0))
def test_delta_follows_the_signal_within_its_threshold(seed, threshold):
    rng = np.random.default_rng(seed)
    moves = rng.uniform(-threshold, threshold, (50, 3))
    values = np.cumsum(moves * rng.uniform(0, 1, 3), axis=0)
    spikes = np.asarray(delta(jnp.asarray(values), threshold))
    assert spikes.shape == (50, 3, 2) and set(np.unique(spikes)) <= {0.0, 1.0}
    assert not spikes.prod(-1).any()  # never both
    reference = values[0] + threshold * np.cumsum(spikes[..., 0] - spikes[..., 1], 0)
    assert np.abs(values - reference).max() <= threshold * (1 + 1e-9)


def test_delta_is_that_of_the_plain_loop():
    values = np.random.default_rng(0).normal(size=(40, 2)).cumsum(0)
    reference, want = values[0].copy(), np.zeros((40, 2, 2))
    for t, value in enumerate(values):
        for i in range(2):
            want[t, i] = value[i] - reference[i] > 0.5, reference[i] - value[i] > 0.5
            reference[i] += 0.5 * (want[t, i, 0] - want[t, i, 1])
    np.testing.assert_array_equal(delta(jnp.asarray(values), 0.5), want)


def test_delta_sees_a_drift_and_not_a_step_of_the_threshold():
    values = np.zeros((40, 2))
    values[:, 0] = np.linspace(0, 3.9, 40)  # 0.1 a step
    values[1::2, 1] = 0.5
    up, down = np.asarray(delta(jnp.asarray(values), 0.5)).sum(0).T
    assert up.tolist() == [7, 0] and down.tolist() == [0, 0]


def test_population_has_the_published_fields():
    low, high, m, beta = -2.0, 3.0, 7, 1.5
    x = np.linspace(-3, 4, 15).reshape(5, 3)
    encode = jax.jit(
        lambda x: encode_population(x, m, low=low, high=high, overlap=beta)
    )
    i = np.arange(1, m + 1)
    centres = low + (2 * i - 3) / 2 * (high - low) / (m - 2)
    sigma = (high - low) / (m - 2) / beta
    want = np.exp(-((x[..., None] - centres) ** 2) / (2 * sigma**2))
    np.testing.assert_allclose(encode(jnp.asarray(x)), want, rtol=1e-12, atol=1e-300)
    assert encode(jnp.asarray(x, jnp.bfloat16)).dtype == jnp.bfloat16
    # The nearest neuron fires first.
    spikes = encode_latency(encode(jnp.asarray(x)), 2000)
    first = np.argmax(np.asarray(spikes), axis=0)
    np.testing.assert_array_equal(np.argmin(first, -1), np.argmax(want, -1))


def test_latency_of_a_narrow_dtype_is_a_step_of_the_sequence():
    values = jnp.array([1e-3, 0.25, 1.0], jnp.bfloat16)
    steps = np.asarray(encode_latency(values, 1000)).argmax(0)
    np.testing.assert_array_equal(steps, [998, 749, 0])
    assert encode_latency(values, 1000).sum() == 3


def rate(values, n_steps=3):
    return encode_rate(values, n_steps, key=jax.random.key(0))


ONE = np.ones(1)


def population(values=ONE, n=5, low=0.0, high=1.0, overlap=1.5):
    return encode_population(values, n, low=low, high=high, overlap=overlap)


ENCODERS = [
    rate,
    lambda v: encode_latency(v, 3),
    lambda v: encode_delta(v, 1.0),
    population,
]


@pytest.mark.parametrize("encode", ENCODERS)
def test_refuses_bad_values(encode):
    for bad in (np.arange(3), np.zeros(3, bool), [0.1, 0.2], None, np.ones(2) * 1j):
        with pytest.raises(TypeError, match="`values`"):
            encode(bad)
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="`values` must be finite"):
            encode(np.array([0.5, bad]))


@pytest.mark.parametrize("encode", ENCODERS[1:])
def test_takes_numpy_read_only_and_strided_arrays(encode):
    values = np.linspace(0, 1, 24).reshape(4, 6)[:, ::2]
    values.setflags(write=False)
    got = encode(values)
    np.testing.assert_array_equal(
        got, encode(jnp.asarray(np.ascontiguousarray(values)))
    )
    assert isinstance(got, jax.Array) and encode(values[:1]).size > 0


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda: rate(jnp.array([1.5])), "at most 1"),
        (lambda: encode_latency(jnp.array([-0.1]), 3), "at least 0"),
        (lambda: encode_latency(jnp.array([0.1]), 0), "`n_steps`"),
        (lambda: rate(jnp.array([0.1]), 1.5), "`n_steps`"),
        (lambda: encode_delta(jnp.array(0.0), 1.0), "at least one step"),
        (lambda: encode_delta(jnp.zeros((0, 2)), 1.0), "at least one step"),
        (lambda: encode_delta(jnp.zeros(2), 0.0), "`threshold`"),
        (lambda: encode_delta(jnp.zeros(2), np.nan), "`threshold`"),
        (lambda: population(n=2), "`n_neurons`"),
        (lambda: population(low=1.0), "`low` must be less than `high`"),
        (lambda: population(high=np.nan), "`high`"),
        (lambda: population(overlap=0), "`overlap`"),
    ],
)
def test_refuses_bad_arguments(encode, message):
    with pytest.raises(ValueError, match=message):
        encode()
