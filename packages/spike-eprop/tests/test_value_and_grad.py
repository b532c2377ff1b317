"""The traces against backpropagation through time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import ALIF, LIF, ATan, FastSigmoid, LeakyIntegrator, Sequential
from spike_eprop import value_and_grad

TOLERANCE = {jnp.float32: 1e-5, jnp.float64: 1e-11}


def squared(y, target):
    return ((y - target) ** 2).mean(-1)


def backprop(net, xs, targets, loss, mask=None, state=None):
    """The plain twin: reverse mode through a scan over time."""
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    if state is None:
        state = net.initial_state(xs.shape[1:-1])

    def mean_loss(params):
        module = nnx.merge(graphdef, params, rest)
        _, ys = jax.lax.scan(lambda s, x: module(s, x), state, xs)
        losses = jax.vmap(loss)(ys, targets)
        weights = jnp.ones_like(losses) if mask is None else mask.astype(losses.dtype)
        weights = weights.reshape(weights.shape + (1,) * (losses.ndim - weights.ndim))
        weights = jnp.broadcast_to(weights, losses.shape)
        return (weights * losses).sum() / weights.sum()

    return jax.jit(jax.value_and_grad(mean_loss))(params)


def by_traces(net, xs, targets, mask=None, **settings):
    @jax.jit
    def run(xs, targets, mask):
        return value_and_grad(net, xs, targets, squared, mask=mask, **settings)

    return run(xs, targets, mask)


def assert_same(found, wanted, tolerance):
    value, gradients = found
    reference, references = wanted
    np.testing.assert_allclose(value, reference, rtol=tolerance)
    assert jax.tree.structure(gradients) == jax.tree.structure(references)
    flat = dict(nnx.to_flat_state(references))
    for path, gradient in nnx.to_flat_state(gradients):
        wanted_here = np.asarray(flat[path][...])
        scale = np.abs(wanted_here).max()
        assert scale > 0, f"{path}: a reference of zeros tests nothing"
        error = np.abs(np.asarray(gradient[...]) - wanted_here).max() / scale
        assert error < tolerance, f"{path}: relative error {error:.2e}"
        assert gradient[...].dtype == flat[path][...].dtype


def data(steps, batch, inputs, outputs, dtype, seed=0):
    draw = np.random.default_rng(seed)
    xs = draw.normal(0.5, 1, (steps, *batch, inputs))
    targets = draw.normal(0, 1, (steps, *batch, outputs))
    return jnp.asarray(xs, dtype), jnp.asarray(targets, dtype)


def network(dtype, neuron=LIF, readout_tau=10.0, **settings):
    rngs = nnx.Rngs(0)
    usual = {"tau": 15.0, "threshold": 0.2, "trainable": ("tau", "threshold")}
    return Sequential(
        nnx.Linear(5, 7, rngs=rngs, param_dtype=dtype),
        neuron(7, param_dtype=dtype, **(usual | settings)),
        nnx.Linear(7, 3, rngs=rngs, param_dtype=dtype),
        LeakyIntegrator(3, tau=readout_tau, trainable=("tau",), param_dtype=dtype),
    )


class Case(NamedTuple):
    """A neuron, and how it is run: all differ, for a compilation is what costs."""

    neuron: type
    settings: dict
    dtype: type = jnp.float64
    batch: tuple = (4,)
    mask: tuple | None = None  # its shape
    goes_on: bool = False  # from a state other than the initial one


CASES = {
    "subtract, float32": Case(LIF, {"reset": "subtract"}, jnp.float32),
    "none, every leak its own, steps masked": Case(
        LIF,
        {
            "reset": "none",
            "tau": np.linspace(5, 30, 7),
            "readout_tau": np.array([3.0, 10.0, 30.0]),
        },
        mask=(30,),
    ),
    "detached, two batch axes, examples masked": Case(
        LIF,
        {"reset": "subtract", "detach_reset": True},
        batch=(2, 3),
        mask=(30, 2, 3),
    ),
    "value, no batch axis": Case(
        LIF,
        {
            "reset": "value",
            "v_reset": np.linspace(-0.1, 0, 7),
            "trainable": ("tau", "threshold", "v_reset", "slope"),
        },
        batch=(),
    ),
    "zero, refractory, from a state": Case(
        LIF,
        {
            "reset": "zero",
            "refractory": 2,
            "threshold": np.linspace(0.1, 0.3, 7),
            "surrogate": FastSigmoid(5.0),
        },
        goes_on=True,
    ),
    "adaptive": Case(
        ALIF,
        {
            "reset": "subtract",
            "trainable": ("tau", "threshold", "beta", "tau_adaptation"),
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_hidden_layer_has_the_gradient_of_backpropagation(name):
    case = CASES[name]
    net = network(case.dtype, case.neuron, **case.settings)
    xs, targets = data(30, case.batch, 5, 3, case.dtype)
    mask = state = None
    if case.mask is not None:
        mask = jnp.asarray(np.random.default_rng(5).random(case.mask) < 0.5)
    if case.goes_on:
        step = jax.jit(lambda x: net(net.initial_state(case.batch), x)[0])
        state = step(3 * xs[0])
    found = by_traces(net, xs, targets, mask, state=state)
    wanted = backprop(net, xs, targets, squared, mask, state)
    assert_same(found, wanted, TOLERANCE[case.dtype])


def test_a_readout_without_memory_and_weights_that_are_shared():
    dtype = jnp.float64
    rngs = nnx.Rngs(3)
    square = nnx.Linear(5, 5, rngs=rngs, param_dtype=dtype)
    net = Sequential(
        square,
        LIF(5, threshold=0.2, trainable=("tau",), param_dtype=dtype),
        square,
        jax.nn.tanh,
        nnx.Linear(5, 3, rngs=rngs, param_dtype=dtype),
    )
    xs, targets = data(20, (4,), 5, 3, dtype)
    found = by_traces(net, xs, targets)
    assert_same(found, backprop(net, xs, targets, squared), 1e-11)


def test_convolutions_are_covered():
    rngs = nnx.Rngs(2)
    dtype = jnp.float64
    net = Sequential(
        nnx.Conv(2, 3, (3, 3), strides=2, rngs=rngs, param_dtype=dtype),
        LIF((3, 4, 3), threshold=0.1, trainable=("tau",), param_dtype=dtype),
        lambda x: x[..., 1:, ::2, :].reshape(*x.shape[:-3], -1),
        nnx.Linear(12, 2, rngs=rngs, param_dtype=dtype),
        LeakyIntegrator(2, tau=5.0, trainable=("tau",), param_dtype=dtype),
    )
    xs, targets = data(20, (3, 6, 7), 2, 2, dtype)
    targets = targets[:, :, 0, 0]
    found = by_traces(net, xs, targets)
    state = net.initial_state((3,))
    assert_same(found, backprop(net, xs, targets, squared, state=state), 1e-11)


class Habituating:
    """A user's own neuron: any class with two methods, two variables a unit."""

    class State(NamedTuple):
        v: jax.Array
        fatigue: jax.Array
        steps: jax.Array

    def __init__(self, features, dtype):
        self.features = features
        self.dtype = dtype

    def initial_state(self, batch_shape=()):
        shape = (*batch_shape, self.features)
        zero = jnp.zeros(shape, self.dtype)
        return self.State(zero, zero, jnp.zeros(shape, jnp.int32))

    def __call__(self, state, x):
        v = 0.9 * state.v + 0.3 * x
        spikes = ATan()(v - 0.2 - state.fatigue)
        v = v * (1 - spikes)
        fatigue = 0.8 * state.fatigue + 0.1 * spikes * jnp.tanh(v + x)
        return self.State(v, fatigue, state.steps + 1), spikes


