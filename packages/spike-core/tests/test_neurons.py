"""What every built-in neuron must do; a new one joins by one line in `NEURONS`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, Frozen, LeakyIntegrator, unroll

NEURONS = {
    "LIF": LIF,
    "LIF zero": lambda *a, **k: LIF(*a, reset="zero", **k),
    "LIF value": lambda *a, **k: LIF(*a, reset="value", v_reset=-0.25, **k),
    "LIF none": lambda *a, **k: LIF(*a, reset="none", **k),
    "LIF refractory": lambda *a, **k: LIF(*a, refractory=3, **k),
    "LeakyIntegrator": LeakyIntegrator,
}
every_neuron = pytest.mark.parametrize("make", NEURONS.values(), ids=NEURONS)


def drive(shape, dtype=jnp.float32, seed=0):
    return 4 * jax.random.uniform(jax.random.key(seed), shape, dtype) - 0.5


@every_neuron
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("features", [5, (2, 3)])
def test_shapes(make, batch, features):
    neuron = make(features)
    xs = drive((7, *batch, *neuron.features))
    state, ys = unroll(neuron, xs)
    assert ys.shape == xs.shape
    like = neuron.initial_state(batch)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, like)


@every_neuron
@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (jnp.bfloat16, jnp.float32),
        (jnp.float16, jnp.float32),
        (jnp.float32, jnp.float32),
        (jnp.float64, jnp.float64),
    ],
)
def test_dtypes(make, dtype, kept):
    state, ys = unroll(make(3), drive((5, 3), dtype))
    assert ys.dtype == dtype
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert leaf.dtype == kept


@every_neuron
def test_state_can_be_carried_over(make):
    neuron = make(3)
    xs = drive((30, 4, 3))
    state, ys = unroll(neuron, xs)
    middle, first = unroll(neuron, xs[:13])
    end, second = unroll(neuron, xs[13:], middle)
    np.testing.assert_array_equal(ys, jnp.concatenate([first, second]))
    jax.tree.map(np.testing.assert_array_equal, state, end)


@every_neuron
@pytest.mark.parametrize("steps", [0, 1])
def test_no_and_one_step(make, steps):
    neuron = make(3)
    state, ys = unroll(neuron, drive((steps, 2, 3)))
    assert ys.shape == (steps, 2, 3)
    if not steps:
        jax.tree.map(np.testing.assert_array_equal, state, neuron.initial_state((2,)))


@every_neuron
def test_can_be_built_while_tracing(make):
    xs = drive((20, 3))

    def run(tau):
        return unroll(make(3, tau=tau), xs)[1]

    expected = run(10.0)
    np.testing.assert_array_equal(jax.jit(run)(jnp.float32(10.0)), expected)
    taus = jnp.array([10.0, 20.0], jnp.float32)
    np.testing.assert_array_equal(jax.vmap(run)(taus)[0], expected)
    assert jax.eval_shape(run, jnp.float32(10.0)).shape == xs.shape
    assert nnx.eval_shape(lambda: make(3)).features == (3,)


@every_neuron
def test_per_neuron_parameters_act_per_neuron(make):
    taus = np.array([5.0, 10.0, 40.0])
    xs = drive((40, 2, 3))
    _, together = unroll(make(3, tau=taus), xs)
    for i, tau in enumerate(taus):
        _, alone = unroll(make(1, tau=tau), xs[..., i : i + 1])
        np.testing.assert_allclose(together[..., i : i + 1], alone, rtol=1e-6)


@every_neuron
@pytest.mark.parametrize("tau", [8.0, [5.0, 8.0, 20.0]])
def test_tau_is_learned_or_frozen(make, tau):
    xs = drive((40, 2, 3))

    def loss(neuron):
        return jnp.sum(unroll(neuron, xs)[1])

    frozen = make(3, tau=np.array(tau))
    assert not jax.tree.leaves(nnx.state(frozen, nnx.Param))
    assert "log_tau" in nnx.state(frozen, Frozen)
    trained = make(3, tau=np.array(tau), trainable=("tau",))
    grad = nnx.grad(loss)(trained)["log_tau"][...]
    assert grad.shape == np.shape(tau)
    assert np.all(np.isfinite(grad)) and np.all(grad != 0)


@every_neuron
def test_parameters_in_float64(make):
    tau = 7.123456789012345
    neuron = make(2, tau=tau, param_dtype=jnp.float64)
    assert neuron.initial_state().v.dtype == jnp.float64
    np.testing.assert_allclose(jnp.exp(neuron.parameters.log_tau), tau, rtol=1e-15)


@every_neuron
def test_step_is_pure(make):
    neuron = make(3)
    x = drive((2, 3))
    state = neuron.initial_state((2,))
    before = nnx.state(neuron)
    got = neuron.step(neuron.parameters, state, x)
    jax.tree.map(np.testing.assert_array_equal, got, neuron(state, x))
    jax.tree.map(np.testing.assert_array_equal, before, nnx.state(neuron))


@every_neuron
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": 0}, "`features`"),
        ({"features": -2}, "`features`"),
        ({"features": 2.5}, "`features`"),
        ({"features": (3, 0)}, "`features`"),
        ({"features": "3"}, "`features`"),
        ({"tau": 0.0}, "`tau` must be finite and greater than 0, got 0.0"),
        ({"tau": -1.0}, "`tau`"),
        ({"tau": float("nan")}, "`tau`"),
        ({"tau": float("inf")}, "`tau`"),
        ({"tau": np.ones(4)}, "`tau` must be a scalar or have the shape"),
        ({"dt": 0.0}, "`dt`"),
        ({"trainable": ("weight",)}, "`trainable`"),
        ({"trainable": "tau"}, "`trainable`"),
        ({"param_dtype": jnp.int32}, "`param_dtype`"),
    ],
    ids=str,
)
def test_refuses_bad_arguments(make, arguments, message):
    arguments = {"features": 3, **arguments}
    with pytest.raises(ValueError, match=message):
        make(arguments.pop("features"), **arguments)


@every_neuron
def test_refuses_text_as_number(make):
    with pytest.raises(TypeError, match="`tau` must be a number"):
        make(3, tau="slow")


@every_neuron
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (jnp.ones((2, 4), jnp.float32), ValueError, r"`x` must end in the features"),
        (jnp.ones((), jnp.float32), ValueError, r"`x` must end in the features"),
        (jnp.ones((2, 3), jnp.int32), TypeError, "real floating dtype, got int32"),
        (jnp.ones((2, 3), bool), TypeError, "real floating dtype, got bool"),
        (jnp.ones((2, 3), jnp.complex64), TypeError, "got complex64"),
        (jnp.ones((5, 3), jnp.float32), ValueError, r"`state` must have the shape"),
        ([1.0, 2.0, 3.0], TypeError, "`x` must be an array, got list"),
    ],
)
def test_refuses_bad_input(make, x, error, message):
    neuron = make(3)
    with pytest.raises(error, match=message):
        neuron(neuron.initial_state((2,)), x)


@every_neuron
def test_refuses_another_state(make):
    with pytest.raises(TypeError, match=r"`state` must be a L.*State"):
        make(3)((jnp.zeros(3),), jnp.ones(3, jnp.float32))


@every_neuron
def test_any_array_will_do(make):
    xs = np.asarray(drive((10, 2, 6)))
    expected = unroll(make(3), jnp.asarray(xs[..., ::2]))[1]
    strided = xs[..., ::2]
    strided.flags.writeable = False
    np.testing.assert_array_equal(unroll(make(3), strided)[1], expected)


@every_neuron
def test_not_a_number_stays_in_its_lane(make):
    xs = drive((10, 2, 3)).at[4, 1, 2].set(jnp.nan)
    clean = unroll(make(3), drive((10, 2, 3)))[1]
    ys = unroll(make(3), xs)[1]
    keep = np.ones((2, 3), bool)
    keep[1, 2] = False
    np.testing.assert_array_equal(ys[:, keep], clean[:, keep])


@every_neuron
def test_huge_input_stays_finite(make):
    _, ys = unroll(make(3), jnp.full((5, 3), 1e30, jnp.float32))
    assert np.isfinite(ys).all()
