"""Networks and `unroll`: strategies agree, layers compose, errors name the layer."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    LIF,
    Checkpointed,
    Graph,
    LeakyIntegrator,
    Recurrent,
    Scan,
    SequenceDropout,
    Sequential,
    Strategy,
    is_neuron,
    layer_activity,
    layer_outputs,
    run_layers,
    unroll,
)

STRATEGIES = ["auto", Scan(unroll=3), Checkpointed(chunk=3)]
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=str)


class Perceptron(nnx.Module):
    """A neuron as a user may write it: two methods, nothing registered."""

    def __init__(self, size):
        self.size = size

    def initial_state(self, batch_shape):
        return jnp.zeros((*batch_shape, self.size), jnp.float32)

    def __call__(self, state, x):
        state = 0.5 * state + x
        return state, jnp.tanh(state)


def dense(rngs):
    return Sequential(
        nnx.Linear(6, 8, rngs=rngs),
        LIF(8, tau=5.0, trainable=("tau", "threshold")),
        nnx.Linear(8, 3, rngs=rngs),
        LeakyIntegrator(3, trainable=("tau",)),
    )


def nested(rngs):
    inner = Sequential(nnx.Linear(6, 6, rngs=rngs), LIF(6, refractory=2))
    return Sequential(inner, lambda x: 2 * x, Sequential(Perceptron(6)))


def convolution(rngs):
    return Sequential(
        nnx.Linear(6, 32, rngs=rngs),
        lambda x: x.reshape(x.shape[0], 4, 4, 2),
        nnx.Conv(2, 3, (3, 3), rngs=rngs),
        LIF((4, 4, 3), reset="zero"),
        lambda x: x.reshape(x.shape[0], -1),
        nnx.Linear(48, 3, rngs=rngs),
    )


NETWORKS = {
    "one": lambda rngs: LIF(6),
    "user": lambda rngs: Perceptron(6),
    "dense": dense,
    "nested": nested,
    "convolution": convolution,
}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)


def drive(*shape):
    return jnp.asarray(np.random.default_rng(0).uniform(0, 10, shape), jnp.float32)


def value_and_grad(make, run):
    """State, output and gradients of a network, in one compilation."""
    net = make(nnx.Rngs(0))

    def loss(net, xs):
        state, ys = run(net, xs)
        return jnp.mean(ys**2), (state, ys)

    return nnx.jit(nnx.grad(loss, argnums=(0, 1), has_aux=True))(net, drive(7, 4, 6))


@functools.cache
def want(make):
    """What `unroll` means, one step after another in Python."""
    return value_and_grad(make, loop)


def loop(net, xs):
    state, ys = net.initial_state(xs.shape[1:2]), []
    for x in xs:
        state, y = net(state, x)
        ys.append(y)
    return state, jnp.stack(ys)


@every_network
@every_strategy
def test_equals_a_python_loop(make, strategy):
    got = value_and_grad(make, lambda net, xs: unroll(net, xs, strategy=strategy))
    (_, dxs), (_, ys) = got
    assert np.any(np.asarray(ys) != 0) and np.any(np.asarray(dxs) != 0)
    assert jax.tree.structure(got) == jax.tree.structure(want(make))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5),
        got,
        want(make),
    )


@every_network
def test_batch_axes_are_found(make):
    net, xs = make(nnx.Rngs(0)), drive(7, 4, 6)

    def run(xs):
        return unroll(net, xs)[1]

    @jax.jit
    def each_way(xs):
        mapped = jax.vmap(run, in_axes=1, out_axes=1)(xs[:, :, None])[:, :, 0]
        if make is convolution:  # its functions count on one batch axis
            return {"mapped": mapped}
        two = run(xs.reshape(7, 2, 2, 6)).reshape(mapped.shape)
        return {"mapped": mapped, "two": two, "alone": run(xs[:, 1])}

    got, want = each_way(xs), jax.jit(run)(xs)
    if "alone" in got:
        np.testing.assert_allclose(got.pop("alone"), want[:, 1], rtol=1e-6, atol=1e-6)
    for ys in got.values():
        np.testing.assert_allclose(ys, want, rtol=1e-6, atol=1e-6)


@every_network
def test_nothing_is_kept_between_calls(make):
    net, xs = make(nnx.Rngs(0)), drive(7, 4, 6)
    first = unroll(net, xs)[1]
    unroll(net, 100 * xs)
    np.testing.assert_array_equal(first, unroll(net, xs)[1])
    unroll(net, xs[:, :2])  # another batch size needs nothing


def test_stateless_layers_run_once_over_all_steps():
    seen = []

    def spy(x):
        seen.append(x.shape)
        return x

    unroll(Sequential(spy, LIF(6), spy), drive(7, 4, 6))
    assert (28, 6) in seen
    # The rest are dry runs of one step.
    assert set(seen) == {(28, 6), (4, 6)}


def test_norm_and_dropout_see_the_whole_block():
    rngs = nnx.Rngs(0)
    norm, dropout = nnx.BatchNorm(6, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
    net = Sequential(norm, dropout, LIF(6))
    xs = drive(50, 20, 6)
    unroll(net, xs)
    np.testing.assert_allclose(norm.mean[...], 0.01 * xs.mean((0, 1)), rtol=1e-3)
    counts = [v[...] for v in jax.tree.leaves(nnx.state(dropout, nnx.RngCount))]
    assert [int(c) for c in counts] == [1]  # drawn once; the dry run left no trace


@pytest.mark.parametrize("chunk", [1, 4, 7, 100, None])
def test_chunks_of_any_size_fit_any_length(chunk):
    net, xs = Sequential(LIF(6), LeakyIntegrator(6)), drive(13, 2, 6)
    for steps in (13, 1, 0):
        got, want = jax.jit(
            lambda xs: (unroll(net, xs, strategy=Checkpointed(chunk)), unroll(net, xs))
        )(xs[:steps])
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6),
            got,
            want,
        )


def test_checkpointed_updates_what_changes_once_a_chunk():
    rngs = nnx.Rngs(0)
    norm, dropout = nnx.BatchNorm(6, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
    net = Sequential(norm, dropout, LIF(6))
    unroll(net, drive(10, 4, 6), strategy=Checkpointed(chunk=5))
    assert np.any(np.asarray(norm.mean[...]) != 0)
    (count,) = jax.tree.leaves(nnx.state(dropout, nnx.RngCount))
    assert int(count) == 2


def test_checkpointed_needs_less_memory():
    def scratch(strategy):
        net = dense(nnx.Rngs(0))
        graph, variables = nnx.split(net)

        def loss(variables, xs):
            ys = unroll(nnx.merge(graph, variables), xs, strategy=strategy)[1]
            return jnp.mean(ys**2)

        xs = jax.ShapeDtypeStruct((1024, 32, 6), jnp.float32)
        compiled = jax.jit(jax.grad(loss)).lower(variables, xs).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert scratch(Checkpointed()) < scratch(Scan()) / 2


def test_runs_in_and_under_transformations():
    net, xs = dense(nnx.Rngs(0)), drive(7, 4, 6)
    want = unroll(net, xs)[1]
    jitted = nnx.jit(lambda net, xs: unroll(net, xs)[1])(net, xs)
    np.testing.assert_allclose(jitted, want, rtol=1e-5, atol=1e-6)
    graph, variables = nnx.split(net)
    plain = jax.jit(lambda v, xs: unroll(nnx.merge(graph, v), xs)[1])(variables, xs)
    np.testing.assert_allclose(plain, want, rtol=1e-5, atol=1e-6)


def test_float64_in_gives_float64_out():
    net = Sequential(LIF(6), lambda x: 2 * x, LeakyIntegrator(6))
    state, ys = unroll(net, drive(7, 4, 6).astype(jnp.float64))
    assert ys.dtype == jnp.float64
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {np.dtype(np.float64)}
    assert unroll(net, drive(7, 4, 6), state)[1].dtype == jnp.float32


LENGTHS = np.array([7, 0, 3, 6])


def graph(rngs):
    layers = {"a": LIF(6, tau=5.0), "back": nnx.Linear(6, 6, rngs=rngs)}
    edges = [("input", "a"), ("a", "back"), ("back", "a"), ("a", "output")]
    return Graph(layers, edges)


@pytest.mark.parametrize(
    ("make", "strategy"),
    [(dense, "auto"), (nested, Checkpointed(chunk=3)), (graph, Scan())],
)
def test_a_sequence_ends_with_its_own_last_step(make, strategy):
    net, xs = make(nnx.Rngs(0)), drive(7, 4, 6)

    @nnx.jit
    def run(net, xs):
        def loss(net, xs):
            state, ys = unroll(net, xs, lengths=LENGTHS, strategy=strategy)
            ends = [leaf for leaf in jax.tree.leaves(state) if leaf.dtype == xs.dtype]
            return sum(leaf.sum() for leaf in ends), (state, ys)

        return nnx.grad(loss, argnums=1, has_aux=True)(net, xs)

    dxs, (state, ys) = jax.tree.map(np.asarray, run(net, xs))
    want = net.initial_state((4,))
    step = jax.jit(net.__call__)
    for t, x in enumerate(xs):
        goes_on = t < LENGTHS
        after, y = step(want, x)
        want = jax.tree.map(
            lambda a, b, on=goes_on: jnp.where(on[:, None], a, b), after, want
        )
        np.testing.assert_allclose(
            ys[t], np.where(goes_on[:, None], y, 0), rtol=1e-5, atol=1e-6
        )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6), state, want)
    for i, n in enumerate(LENGTHS):
        assert not dxs[n:, i].any()
    assert dxs[:, 0].any()


def test_lengths_and_steps_one_by_one_agree():
    net, xs = dense(nnx.Rngs(0)), drive(7, 4, 6)

    @dataclasses.dataclass(frozen=True)
    class Loop(Strategy):
        def run(self, net, xs, state):
            ys = []
            for x in xs:
                state, y = net(state, x)
                ys.append(y)
            return state, jnp.stack(ys)

    got, want = (
        jax.jit(lambda xs, s=strategy: unroll(net, xs, lengths=LENGTHS, strategy=s))(xs)
        for strategy in (Loop(), Scan())
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-6), got, want)


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        (np.array([1.0, 2, 3, 4]), TypeError, "`lengths` must be an array of integers"),
        ([1, 2, 3, 4], TypeError, "got list"),
        (np.array([1, 2]), ValueError, r"batch axes of `xs`, \(4,\), got \(2,\)"),
        (np.array([1, 2, 3, 8]), ValueError, "`lengths` must be finite.*most 7, got 8"),
        (np.array([1, 2, 3, -1]), ValueError, "got -1"),
    ],
)
def test_refuses_bad_lengths(lengths, error, message):
    with pytest.raises(error, match=message):
        unroll(LIF(6), drive(7, 4, 6), lengths=lengths)


def test_lengths_need_a_state_along_the_batch():
    class Counting:
        def initial_state(self, batch_shape):
            return jnp.zeros((), jnp.float32)

        def __call__(self, state, x):
            return state + 1, x

    with pytest.raises(ValueError, match="leaves begin with the batch axes"):
        unroll(Counting(), drive(7, 4, 6), lengths=LENGTHS)


def test_lengths_refuse_time_on_several_devices():
    @dataclasses.dataclass(frozen=True)
    class OnMesh(Scan):
        mesh: str = "a mesh"

    with pytest.raises(ValueError, match="`lengths` must be None where a strategy"):
        unroll(LIF(6), drive(7, 4, 6), lengths=LENGTHS, strategy=OnMesh())


def test_time_may_stand_elsewhere():
    net, xs = Sequential(LIF(6, tau=5.0)), drive(7, 4, 6)
    state, ys = unroll(net, xs, lengths=LENGTHS)
    batch_first = xs.swapaxes(0, 1)
    for time_axis in (1, -2):
        got = unroll(net, batch_first, lengths=LENGTHS, time_axis=time_axis)
        jax.tree.map(np.testing.assert_array_equal, got, (state, ys.swapaxes(0, 1)))
    _, ys, outputs = layer_outputs(net, batch_first, time_axis=1)
    np.testing.assert_array_equal(ys, outputs["net.layers[0]"])
    np.testing.assert_array_equal(ys.swapaxes(0, 1), unroll(net, xs)[1])
    assert layer_activity(net, batch_first, time_axis=1) == layer_activity(net, xs)


@pytest.mark.parametrize("time_axis", [3, -4, 1.0, True])
def test_refuses_a_time_axis_that_is_none(time_axis):
    with pytest.raises(ValueError, match="`time_axis` must be an axis of `xs`"):
        unroll(LIF(6), drive(7, 4, 6), time_axis=time_axis)


def test_refuses_a_time_axis_among_the_features():
    with pytest.raises(ValueError, match="`time_axis` must be one of the first 2 axes"):
        unroll(LIF((4, 6)), drive(2, 4, 6, 7), time_axis=3)


@every_strategy
def test_sequence_dropout_keeps_its_mask(strategy):
    rngs = nnx.Rngs(0)
    layer = SequenceDropout(6, nnx.Dropout(0.5, rngs=rngs))
    net, xs = Sequential(lambda x: x, layer), 1 + drive(7, 40, 6)

    @nnx.jit
    def run(net, xs, state=None):
        return unroll(net, xs, state, strategy=strategy)

    state, ys = run(net, xs)
    np.testing.assert_array_equal(ys, xs * state[1][None])
    assert set(np.unique(state[1])) == {0, 2} and 0.4 < np.mean(state[1] == 0) < 0.6
    np.testing.assert_array_equal(run(net, xs, state)[1], ys)  # goes on with it
    np.testing.assert_array_equal(loop(layer, xs)[1].shape, ys.shape)
    assert np.any(np.asarray(run(net, xs)[1]) != ys)  # a new sequence, a new mask
    net.eval()
    np.testing.assert_array_equal(run(net, xs)[1], xs)


def test_sequence_dropout_may_stand_in_a_loop():
    dropout = SequenceDropout(6, nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    net = Recurrent(LeakyIntegrator(6), dropout)
    state, ys = unroll(net, drive(7, 4, 6), strategy=Checkpointed(chunk=3))
    assert set(np.unique(state.feedback)) == {0, 2} and ys.shape == (7, 4, 6)


def test_what_is_a_neuron():
    assert is_neuron(LIF(3)) and is_neuron(dense(nnx.Rngs(0)))
    assert is_neuron(Perceptron(2))
    assert not is_neuron(jax.nn.relu)
    assert not is_neuron(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
    assert not is_neuron(3)


def test_a_strategy_of_ones_own():
    @dataclasses.dataclass(frozen=True)
    class Refuse(Strategy):
        def run(self, net, xs, state):
            def refuse(name, neuron, xs, state):
                raise ValueError(f"cannot run {name}, a {type(neuron).__name__}")

            return run_layers(net, xs, state, refuse)

    with pytest.raises(ValueError, match=r"cannot run net.layers\[1\], a LIF"):
        unroll(dense(nnx.Rngs(0)), drive(5, 4, 6), strategy=Refuse())


def test_errors_name_the_layer():
    net = Sequential(nnx.Linear(6, 5, rngs=nnx.Rngs(0)), LIF(4))
    with pytest.raises(ValueError, match="`x` must end in the features") as caught:
        unroll(net, drive(7, 4, 6))
    assert "layers[1], a LIF" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: unroll(jax.nn.relu, drive(3, 2)), TypeError, "`net` must have"),
        (lambda: unroll(LIF(2), [[1.0, 2.0]]), TypeError, "`xs` must be an array"),
        (lambda: unroll(LIF(2), jnp.float32(1)), ValueError, "`xs` must have time"),
        (lambda: unroll(LIF(2), drive(3, 2), strategy="fast"), TypeError, "`strategy`"),
        (lambda: unroll(LIF(2), drive(3, 2), strategy=Scan), TypeError, "`strategy`"),
        (
            lambda: unroll(LIF(2), drive(3, 4, 2), LIF(2).initial_state((5,))),
            ValueError,
            "`state` must have a leaf of shape",
        ),
        (
            lambda: unroll(LIF(2), drive(3, 4, 2), (jnp.zeros((4, 2)),)),
            ValueError,
            "`state` must have the structure",
        ),
        (lambda: Sequential(), ValueError, "`layers` must not be empty"),
        (lambda: Sequential(LIF(2), 3), TypeError, r"`layers\[1\]` must be callable"),
        (lambda: Sequential(LIF(2))((), drive(2)), ValueError, "with 1 entries"),
        (lambda: Sequential(LIF(2))(None, drive(2)), ValueError, "got a NoneType"),
        (lambda: Scan(unroll=0), ValueError, "`unroll` must be an integer >= 1"),
        (lambda: Scan(unroll=2.0), ValueError, "`unroll`"),
        (lambda: Checkpointed(chunk=0), ValueError, "`chunk` must be an integer >= 1"),
        (lambda: Checkpointed(chunk=1.5), ValueError, "`chunk`"),
        (lambda: Strategy(), TypeError, "abstract"),
        (lambda: SequenceDropout(0, abs), ValueError, "`features` must be a positive"),
        (lambda: SequenceDropout(2, 0.5), TypeError, "`dropout` must be callable"),
        (
            lambda: SequenceDropout(2, abs)(jnp.ones(2), jnp.ones((2, 2))),
            ValueError,
            "`x` must have the shape",
        ),
    ],
)
def test_refuses_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