def test_a_neuron_of_ones_own_and_layers_above_a_leaky_readout():
    dtype = jnp.float64
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(5, 7, rngs=rngs, param_dtype=dtype),
        Habituating(7, dtype),
        nnx.Linear(7, 3, rngs=rngs, param_dtype=dtype),
        LeakyIntegrator(3, param_dtype=dtype),
        jax.nn.tanh,
        nnx.Linear(3, 2, rngs=rngs, param_dtype=dtype),
    )
    xs, targets = data(30, (4,), 5, 2, dtype)
    found = by_traces(net, xs, targets)
    assert_same(found, backprop(net, xs, targets, squared), 1e-11)


@pytest.fixture(scope="module")
def small():
    """A compiled layer of neurons, a function of input, targets and mask."""
    net = Sequential(nnx.Linear(5, 3, rngs=nnx.Rngs(0)), LIF(3, threshold=0.05))
    return jax.jit(
        lambda xs, targets, mask: value_and_grad(net, xs, targets, squared, mask=mask)
    )


@pytest.mark.parametrize("dtype", [bool, np.int64])
def test_spikes_of_any_dtype_are_input(small, dtype):
    spikes = np.random.default_rng(0).random((10, 4, 5)) < 0.5
    _, targets = data(10, (4,), 5, 3, jnp.float32)
    mask = jnp.ones(10, jnp.float32)
    found = small(spikes.astype(dtype), targets, mask)
    wanted = small(jnp.asarray(spikes, jnp.float32), targets, mask)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_a_mask_of_zeros_under_jit_gives_zeros(small):
    xs, targets = data(10, (4,), 5, 3, jnp.float32)
    for leaf in jax.tree.leaves(small(xs, targets, jnp.zeros(10, jnp.float32))):
        assert not np.asarray(leaf).any()


def test_what_is_frozen_has_no_gradient():
    net = network(jnp.float32, trainable=("tau",))
    xs, targets = data(10, (4,), 5, 3, jnp.float32)
    _, gradients = jax.eval_shape(
        lambda xs, targets: value_and_grad(net, xs, targets, squared), xs, targets
    )
    assert list(gradients["layers"][1]) == ["log_tau"]


