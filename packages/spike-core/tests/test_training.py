"""Encoders, readouts, losses and a training step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from spike_core import (
    LIF,
    LeakyIntegrator,
    Scan,
    Sequential,
    accuracy,
    cross_entropy,
    encode_latency,
    encode_rate,
    time_mean,
    train_step,
)


def test_rate_is_the_probability():
    values = jnp.linspace(0, 1, 11)
    spikes = np.asarray(encode_rate(values, 4000, key=jax.random.key(1)))
    assert set(np.unique(spikes)) == {0, 1} and spikes.dtype == np.float32
    # five standard errors
    np.testing.assert_allclose(spikes.mean(0), values, atol=5 * 0.5 / np.sqrt(4000))
    assert spikes[:, 0].sum() == 0 and spikes[:, -1].sum() == 4000


def test_latency_fires_once_and_early_for_large_values():
    values = jnp.asarray(np.random.default_rng(0).uniform(0.001, 1, (4, 5)))
    spikes = np.asarray(encode_latency(values, 101, dtype=jnp.bfloat16), np.float64)
    np.testing.assert_array_equal(spikes.sum(0), 1)
    np.testing.assert_allclose(spikes.argmax(0), 100 * (1 - values), atol=0.5)
    assert encode_latency(jnp.zeros(3), 7).sum() == 0
    assert encode_latency(jnp.array(0.3), 1).tolist() == [1.0]


@pytest.mark.parametrize(
    "encode",
    [lambda v, n: encode_rate(v, n, key=jax.random.key(0)), encode_latency],
    ids=["rate", "latency"],
)
@pytest.mark.parametrize(
    ("values", "n_steps", "error", "message"),
    [
        (jnp.array([1.5]), 3, ValueError, "`values` must be finite and at least 0"),
        (jnp.array([-0.1]), 3, ValueError, "got -0.1"),
        (jnp.array([np.nan]), 3, ValueError, "got nan"),
        (jnp.array([1]), 3, TypeError, "`values` must have a real floating dtype"),
        ([0.5], 3, TypeError, "`values` must be an array"),
        (jnp.array([0.5]), 0, ValueError, "`n_steps` must be an integer >= 1"),
        (jnp.array([0.5]), 2.0, ValueError, "`n_steps`"),
    ],
)
def test_encoders_refuse_bad_input(encode, values, n_steps, error, message):
    with pytest.raises(error, match=message):
        encode(values, n_steps)


def test_encoders_take_an_empty_batch():
    assert encode_latency(jnp.zeros((0, 3)), 4).shape == (4, 0, 3)
    assert encode_rate(jnp.zeros((0, 3)), 4, key=jax.random.key(0)).shape == (4, 0, 3)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy(smoothing):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(6, 5)), rng.integers(0, 5, 6)
    target = np.eye(5)[labels] * (1 - smoothing) + smoothing / 5
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    got = cross_entropy(jnp.asarray(logits), labels, label_smoothing=smoothing)
    np.testing.assert_allclose(got, -(target * log_p).sum(-1).mean(), rtol=1e-12)


def test_accuracy():
    logits = jnp.asarray([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0], [0.0, 3.0, 2.0]])
    for dtype in (np.int64, np.int32, np.uint8):  # as data sets keep their labels
        labels = np.array([2, 0, 2], dtype)
        np.testing.assert_allclose(accuracy(logits, labels), 2 / 3, rtol=1e-6)


@pytest.mark.parametrize("score", [cross_entropy, accuracy])
@pytest.mark.parametrize(
    ("logits", "labels", "error", "message"),
    [
        (jnp.zeros((2, 3), int), jnp.zeros(2, int), TypeError, "`logits` must have a"),
        (jnp.zeros((2, 3)), jnp.zeros(2), TypeError, "`labels` must be an array of"),
        (jnp.zeros((2, 3)), [0, 1], TypeError, "got list"),
        (jnp.zeros((2, 3)), jnp.zeros(3, int), ValueError, "`labels` must have the"),
        (jnp.zeros((2, 3)), jnp.zeros((2, 1), int), ValueError, r"\(2,\), got \(2, 1"),
        (jnp.zeros((2, 3)), jnp.array([0, 3]), ValueError, "at most 2, got 3"),
        (jnp.zeros((2, 3)), jnp.array([0, -1]), ValueError, "at least 0"),
        (jnp.zeros((0, 3)), jnp.zeros(0, int), ValueError, "must not be empty"),
    ],
)
def test_scores_refuse_bad_input(score, logits, labels, error, message):
    with pytest.raises(error, match=message):
        score(logits, labels)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, np.nan])
def test_cross_entropy_refuses_bad_smoothing(smoothing):
    with pytest.raises(ValueError, match="`label_smoothing`"):
        cross_entropy(jnp.zeros((2, 3)), jnp.zeros(2, int), label_smoothing=smoothing)


def _loss(ys, labels):
    return cross_entropy(time_mean(ys), labels)


def test_training_learns_and_leaves_the_frozen_alone():
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(4, 16, rngs=rngs),
        LIF(16, tau=5.0, trainable=("threshold",)),
        nnx.Linear(16, 2, rngs=rngs),
        LeakyIntegrator(2),
    )
    optimizer = nnx.Optimizer(net, optax.adam(0.02), wrt=nnx.Param)
    labels = np.arange(16) % 2
    rates = np.where(labels[:, None] == [0, 0, 1, 1], 0.8, 0.1).astype(np.float32)
    xs = 4 * encode_rate(jnp.asarray(rates), 20, key=jax.random.key(0))
    before = net.layers[1].parameters
    losses = [
        float(train_step(net, optimizer, xs, labels, loss=_loss)) for _ in range(60)
    ]
    assert losses[-1] < 0.2 * losses[0]
    after = net.layers[1].parameters
    assert after.log_tau == before.log_tau and after.threshold != before.threshold


def test_training_step_takes_a_strategy_and_refuses_bad_input():
    net = Sequential(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), LIF(2))
    optimizer = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param)
    xs = jnp.ones((3, 2, 2), jnp.float32)
    value = train_step(
        net, optimizer, xs, jnp.zeros(2, int), loss=_loss, strategy=Scan(unroll=3)
    )
    assert np.isfinite(value)
    with pytest.raises(ValueError, match="`loss` must return a scalar"):
        train_step(net, optimizer, xs, 0, loss=lambda ys, _: ys)
    with pytest.raises(TypeError, match="`strategy`"):
        train_step(net, optimizer, xs, 0, loss=_loss, strategy="fast")
