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


def drive(shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(0).uniform(-0.5, 3.5, shape), dtype)


@every_neuron
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("features", [5, (2, 3)])
def test_shapes(make, batch, features):
    neuron = make(features)
    xs = jax.ShapeDtypeStruct((7, *batch, *neuron.features), jnp.float32)
    state, ys = jax.eval_shape(lambda xs: unroll(neuron, xs), xs)
    assert ys.shape == xs.shape
    like = jax.eval_shape(lambda: neuron.initial_state(batch))
    assert state == like


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
    xs = jax.ShapeDtypeStruct((5, 3), dtype)
    state, ys = jax.eval_shape(lambda xs: unroll(make(3), xs), xs)
    assert ys.dtype == dtype
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert leaf.dtype == kept


@every_neuron
def test_state_can_be_carried_over(make):
    neuron = make(3)
    xs = drive((30, 4, 3))
    state, ys = unroll(neuron, xs)
    middle, first = unroll(neuron, xs[:15])
    end, second = unroll(neuron, xs[15:], middle)
    np.testing.assert_array_equal(ys, np.concatenate([first, second]))
    jax.tree.map(np.testing.assert_array_equal, state, end)


@every_neuron
def test_no_step_changes_nothing(make):
    neuron = make(3)
    state, ys = unroll(neuron, drive((0, 2, 3)))
    assert ys.shape == (0, 2, 3)
    jax.tree.map(np.testing.assert_array_equal, state, neuron.initial_state((2,)))


@every_neuron
def test_can_be_built_while_tracing(make):
    xs = drive((20, 3))

    def run(tau):
        return unroll(make(3, tau=tau), xs)[1]

    expected = run(10.0)
    taus = jnp.array([10.0, 20.0], jnp.float32)
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(taus)[0], expected, rtol=1e-5)
    assert jax.eval_shape(run, jnp.float32(10.0)).shape == xs.shape
    assert nnx.eval_shape(lambda: make(3)).features == (3,)


@every_neuron
def test_per_neuron_parameters_act_per_neuron(make):
    taus = jnp.array([5.0, 10.0, 40.0])
    xs = drive((40, 2, 3))
    together = unroll(make(3, tau=taus), xs)[1]
    one = lambda tau, xs: unroll(make(1, tau=tau), xs[..., None])[1][..., 0]  # noqa: E731
    alone = jax.vmap(one, in_axes=(0, 2), out_axes=2)(taus, xs)
    np.testing.assert_allclose(together, alone, rtol=1e-6)


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
    run = jax.jit(lambda xs: unroll(make(3), xs)[1])
    xs = np.array(drive((10, 2, 6)))
    expected = np.asarray(run(jnp.asarray(xs[..., ::2])))
    strided = xs[..., ::2]
    strided.flags.writeable = False
    np.testing.assert_array_equal(run(strided), expected)
    # What is not a number stays in its lane, and what is huge stays finite.
    xs[4, 1, 4] = np.nan
    keep = np.ones((2, 3), bool)
    keep[1, 2] = False
    np.testing.assert_array_equal(
        np.asarray(run(xs[..., ::2]))[:, keep], expected[:, keep]
    )
    assert np.isfinite(run(np.full((10, 2, 3), 1e30, np.float32))).all()
