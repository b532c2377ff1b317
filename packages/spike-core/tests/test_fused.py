from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from spike_core import (
    ALIF,
    IF,
    LIF,
    ATan,
    Boxcar,
    CubaLIF,
    Erf,
    Exponential,
    FastSigmoid,
    Fused,
    LeakyIntegrator,
    Logarithmic,
    MultiGaussian,
    PowerLaw,
    Scan,
    Sequential,
    Sigmoid,
    StraightThrough,
    Tanh,
    Triangular,
    _fused,
    _sparse_dense,
    unroll,
)

pytest.importorskip("spike_native", reason="Fused() needs spike-native")


def spiking(model, taus=(), others=()):
    """Return a function that draws a neuron of the class `model`."""

    def build(draw, features, values):
        reset = draw(st.sampled_from(["subtract", "value", "zero", "none"]))
        chosen = {"threshold": values(0.2, 0.8)}
        chosen |= {name: values(2.0, 40.0) for name in taus}
        chosen |= {name: values(-0.05, 0.3) for name in others}
        if reset == "value":
            chosen["v_reset"] = values(-0.4, 0.1)
        leak = {"input_gain": draw(st.sampled_from(["leak", "unit"]))} if taus else {}
        return model(
            features,
            reset=reset,
            detach_reset=draw(st.booleans()),
            refractory=draw(st.sampled_from([0, 0, 2])),
            surrogate=draw(st.sampled_from(SURROGATES)),
            trainable=tuple(chosen),
            param_dtype=jnp.float64,
            **chosen,
            **leak,
        )

    return build


def leaky_integrator(draw, features, values):
    return LeakyIntegrator(
        features,
        tau=values(2.0, 40.0),
        input_gain=draw(st.sampled_from(["leak", "unit"])),
        trainable=("tau",),
        param_dtype=jnp.float64,
    )


MODELS = [
    spiking(IF),
    spiking(LIF, ["tau"]),
    spiking(ALIF, ["tau", "tau_adaptation"], ["beta"]),
    spiking(CubaLIF, ["tau", "tau_synapse"]),
    leaky_integrator,
]
SURROGATES = [
    ATan(),
    FastSigmoid(slope=3.0),
    Sigmoid(),
    Tanh(),
    Erf(),
    Exponential(),
    Triangular(),
    Boxcar(),
    MultiGaussian(),
    PowerLaw(exponent=2.5),
    Logarithmic(),
    StraightThrough(),
]


