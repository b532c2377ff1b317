"""What every built-in neuron must do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import EIF, QIF, AdEx, Frozen, Izhikevich, unroll

from .models import MODELS

every_neuron = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def drive(make, shape, dtype=jnp.float32):
    values = np.random.default_rng(0).uniform(make.low, make.high, shape)
    return jnp.asarray(values, dtype)


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

    @jax.jit
    def whole_and_halves(xs):
        middle, first = unroll(neuron, xs[:15])
        return unroll(neuron, xs), first, unroll(neuron, xs[15:], middle)

    (state, ys), first, (end, second) = whole_and_halves(drive(make, (30, 4, 3)))
    assert np.any(np.asarray(ys) != 0)
    np.testing.assert_array_equal(ys, np.concatenate([first, second]))
    jax.tree.map(np.testing.assert_array_equal, state, end)


@every_neuron
def test_no_step_changes_nothing(make):
    neuron = make(3)
    state, ys = unroll(neuron, drive(make, (0, 2, 3)))
    assert ys.shape == (0, 2, 3)
    jax.tree.map(np.testing.assert_array_equal, state, neuron.initial_state((2,)))


@every_neuron
def test_can_be_built_while_tracing(make):
    xs = drive(make, (20, 3))

    def run(value):
        return unroll(make(3, **{make.parameter: value}), xs)[1]

    values = jnp.array(make.values, jnp.float32)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(run))(values)[1], run(make.values[1]), rtol=1e-5, atol=1e-6
    )
    assert jax.eval_shape(run, values[0]).shape == xs.shape
    assert nnx.eval_shape(lambda: make(3)).features == (3,)


@every_neuron
def test_per_neuron_parameters_act_per_neuron(make):
    xs = drive(make, (40, 2, 3))
    values = jnp.array(make.values, jnp.float32)

    def one(value, xs):
        return unroll(make(1, **{make.parameter: value}), xs[..., None])[1][..., 0]

    @jax.jit
    def both(values, xs):
        alone = jax.vmap(one, in_axes=(0, 2), out_axes=2)(values, xs)
        return unroll(make(3, **{make.parameter: values}), xs)[1], alone

    together, alone = both(values, xs)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    assert np.any(np.asarray(together) != 0)


@every_neuron
def test_parameters_are_learned_or_frozen(make):
    # One for each neuron, in single precision; `test_reverse` has the scalars.
    xs = drive(make, (40, 2, 3))
    value = np.array(make.values)

    @nnx.jit
    @nnx.grad
    def gradient(neuron):
        return jnp.sum(unroll(neuron, xs)[1])

    names = [*neuron_parameters(make(1))]
    frozen = make(3, **{make.parameter: value})
    assert not jax.tree.leaves(nnx.state(frozen, nnx.Param))
    assert set(nnx.state(frozen, Frozen)) == set(names)
    trainable = tuple(name.removeprefix("log_") for name in names)
    trained = make(3, **{make.parameter: value}, trainable=trainable)
    gradients = gradient(trained)
    assert set(gradients) == set(names)
    for name in names:
        assert np.isfinite(gradients[name][...]).all(), name
    name = make.parameter if make.parameter in names else f"log_{make.parameter}"
    assert gradients[name][...].shape == value.shape
    assert np.all(np.asarray(gradients[name][...]) != 0)


def neuron_parameters(neuron):
    """Names of the parameters that a neuron has with its settings."""
    parameters = neuron.parameters
    for name, value in zip(parameters._fields, parameters, strict=True):
        if not isinstance(value, tuple):
            yield name


@every_neuron
def test_parameters_in_float64(make):
    value = make.values[0] * 1.123456789012345
    neuron = make(2, **{make.parameter: value}, param_dtype=jnp.float64)
    assert neuron.initial_state().v.dtype == jnp.float64
    if hasattr(neuron, f"log_{make.parameter}"):
        stored = np.exp(getattr(neuron.parameters, f"log_{make.parameter}"))
    else:
        stored = getattr(neuron.parameters, make.parameter)
    np.testing.assert_allclose(stored, value, rtol=1e-14)


@every_neuron
def test_step_is_pure(make):
    neuron = make(3)
    x = drive(make, (2, 3))
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
def test_refuses_bad_parameters(make):
    name = make.parameter
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match=f"`{name}` must be finite"):
            make(3, **{name: value})
    if hasattr(make(3), f"log_{name}"):
        for value in (0.0, -1.0):
            with pytest.raises(ValueError, match=f"`{name}` must be finite and "):
                make(3, **{name: value})
    with pytest.raises(ValueError, match=f"`{name}` must be a scalar or"):
        make(3, **{name: np.ones(4)})
    with pytest.raises(TypeError, match=f"`{name}` must be a number"):
        make(3, **{name: "slow"})


@pytest.mark.parametrize("kind", [AdEx, EIF, Izhikevich, QIF])
def test_refuses_to_run_away(kind):
    with pytest.raises(ValueError, match="without a reset this membrane runs away"):
        kind(3, reset="none")
    with pytest.raises(ValueError, match="`substeps` must be an integer >= 1"):
        kind(3, substeps=0)


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
    with pytest.raises(TypeError, match=r"`state` must be a .*State"):
        make(3)((jnp.zeros(3),), jnp.ones(3, jnp.float32))


@every_neuron
def test_any_array_will_do(make):
    run = jax.jit(lambda xs: unroll(make(3), xs)[1])
    xs = np.array(drive(make, (10, 2, 6)))
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
    assert np.isfinite(run(np.full((10, 2, 3), 1e10, np.float32))).all()
