"""`linear_recurrence` against the loop it replaces."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from spike_parallel import linear_recurrence
from spike_parallel._recurrence import _log_depth, _two_level, chunk_length

KINDS = ["diagonal", "diagonal varying", "block", "block varying"]
TOLERANCE = {jnp.float32: 2e-5, jnp.float64: 1e-13, jnp.complex64: 2e-5}

jitted = jax.jit(linear_recurrence, static_argnames="reverse")


def problem(kind, steps, dtype=jnp.float64, seed=0):
    """Random coefficients of one kind, input and initial state."""
    rng = np.random.default_rng(seed)
    block = kind.startswith("block")
    state = (3, 4, 2) if block else (3, 4)
    lead = steps if kind.endswith("varying") else 1
    shape = (lead, 1, 4, 2, 2) if block else (lead, 1, 4)
    a = rng.uniform(-0.7, 0.7, shape) if block else rng.uniform(0.0, 1.0, shape)
    b, v0 = rng.normal(size=(steps, *state)), rng.normal(size=state)
    return tuple(jnp.asarray(x, dtype) for x in (a, b, v0))


def loop(a, b, v0, *, reverse=False):
    """The plain loop, in NumPy."""
    a, b = np.asarray(a), np.asarray(b)
    block = a.ndim == b.ndim + 1
    a = np.broadcast_to(a, (len(b), *a.shape[1:]))
    v, out = np.broadcast_to(v0, b.shape[1:]), np.zeros_like(b)
    for t in reversed(range(len(b))) if reverse else range(len(b)):
        v = ((a[t] @ v[..., None])[..., 0] if block else a[t] * v) + b[t]
        out[t] = v
    return out


def scan(a, b, v0, *, reverse=False):
    """The plain loop, differentiable."""
    block = a.ndim == b.ndim + 1

    def step(v, inputs):
        a, b = inputs
        v = (a @ v[..., None])[..., 0] + b if block else a * v + b
        return v, v

    a = jnp.broadcast_to(a, (b.shape[0], *a.shape[1:]))
    return lax.scan(step, v0, (a, b), reverse=reverse)[1]


@pytest.mark.parametrize("solver", [_two_level, _log_depth])
@pytest.mark.parametrize("kind", KINDS)
def test_each_solver_equals_the_loop(kind, solver):
    compiled = jax.jit(solver, static_argnums=3)
    for steps, reverse in ((48, False), (13, True)):
        a, b, v0 = problem(kind, steps)
        expected = loop(a, b, v0, reverse=reverse)
        found = compiled(a, b, v0, reverse)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "reverse", "dtype"),
    [
        *((kind, True, jnp.float64) for kind in KINDS),
        ("diagonal", False, jnp.float32),
        ("diagonal varying", False, jnp.complex64),
        ("block", False, jnp.complex64),
        ("block varying", False, jnp.float32),
    ],
)
def test_values_and_gradients_equal_those_of_the_loop(kind, reverse, dtype):
    inputs = problem(kind, 13, dtype)
    weight = jnp.cos(jnp.arange(inputs[1].size)).reshape(inputs[1].shape)

    def loss(solve, a, b, v0):
        v = solve(a, b, v0, reverse=reverse)
        return (jnp.abs(v) ** 2 * weight.astype(jnp.abs(v).dtype)).sum()

    found, expected = (
        jax.jit(jax.value_and_grad(functools.partial(loss, solve), argnums=(0, 1, 2)))(
            *inputs
        )
        for solve in (linear_recurrence, scan)
    )
    for mine, theirs in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        assert mine.dtype == theirs.dtype
        scale = float(jnp.abs(theirs).max())
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE[dtype] * scale)


def test_gradient_of_the_gradient_equals_that_of_the_loop():
    a, b, v0 = problem("diagonal varying", 11)

    def curvature(solve):
        inner = jax.grad(lambda a: (solve(a, b, v0) ** 3).sum())
        return jax.grad(lambda a: (inner(a) ** 2).sum())(a)

    found, expected = (
        jax.jit(functools.partial(curvature, solve))()
        for solve in (linear_recurrence, scan)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@settings(deadline=None, max_examples=30)
@given(
    decay=st.sampled_from([0.0, 1e-300, 1e-8, 1.0]) | st.floats(0, 1),
    reverse=st.booleans(),
    seed=st.integers(0, 9),
)
def test_any_decay(decay, reverse, seed):
    _, b, v0 = problem("diagonal", 37, seed=seed)
    a = jnp.full((1, 1, 4), decay)
    expected = loop(a, b, v0, reverse=reverse)
    found = jitted(a, b, v0, reverse=reverse)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("cut", [0, 1, 17])
def test_the_state_carries_over_a_cut(cut):
    a, b, v0 = problem("block", 30)
    first = jitted(a, b[:cut], v0)
    second = jitted(a, b[cut:], first[-1] if cut else v0)
    np.testing.assert_allclose(
        jnp.concatenate([first, second]), jitted(a, b, v0), rtol=1e-11, atol=1e-12
    )


def test_a_long_sequence_with_a_slow_decay_stays_accurate():
    b = jnp.asarray(np.random.default_rng(0).normal(size=(20_000, 2)), jnp.float32)
    a = jnp.asarray([0.99999, 1e-30], jnp.float32)
    v0 = jnp.zeros(2, jnp.float32)
    exact = loop(*(np.asarray(x, np.float64) for x in (a[None], b, v0)))
    error = jnp.abs(jitted(a, b, v0).astype(jnp.float64) - exact).max(0)
    # 20,000 roundings in either order; the loop's own error is a few times smaller.
    assert (error < 5e-5 * jnp.abs(exact).max(0)).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_sixteen_bit_types_are_computed_in_single_precision(dtype):
    a, b, v0 = problem("diagonal", 100, dtype)
    wide = jitted(*(x.astype(jnp.float32) for x in (a, b, v0)))
    assert jitted(a, b, v0).dtype == dtype
    assert (jitted(a, b, v0) == wide.astype(dtype)).all()


@pytest.mark.parametrize("shape", [(0, 3), (5, 0), (0,)])
def test_empty_input_gives_empty_output(shape):
    b = jnp.zeros(shape)
    assert linear_recurrence(0.5, b, 0).shape == shape
    gradient = jax.grad(lambda b: linear_recurrence(0.5, b, 0).sum())(b)
    assert gradient.shape == shape


def test_two_steps_of_two_states_are_not_taken_for_a_block():
    a, b = jnp.array([[0.1, 0.2], [0.3, 0.4]]), jnp.ones((2, 2))
    np.testing.assert_allclose(
        linear_recurrence(a, b, 1.0), [[1.1, 1.2], [1.33, 1.48]], rtol=1e-12
    )
    block = linear_recurrence(a[None], b, 1.0)
    np.testing.assert_allclose(block[0], [1.3, 1.7], rtol=1e-12)


def test_it_maps_and_compiles():
    a, b, v0 = problem("diagonal", 20)
    mapped = jax.jit(jax.vmap(linear_recurrence, in_axes=(None, 1, 0), out_axes=1))
    found = mapped(a[0, 0], b, v0)
    expected = linear_recurrence(a[0, 0], b, v0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_not_a_number_stays_in_its_own_future():
    b = jnp.ones((9, 2)).at[4, 1].set(jnp.nan)
    lost = jnp.isnan(linear_recurrence(0.5, b, 0.0))
    assert lost.tolist() == [[False, t >= 4] for t in range(9)]


def test_input_may_be_read_only_and_strided():
    b = np.ones((40, 4))[::2, ::2]
    b.flags.writeable = False
    found = linear_recurrence(np.float64(0.5), b, 0)
    assert found.shape == (20, 2) and float(found[-1, 0]) == pytest.approx(2, 1e-5)


@pytest.mark.parametrize(
    ("a", "b", "v0", "message"),
    [
        (0.5, jnp.ones(3, jnp.int32), 0.0, "`b` must have a floating dtype"),
        (0.5, jnp.float64(1.0), 0.0, "`b` must have a time axis"),
        (0.5, "spikes", 0.0, "`b` must be an array of floats"),
        (0.5, None, 0.0, "`b` must"),
        (jnp.float32(0.5), jnp.ones(3), 0.0, "`a` must have the dtype of `b`"),
        (0.5, jnp.ones(3), jnp.float32(0), "`v0` must have the dtype of `b`"),
        (jnp.ones(4), jnp.ones((3, 5)), 0.0, r"`a` must broadcast to \(3, 5\)"),
        (jnp.ones(5), jnp.ones(3), 0.0, r"`a` must broadcast to \(3,\)"),
        (jnp.ones((1, 3, 2)), jnp.ones((3, 2)), 0.0, "`a` has one axis more"),
        (jnp.ones((9, 2, 2)), jnp.ones((3, 2)), 0.0, "`a` must broadcast"),
        (0.5, jnp.ones((3, 5)), jnp.ones(4), r"`v0` must broadcast to \(5,\)"),
        (0.5, jnp.ones(3), jnp.ones((1, 1)), r"`v0` must broadcast to \(\)"),
    ],
)
def test_bad_input_is_named(a, b, v0, message):
    with pytest.raises(ValueError, match=message):
        linear_recurrence(a, b, v0)


def test_chunks_are_neither_long_nor_many():
    for steps in range(1, 10_001):
        length = chunk_length(steps)
        assert 1 <= length <= 2 * steps**0.5, steps
        assert -(-steps // length) <= 2 * steps**0.5 + 3, steps