@st.composite
def problems(draw):
    """Draw a neuron, its input and initial state, and cotangents, in float64."""
    steps = draw(st.sampled_from([0, 1, 2, 31, 32, 33, 70]))
    batch = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    features = draw(st.sampled_from([1, 5, 17, (2, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (features,) if isinstance(features, int) else features
    per_neuron = draw(st.booleans())

    def values(low, high):
        return rng.uniform(low, high, shape if per_neuron else ())

    neuron = draw(st.sampled_from(MODELS))(draw, features, values)
    xs = jnp.asarray(rng.normal(0.4, 1.5, (steps, *batch, *shape)))
    state = jax.tree.map(
        lambda leaf: jnp.asarray(
            rng.integers(0, 3, leaf.shape)
            if leaf.dtype == jnp.int32
            else rng.normal(0, 0.3, leaf.shape),
            leaf.dtype,
        ),
        neuron.initial_state(batch),
    )
    return neuron, xs, state, rng


# What a test computes is small: compiling is all the time it takes.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@partial(quick_jit, static_argnums=(0, 1))
def compare(graph, strategies, variables, xs, state, cotangents):
    """Outputs, last state and the gradients of everything that has one, by strategy."""

    def run(variables, xs, state, strategy):
        last, ys = unroll(nnx.merge(graph, variables), xs, state, strategy=strategy)
        return ys, last

    def value_and_gradients(strategy):
        arguments = variables, xs, state
        out, pull = jax.vjp(partial(run, strategy=strategy), *arguments)
        filled = jax.tree.map(
            lambda leaf, g: (
                np.zeros(leaf.shape, jax.dtypes.float0)
                if jnp.issubdtype(leaf.dtype, jnp.integer)
                else g.astype(leaf.dtype)
            ),
            out,
            cotangents,
        )
        grads = jax.tree.leaves(pull(filled))
        return jax.tree.leaves(out), [g for g in grads if g.dtype != jax.dtypes.float0]

    return [value_and_gradients(strategy) for strategy in strategies]


def cast(tree, dtype):
    return jax.tree.map(
        lambda leaf: (
            leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
        ),
        tree,
    )


def assert_close(got, expected, tolerance):
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        scale = np.abs(b).max(initial=1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def fused_and_scan(neuron, xs, state, rng):
    cotangents = (
        rng.normal(size=xs.shape),
        jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), state),
    )
    graph, variables = nnx.split(neuron)
    return compare(graph, (Fused(), Scan()), variables, xs, state, cotangents)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@settings(deadline=None, max_examples=4, derandomize=True)
@given(problem=problems())
def test_equals_scan(dtype, problem):
    neuron, xs, state, rng = problem
    graph, variables = nnx.split(neuron)
    neuron = nnx.merge(graph, cast(variables, dtype))
    (out, grads), (expected, expected_grads) = fused_and_scan(
        neuron, *cast((xs, state), dtype), rng
    )
    if dtype == jnp.float64:
        assert_close(out, expected, 1e-12)
        assert_close(grads, expected_grads, 1e-12)
        return
    same = np.array_equal(out[0], expected[0]) or isinstance(neuron, LeakyIntegrator)
    if not same:
        # A membrane within a rounding of its threshold: nothing to compare after it.
        assert (np.asarray(out[0]) != np.asarray(expected[0])).mean() < 0.02
        return
    assert_close(out, expected, 1e-6)
    assert_close(grads, expected_grads, 1e-5)


def network(rngs):
    return Sequential(
        nnx.Linear(6, 5, rngs=rngs),
        LIF(5, tau=10.0, trainable=("tau", "threshold")),
        nnx.Linear(5, 3, rngs=rngs),
        LeakyIntegrator(3),
    )


def inputs(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(0.5, 2.0, shape), jnp.float32)


def test_network_gradients_equal_scan(monkeypatch):
    monkeypatch.setattr(_fused, "_CHUNK_BYTES", 1)  # chunks of 8 steps
    net, xs = network(nnx.Rngs(0)), inputs(40, 4, 6)
    xs = jnp.where(xs > 3.5, xs, 0)  # sparse enough for sums of rows

    graph, variables = nnx.split(net)

    @quick_jit
    def gradients(variables, xs):
        def loss(variables, xs, strategy):
            _, ys = unroll(nnx.merge(graph, variables), xs, strategy=strategy)
            return jnp.mean(ys**2)

        both = jax.value_and_grad(loss, argnums=(0, 1))
        return [both(variables, xs, strategy) for strategy in (Scan(), Fused(), "auto")]

    expected, *others = gradients(variables, xs)
    for got in others:
        assert_close(jax.tree.leaves(got), jax.tree.leaves(expected), 1e-5)


@quick_jit
def dense_both_ways(linear, xs, cotangent):
    """Output and gradients of a dense layer, by rows where that pays, and by Flax."""
    graph, variables = linear

    def run(variables, xs, wrap):
        return wrap(nnx.merge(graph, variables))(xs)

    results = []
    for wrap in (_sparse_dense.SparseLinear, lambda linear: linear):
        ys, pull = jax.vjp(partial(run, wrap=wrap), variables, xs)
        results.append(jax.tree.leaves((ys, pull(cotangent))))
    return results


@settings(deadline=None, max_examples=10, derandomize=True)
@given(
    st.floats(0, 1),
    st.sampled_from([(jnp.float32, True, 1e-5), (jnp.float64, False, 1e-12)]),
    st.integers(0, 2**32 - 1),
)
def test_dense_layer_skips_zeros(density, kind, seed):
    dtype, use_bias, tolerance = kind
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(200, 130)) * (rng.random((200, 130)) < density)
    linear = nnx.Linear(130, 70, use_bias=use_bias, param_dtype=dtype, rngs=nnx.Rngs(0))
    cotangent = jnp.asarray(rng.normal(size=(200, 70)), dtype)
    got, expected = dense_both_ways(
        nnx.split(linear), jnp.asarray(xs, dtype), cotangent
    )
    assert_close(got, expected, tolerance)


def test_memory_does_not_grow_with_a_layer():
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(64, 64, rngs=rngs), LIF(64), nnx.Linear(64, 4, rngs=rngs)
    )
    graph, trained, rest = nnx.split(net, nnx.Param, ...)

    def loss(trained, xs):
        _, ys = unroll(nnx.merge(graph, trained, rest), xs)
        return jnp.mean(ys**2)

    xs = jax.ShapeDtypeStruct((8192, 128, 64), jnp.float32)
    plan = quick_jit(jax.grad(loss)).lower(trained, xs).compile().memory_analysis()
    output, signals_of_a_layer = (8192 * 128 * n * 4 for n in (4, 64))
    assert plan.temp_size_in_bytes < 2 * output + signals_of_a_layer / 16


def test_state_continues_a_sequence():
    neuron, xs = LIF(7, refractory=3), inputs(50, 7)
    last, whole = unroll(neuron, xs, strategy=Fused())
    middle, first = unroll(neuron, xs[:21], strategy=Fused())
    end, second = unroll(neuron, xs[21:], middle, strategy=Fused())
    np.testing.assert_array_equal(jnp.concatenate([first, second]), whole)
    assert_close(jax.tree.leaves(end), jax.tree.leaves(last), 0.0)


def test_vmap_over_inputs_and_over_parameters():
    neuron, xs = LIF(4, trainable=("tau",)), inputs(3, 20, 4)
    graph, variables = nnx.split(neuron)
    several = jax.tree.map(lambda v: jnp.stack([v, v + 0.5, v - 0.5]), variables)

    def total(variables, xs):
        return jnp.sum(unroll(nnx.merge(graph, variables), xs, strategy=Fused())[1])

    gradients = jax.grad(total, argnums=(0, 1))
    alone = quick_jit(gradients)
    for axes in ((None, 0), (0, None), (0, 0)):
        arguments = [
            many if axis == 0 else one
            for axis, many, one in zip(
                axes, (several, xs), (variables, xs[0]), strict=True
            )
        ]
        got = quick_jit(jax.vmap(gradients, in_axes=axes))(*arguments)
        for k in range(3):
            one = [
                jax.tree.map(lambda a, k=k: a[k], a) if axis == 0 else a
                for a, axis in zip(arguments, axes, strict=True)
            ]
            assert_close(
                jax.tree.leaves(jax.tree.map(lambda a, k=k: a[k], got)),
                jax.tree.leaves(alone(*one)),
                1e-6,
            )


@pytest.mark.parametrize("strategy", ["auto", Scan()])
def test_shard_map(strategy, monkeypatch):
    monkeypatch.setattr(_fused, "_CHUNK_BYTES", 1)  # chunks of 8 steps
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    along = jax.sharding.PartitionSpec(None, "batch")
    net, xs = network(nnx.Rngs(0)), inputs(16, 4, 6)
    graph, variables = nnx.split(net)

    def gradients(variables, xs, sum_over=lambda total: total):
        def loss(variables, xs):
            net = nnx.merge(graph, variables)
            return sum_over(unroll(net, xs, strategy=strategy)[1].sum())

        return jax.grad(loss, argnums=(0, 1))(variables, xs)

    mapped = jax.shard_map(
        partial(gradients, sum_over=lambda total: jax.lax.psum(total, "batch")),
        mesh=mesh,
        in_specs=(jax.sharding.PartitionSpec(), along),
        out_specs=(jax.sharding.PartitionSpec(), along),
    )
    got = quick_jit(mapped)(variables, xs)
    expected = quick_jit(gradients)(variables, xs)
    assert_close(jax.tree.leaves(got), jax.tree.leaves(expected), 1e-6)


def test_donated_input():
    neuron, xs = LIF(64), inputs(40, 64)
    expected = unroll(neuron, xs, strategy=Fused())[1]
    run = jax.jit(lambda xs: unroll(neuron, xs, strategy=Fused())[1], donate_argnums=0)
    np.testing.assert_array_equal(run(jnp.array(xs)), expected)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_narrow_input_has_a_float32_state(dtype):
    neuron, xs = LIF(4), inputs(20, 4).astype(dtype)
    last, ys = unroll(neuron, xs, strategy=Fused())
    expected_last, expected = unroll(neuron, xs, strategy=Scan())
    assert ys.dtype == dtype and last.v.dtype == jnp.float32
    np.testing.assert_array_equal(ys, expected)
    assert_close([last.v], [expected_last.v], 1e-6)


def test_auto_takes_a_kernel_where_there_is_one(monkeypatch):
    net = Sequential(LIF(4), Subclass(4), LIF(4, surrogate=Custom()))
    run = []
    monkeypatch.setattr(
        _fused,
        "run_fused",
        lambda native, neuron, xs, state: (
            run.append(neuron) or Scan().run(neuron, xs, state)
        ),
    )
    got = unroll(net, inputs(20, 4))[1]
    assert run == [net.layers[0]]
    np.testing.assert_array_equal(got, unroll(net, inputs(20, 4), strategy=Scan())[1])


def test_auto_needs_no_kernels(monkeypatch):
    monkeypatch.setattr(_fused, "find_spec", lambda name: None)
    monkeypatch.setattr(_fused, "_native", None)
    assert unroll(LIF(4), inputs(20, 4))[1].shape == (20, 4)


class Subclass(LIF):
    pass


class Custom(ATan):
    pass


@pytest.mark.parametrize(
    "neuron, message",
    [
        (Subclass(3), "no kernel for Subclass"),
        (LIF(3, surrogate=Custom()), "no kernel for the surrogate Custom"),
        (LIF(3, trainable=("slope",)), "gradient for the slope"),
    ],
)
def test_names_what_it_cannot_run(neuron, message):
    net = Sequential(jax.nn.relu, neuron)
    with pytest.raises(ValueError, match=message) as caught:
        jax.eval_shape(lambda xs: unroll(net, xs, strategy=Fused()), inputs(5, 3))
    assert "net.layers[1]" in str(caught.value)
    assert "use strategy=Scan()" in str(caught.value)


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spike_native", None)
    with pytest.raises(ImportError, match=r"spike-core\[native\]"):
        unroll(LIF(3), inputs(5, 3), strategy=Fused())


def test_refuses_another_device(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match=r"default device is a gpu.*Scan\(\)"):
        unroll(LIF(3), inputs(5, 3), strategy=Fused())
