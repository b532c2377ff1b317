"""`verified_scan` and the pointers against the loop, bit for bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from spike_core import LIF, LeakyIntegrator, Sequential
from spike_parallel import verified_scan
from spike_parallel.experimental import pointer_scan, successor_pointers

pytestmark = pytest.mark.usefixtures("fully_optimised")

RESETS = ["subtract", "zero", "value"]


def lif(reset, dtype=jnp.float32, **kwargs):
    tau = jnp.array([2.0, 10.0, 40.0, 19.0])
    value = {"v_reset": -0.5} if reset == "value" else {}
    return LIF(
        4, reset=reset, tau=tau, input_gain="unit", param_dtype=dtype, **value, **kwargs
    )


def drive(kind, steps, dtype=jnp.float32):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(steps, 3, 4))
    kinds = {
        "noise": noise,
        "dense": 0.8 + noise,
        "sparse": 0.25 * noise,
        "constant": np.full_like(noise, 0.15),
        "silent": np.full_like(noise, -0.1),
    }
    return jnp.asarray(kinds[kind], dtype)


@functools.cache
def compiled_loop(step):
    return jax.jit(lambda state, xs: lax.scan(step, state, xs))


def loop(step, state, xs):
    return compiled_loop(step)(state, xs)


def verified(step, state, xs, **settings):
    """Compile it whole, as the loop is."""
    return jax.jit(lambda xs: verified_scan(step, state, xs, **settings))(xs)


def assert_same(found, expected):
    for mine, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("refractory", [0, 3])
def test_the_result_is_that_of_the_loop_bit_for_bit(reset, refractory):
    net = lif(reset, refractory=refractory)
    state = net.initial_state((3,))
    run = jax.jit(lambda xs: verified_scan(net, state, xs, chunk=100, max_sweeps=9))
    for kind in ("noise", "dense", "sparse", "constant", "silent"):
        xs = drive(kind, 1050)
        found = run(xs)
        assert_same(found[:2], loop(net, state, xs))
        assert 1 <= int(found.sweeps) <= 9


def test_a_reset_to_a_value_forgets_at_the_next_spike():
    net = lif("zero")
    xs = drive("dense", 2000)
    found = verified(net, net.initial_state((3,)), xs, chunk=250)
    assert int(found.sweeps) == 1 and not bool(found.sequential)


def test_it_says_when_the_sequential_scan_had_to_run():
    net = lif("subtract")
    xs, state = drive("constant", 1000), net.initial_state((3,))
    # Compiled like the loop: the decay is a constant of the program in both.
    found = jax.jit(
        lambda xs: verified_scan(net, state, xs, chunk=50, warmup=1, max_sweeps=1)
    )(xs)
    assert bool(found.sequential) and int(found.sweeps) == 1
    assert_same(found[:2], loop(net, state, xs))


def test_as_many_sweeps_as_chunks_always_prove():
    def step(state, x):  # never forgets, and any guess is wrong
        return state * 3 + x, state

    state = jnp.ones((), jnp.int32)
    xs = jnp.arange(64, dtype=jnp.int32)
    found = verified_scan(step, state, xs, chunk=8, warmup=7, max_sweeps=8)
    assert int(found.sweeps) == 8 and not bool(found.sequential)
    assert_same(found[:2], lax.scan(step, state, xs))


def test_trees_of_input_and_output():
    net = lif("zero")

    def step(state, x):
        state, y = net(state, x["left"] - x["right"])
        return state, {"out": y}

    xs = {"left": drive("dense", 1000), "right": drive("sparse", 1000)}
    state = net.initial_state((3,))
    found = verified(step, state, xs, chunk=200, max_sweeps=5)
    assert not bool(found.sequential)
    assert_same(found[:2], loop(step, state, xs))


def test_a_network_equals_the_loop_to_the_last_digit():
    net = Sequential(lif("zero"), LeakyIntegrator(4, tau=3.0))
    xs, state = drive("dense", 1000), net.initial_state((3,))
    found = verified_scan(net, state, xs, chunk=200, max_sweeps=5)
    assert not bool(found.sequential)
    for mine, theirs in zip(
        jax.tree.leaves(found[:2]), jax.tree.leaves(loop(net, state, xs)), strict=True
    ):
        # The compiler may contract multiply-adds differently in the two programs.
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


def test_chunk_follows_the_slowest_decay():
    net = lif("zero")
    xs = drive("dense", 3000)
    # ln(1 / eps) / (1 - exp(-1 / 40)), with the eps of float32, is 646 steps.
    found = verified(net, net.initial_state((3,)), xs)
    same = verified(net, net.initial_state((3,)), xs, chunk=646)
    assert_same(found, same)
    short = verified(net, net.initial_state((3,)), xs[:700])
    assert bool(short.sequential) and int(short.sweeps) == 0


def test_not_a_number_is_never_proved_but_still_right():
    net = lif("zero")
    xs = drive("noise", 400).at[20].set(jnp.nan)
    state = net.initial_state((3,))
    found = verified(net, state, xs, chunk=50)
    assert_same(found[:2], loop(net, state, xs))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 3}, "`step` must be callable, got int"),
        (
            {"step": lambda s, x: (s, x)},
            "`chunk` must be given: `step` is not a neuron",
        ),
        ({"chunk": 0}, "`chunk` must be an integer of at least 1, got 0"),
        ({"chunk": 4, "warmup": 5}, "`warmup` must be at most `chunk`, 4, got 5"),
        ({"chunk": 4, "warmup": 0}, "`warmup` must be an integer of at least 1"),
        (
            {"chunk": 4, "max_sweeps": 0},
            "`max_sweeps` must be an integer of at least 1",
        ),
        ({"xs": (jnp.ones(3), jnp.ones(4))}, "`xs` must have arrays with one common"),
        ({"xs": jnp.float32(1)}, "`xs` must have arrays with one common"),
        ({"xs": ()}, "`xs` must have arrays with one common"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    net = lif("zero")
    usual = {"step": net, "state": net.initial_state((3,)), "xs": drive("noise", 20)}
    with pytest.raises(ValueError, match=message):
        verified_scan(**(usual | arguments))


def test_traced_time_constants_ask_for_a_chunk():
    @jax.jit
    def run(tau):
        net = LIF(4, tau=tau)
        return verified_scan(net, net.initial_state((3,)), drive("noise", 20)).ys

    with pytest.raises(ValueError, match=r"`chunk` must be given: .* traced"):
        run(3.0)


def test_no_steps():
    net = lif("zero")
    _, ys, sweeps, sequential = verified_scan(
        net, net.initial_state((3,)), drive("noise", 0), chunk=4
    )
    assert ys.shape == (0, 3, 4) and int(sweeps) == 0 and bool(sequential)


def reset_loop(decay, drive, threshold, v0, v_reset, refractory):
    """The definition, in NumPy float64 or float32."""
    v = np.broadcast_to(v0, drive.shape[1:]).astype(drive.dtype)
    left = np.zeros(drive.shape[1:], int)
    spikes, membranes, resting = [], [], []
    for b in drive:
        rests = left > 0
        u = np.where(rests, v, decay * v + b)
        fired = ~rests & (u > threshold)
        v = np.where(fired, v_reset, u).astype(drive.dtype)
        left = np.where(fired, refractory, np.maximum(left - 1, 0))
        spikes.append(fired)
        membranes.append(v)
        resting.append(left)
    return np.stack(spikes), np.stack(membranes), np.stack(resting)


DECAYS = np.array([0.02, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0])


@pytest.mark.parametrize(("v_reset", "refractory"), [(0.0, 0), (-0.5, 5), (0.4, 1)])
def test_pointers_equal_the_loop_in_double_precision(v_reset, refractory):
    rng = np.random.default_rng(1)
    shape = (700, 5, len(DECAYS))
    noise = rng.normal(size=shape)
    threshold = rng.uniform(0.5, 2.0, shape[2])
    v0 = rng.normal(size=shape[1:])
    run = jax.jit(
        lambda xs: successor_pointers(
            DECAYS, xs, threshold, v0=v0, v_reset=v_reset, refractory=refractory
        )
    )
    bursts = np.where(np.arange(700)[:, None, None] % 97 < 5, 1.0, -0.01)
    for xs in (noise, 0.5 + noise, 0.05 * noise, 0 * noise + 0.3, bursts + 0 * noise):
        found = run(xs)
        spikes, v, resting = reset_loop(DECAYS, xs, threshold, v0, v_reset, refractory)
        np.testing.assert_array_equal(found.spikes, spikes)
        np.testing.assert_array_equal(found.resting, resting)
        np.testing.assert_allclose(found.v, v, atol=1e-9)


@pytest.mark.parametrize("steps", [0, 1, 2, 17])
def test_pointers_for_any_number_of_steps(steps):
    xs = np.random.default_rng(2).normal(0.4, 1, (steps, 6))
    run = jax.jit(lambda xs: successor_pointers(0.9, xs, 1.0, refractory=2))
    found = run(xs)
    np.testing.assert_array_equal(
        found.spikes, reset_loop(0.9, xs, 1.0, 0.0, 0.0, 2)[0] if steps else xs > 0
    )


@pytest.mark.parametrize(("reset", "refractory"), [("zero", 0), ("value", 3)])
def test_verified_pointers_equal_the_loop_bit_for_bit(reset, refractory):
    net = lif(reset, refractory=refractory)
    state = net.initial_state((3,))
    run = jax.jit(lambda xs: pointer_scan(net, state, xs, chunk=128))
    regular = jnp.full((1100, 3, 4), 0.45, jnp.float32)
    for xs in (drive("noise", 1100), drive("dense", 1100), regular):
        found = run(xs)
        assert not bool(found.sequential) and int(found.sweeps) <= 2
        assert_same(found[:2], loop(net, state, xs))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drive": np.ones(3, int)}, "`drive` must have a floating dtype"),
        ({"drive": np.ones(3, np.float16)}, "`drive` must be float32 or float64"),
        ({"drive": np.float64(1)}, "`drive` must have a time axis"),
        ({"decay": np.ones(4)}, "`decay` must broadcast to"),
        ({"threshold": np.float32(1)}, "`threshold` must have the dtype of `drive`"),
        ({"refractory": -1}, "`refractory` must not be negative, got -1"),
        ({"refractory": 1.5}, "`refractory` must be an integer, got 1.5"),
    ],
)
def test_bad_arguments_of_pointers_are_named(arguments, message):
    usual = {"decay": 0.9, "drive": np.ones((5, 3)), "threshold": 1.0}
    with pytest.raises(ValueError, match=message):
        successor_pointers(**(usual | arguments))


def test_pointers_need_a_reset_to_a_value():
    net = lif("subtract")
    with pytest.raises(ValueError, match="`neuron` must be a LIF with"):
        pointer_scan(net, net.initial_state((3,)), drive("noise", 20), chunk=4)