def test_memory_does_not_grow_with_time():
    net = network(jnp.float32, reset="subtract")

    def scratch(steps):
        xs, targets = data(steps, (4,), 5, 3, jnp.float32)
        run = jax.jit(lambda xs, targets: value_and_grad(net, xs, targets, squared))
        return run.lower(xs, targets).compile().memory_analysis().temp_size_in_bytes

    assert scratch(1000) == scratch(100)


class Mixing(Habituating):
    def __call__(self, state, x):
        return super().__call__(state, x - x.mean(-1, keepdims=True))


class WithMatrix(nnx.Module):
    def __init__(self):
        self.weights = nnx.Param(jnp.ones((7, 7)))

    def initial_state(self, batch_shape=()):
        return jnp.zeros((*batch_shape, 7))

    def __call__(self, state, x):
        state = 0.9 * state + x @ self.weights[...]
        return state, state


@jax.custom_vjp
def _backwards_only(u):
    return (u > 0).astype(u.dtype)


_backwards_only.defvjp(lambda u: (_backwards_only(u), u), lambda u, g: (g,))


class BackwardsOnly(Habituating):
    def __call__(self, state, x):
        v = 0.9 * state.v + x
        return state._replace(v=v), _backwards_only(v)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (lambda r: [nnx.Linear(5, 5, rngs=r), jnp.tanh], "must contain a neuron"),
        (
            lambda r: [nnx.LayerNorm(5, rngs=r), LIF(5)],
            r"layers\[0\] \(LayerNorm\).*parameters",
        ),
        (
            lambda r: [nnx.Linear(5, 7, rngs=r), jnp.tanh, LIF(7)],
            r"layers\[0\] \(Linear\).*parameters",
        ),
        (
            lambda r: [nnx.Conv(4, 4, (3,), feature_group_count=2, rngs=r), LIF(4)],
            r"layers\[0\] \(Conv\).*groups",
        ),
        (
            lambda r: [nnx.Conv(4, 4, (3,), padding="CAUSAL", rngs=r), LIF(4)],
            r"layers\[0\] \(Conv\).*`padding`.*'CAUSAL'",
        ),
        (
            lambda r: [nnx.Conv(4, 4, (3,), mask=jnp.ones((3, 4, 4)), rngs=r), LIF(4)],
            r"layers\[0\] \(Conv\).*masked",
        ),
        (lambda r: [Sequential(LIF(5))], r"layers\[0\] \(Sequential\)"),
        (lambda r: [Mixing(5, jnp.float32)], r"layers\[0\] \(Mixing\).*each other"),
        (lambda r: [WithMatrix()], r"layers\[0\] \(WithMatrix\).*weights.*\(7, 7\)"),
        (
            lambda r: [BackwardsOnly(5, jnp.float32)],
            r"layers\[0\] \(BackwardsOnly\).*custom_jvp",
        ),
    ],
)
def test_a_layer_that_is_not_covered_is_named(layers, message):
    net = Sequential(*layers(nnx.Rngs(0)))
    xs = jnp.ones((10, 2, 5))
    with pytest.raises(ValueError, match=message):
        value_and_grad(net, xs, xs, squared)


NET = network(jnp.float32, reset="subtract")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"net": LIF(5)}, TypeError, "`net` must be a spike_core.Sequential, got LIF"),
        ({"xs": [[1.0]]}, TypeError, "`xs` must be an array, got list"),
        ({"xs": jnp.float32(1)}, ValueError, "`xs`.*scalar"),
        ({"xs": jnp.zeros((0, 4, 5))}, ValueError, "`xs`.*at least one step"),
        ({"xs": jnp.zeros((10, 0, 5))}, ValueError, "`xs`.*at least one step, example"),
        ({"xs": jnp.full((10, 4, 5), jnp.nan)}, ValueError, "`xs` must be finite"),
        ({"xs": jnp.ones((10, 4, 5), complex)}, TypeError, "`xs` must be real"),
        ({"targets": jnp.zeros((4, 3))}, ValueError, "`targets`.*10.*got shape"),
        ({"targets": None}, ValueError, "`targets` must hold at least one array"),
        ({"loss": "mse"}, TypeError, "`loss` must be callable, got str"),
        (
            {"loss": lambda y, t: (y - t) ** 2},
            ValueError,
            r"`loss` must return one number an example, shape \(4,\), got shape \(4, 3",
        ),
        ({"loss": lambda y, t: jnp.mean(y - t)}, ValueError, r"got shape \(\)"),
        ({"mask": jnp.ones((4,))}, ValueError, r"`mask`.*\(10,\) or \(10, 4\)"),
        ({"mask": jnp.full((10,), jnp.nan)}, ValueError, "`mask` must be finite"),
        ({"mask": -jnp.ones((10,))}, ValueError, "`mask` must be .*nonnegative"),
        ({"mask": jnp.zeros((10,))}, ValueError, "`mask`.*only zeros"),
        ({"state": ()}, ValueError, "`state` must"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    good = {
        "net": NET,
        "xs": jnp.ones((10, 4, 5), jnp.float32),
        "targets": jnp.zeros((10, 4, 3), jnp.float32),
        "loss": squared,
    }
    with pytest.raises(error, match=message):
        value_and_grad(**(good | change))
