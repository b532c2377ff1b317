"""Readouts, with sequences of unequal length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spike_core import (
    LIF,
    first_spike_time,
    time_max,
    time_mean,
    time_sum,
    unroll,
)

READOUTS = [time_sum, time_mean, time_max, first_spike_time]
every_readout = pytest.mark.parametrize("readout", READOUTS)
YS = np.random.default_rng(0).normal(size=(9, 4, 3))
LENGTHS = np.array([9, 1, 5, 8])


def first(spikes):
    return np.where(spikes.any(0), spikes.argmax(0), len(spikes))


@pytest.mark.parametrize(
    ("readout", "by_numpy"),
    [(time_sum, np.sum), (time_mean, np.mean), (time_max, np.max)],
)
def test_equals_numpy(readout, by_numpy):
    np.testing.assert_allclose(readout(jnp.asarray(YS)), by_numpy(YS, axis=0))
    got = np.asarray(readout(jnp.asarray(YS), LENGTHS))
    for i, n in enumerate(LENGTHS):
        np.testing.assert_allclose(got[i], by_numpy(YS[:n, i], axis=0))


def test_first_spike_time():
    spikes = (YS > 1.0).astype(float)
    np.testing.assert_array_equal(first_spike_time(jnp.asarray(spikes)), first(spikes))
    got = np.asarray(first_spike_time(jnp.asarray(spikes), LENGTHS))
    for i, n in enumerate(LENGTHS):
        np.testing.assert_array_equal(got[i], first(spikes[:n, i]))


def test_more_input_makes_the_first_spike_come_earlier():
    def when(x):
        return first_spike_time(unroll(LIF(1, tau=5.0), jnp.full((20, 1), x))[1])[0]

    assert jax.jit(jax.grad(when))(1.3) < 0


@every_readout
def test_what_does_not_count_gets_no_gradient(readout):
    gradient = jax.grad(lambda ys: readout(ys, LENGTHS).sum())(jnp.asarray(YS))
    for i, n in enumerate(LENGTHS):
        assert not np.asarray(gradient)[n:, i].any()
    assert np.isfinite(gradient).all() and np.asarray(gradient)[0].any()


@every_readout
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_time_may_stand_elsewhere(readout, lengths):
    spikes = jnp.asarray((YS > 1.0).astype(float))
    got = readout(spikes.swapaxes(0, 1), lengths, time_axis=1)
    np.testing.assert_allclose(got, readout(spikes, lengths))
    with pytest.raises(ValueError, match="`time_axis` must be an axis of `ys`"):
        readout(spikes, time_axis=3)


@every_readout
def test_is_float32_at_least(readout):
    many = jnp.zeros((1000, 2, 1), jnp.bfloat16).at[-1].set(1)
    assert readout(many).dtype == jnp.float32
    assert readout(many.astype(jnp.float64)).dtype == jnp.float64
    assert first_spike_time(many)[0, 0] == 999


@every_readout
@pytest.mark.parametrize(
    ("ys", "lengths", "error", "message"),
    [
        (np.zeros((0, 2, 3)), None, ValueError, "`ys` must have at least one step"),
        (np.array(1.0), None, ValueError, "`ys` must have at least one step"),
        (np.zeros((4, 3), int), None, TypeError, "`ys` must have a real floating"),
        ([[1.0]], None, TypeError, "`ys` must be an array"),
        (YS, np.array([1.0, 2, 3, 4]), TypeError, "`lengths` must be an array of"),
        (YS, [1, 2, 3, 4], TypeError, "got list"),
        (YS, np.array([1, 2]), ValueError, r"the batch axes of `ys`, \(4,\), got \(2"),
        (YS, np.array([0, 1, 1, 1]), ValueError, "`lengths` must be finite and at lea"),
        (YS, np.array([1, 10, 1, 1]), ValueError, "at most 9, got 10"),
        (YS[:, 0, 0], np.array(3), ValueError, "`lengths` must have the shape"),
    ],
)
def test_refuses_bad_input(readout, ys, lengths, error, message):
    with pytest.raises(error, match=message):
        readout(ys, lengths)
