"""The closed form of the non-leaky neuron against the loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spike_parallel import integrate_and_fire

run = jax.jit(integrate_and_fire)


def loop(xs, threshold, v0):
    v, spikes = np.broadcast_to(v0, xs.shape[1:]), np.zeros_like(xs)
    for t, x in enumerate(xs):
        u = v + x
        spikes[t] = u > threshold
        v = u - threshold * spikes[t]
    return v, spikes


def check(xs, threshold, v0, closed_form):
    found = run(xs, threshold, v0)
    v, spikes = loop(xs, threshold, v0)
    assert bool(found.closed_form) == closed_form
    np.testing.assert_array_equal(found.spikes, spikes)
    np.testing.assert_array_equal(found.v, v)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.25, 1.0, 2.5]))
def test_dyadic_input_is_exact(seed, threshold):
    rng = np.random.default_rng(seed)
    most = int(threshold * 64)
    xs = rng.integers(-most, most + 1, (200, 3)) / 64
    v0 = rng.integers(-most, most + 1, 3) / 64
    check(xs, threshold, v0, closed_form=True)


def test_random_input_in_double_precision_is_that_of_the_loop():
    xs = np.random.default_rng(0).uniform(-1, 1, (5000, 20)) + 0.1
    found, (_, spikes) = run(np.minimum(xs, 1.0)), loop(np.minimum(xs, 1.0), 1.0, 0.0)
    assert bool(found.closed_form)
    np.testing.assert_array_equal(found.spikes, spikes)


def test_where_the_condition_fails_the_loop_is_run():
    xs = np.random.default_rng(0).integers(-64, 192, (200, 3)) / 64
    check(xs, 1.0, 0.0, closed_form=False)
    check(np.minimum(xs, 1.0), 1.0, np.float64(3.0), closed_form=False)


def test_a_membrane_at_the_threshold_does_not_fire():
    assert integrate_and_fire(np.full((4, 1), 0.5)).spikes[:, 0].tolist() == [
        0,
        0,
        1,
        0,
    ]


def test_not_a_number_is_left_to_the_loop():
    assert not integrate_and_fire(np.array([0.5, np.nan])).closed_form


def test_no_steps():
    found = integrate_and_fire(np.zeros((0, 3)), 1.0, 0.5)
    assert found.spikes.shape == (0, 3) and (found.v == 0.5).all()


@pytest.mark.parametrize(
    ("xs", "threshold", "v0", "message"),
    [
        (np.ones(3, int), 1.0, 0.0, "`xs` must have a floating dtype"),
        (np.ones(3, complex), 1.0, 0.0, "`xs` must have a real floating dtype"),
        (np.float64(1), 1.0, 0.0, "`xs` must have a time axis"),
        (np.ones((3, 2)), np.ones(3), 0.0, "`threshold` must broadcast to"),
        (np.ones(3), jnp.float32(1), 0.0, "`threshold` must have the dtype of `xs`"),
        (np.ones((3, 2)), 1.0, np.ones(3), "`v0` must broadcast to"),
    ],
)
def test_bad_input_is_named(xs, threshold, v0, message):
    with pytest.raises(ValueError, match=message):
        integrate_and_fire(xs, threshold, v0)
