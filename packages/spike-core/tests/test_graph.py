"""`Recurrent` and `Graph` against loops written out, and how they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    LIF,
    Graph,
    LeakyIntegrator,
    Recurrent,
    Sequential,
    run_layers,
    unroll,
)


def drive(*shape):
    return jnp.asarray(np.random.default_rng(0).uniform(0, 6, shape), jnp.float32)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_recurrent_is_what_it_says():
    feedback = nnx.Linear(5, 5, rngs=nnx.Rngs(0))
    lif = LIF(5, tau=5.0)
    layer = Recurrent(lif, feedback)
    assert layer.features == (5,)
    xs = drive(12, 4, 5)

    @nnx.jit
    def by_hand(lif, feedback, xs):
        state, y, ys = lif.initial_state((4,)), jnp.zeros((4, 5), jnp.float32), []
        for x in xs:
            state, y = lif(state, x + feedback(y))
            ys.append(y)
        return jnp.stack(ys)

    state, ys = unroll(layer, xs)
    want = by_hand(lif, feedback, xs)
    assert 0 < np.asarray(want).mean() < 1
    close(ys, want)
    close(state.y, want[-1])
    middle, first = unroll(layer, xs[:6])
    close(jnp.concatenate([first, unroll(layer, xs[6:], middle)[1]]), want)

    def loss(layer):
        return jnp.sum(unroll(layer, xs)[1] ** 2)

    gradient = nnx.jit(nnx.grad(loss))(layer)["feedback"]["kernel"][...]
    assert np.isfinite(gradient).all() and np.any(np.asarray(gradient) != 0)


def test_recurrent_feedback_may_have_a_state_and_input_a_low_precision():
    linear = nnx.Linear(5, 5, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    feedback = Sequential(linear, LeakyIntegrator(5))
    layer = Recurrent(LIF(5), feedback)
    xs = drive(8, 4, 5).astype(jnp.bfloat16)
    state, ys = jax.eval_shape(lambda xs: unroll(layer, xs), xs)
    assert ys.dtype == state.y.dtype == jnp.bfloat16
    assert state.neuron.v.dtype == state.feedback[1].v.dtype == jnp.float32


def graph_and_layers():
    rngs = nnx.Rngs(0)
    layers = {
        "in": nnx.Linear(6, 5, rngs=rngs),
        "a": LIF(5, tau=5.0),
        "back": nnx.Linear(5, 5, rngs=rngs),
        "b": LIF(5, tau=8.0),
        "read": nnx.Linear(5, 3, rngs=rngs),
        "out": LeakyIntegrator(3),
    }
    edges = [
        ("input", "in"),
        ("in", "a"),
        ("a", "back"),
        ("back", "a"),
        ("a", "b"),
        ("in", "b"),
        ("b", "read"),
        ("read", "out"),
        ("out", "output"),
    ]
    return Graph(layers, edges), layers


def test_graph_is_what_it_says():
    net, layers = graph_and_layers()
    assert net.late == (("a", "back"),)
    xs = drive(10, 4, 6)

    @nnx.jit
    def by_hand(layers, xs):
        states = {n: layers[n].initial_state((4,)) for n in ("a", "b", "out")}
        said, ys = jnp.zeros((4, 5), jnp.float32), []
        for x in xs:
            current = layers["in"](x)
            heard = current + layers["back"](said)
            states["a"], said = layers["a"](states["a"], heard)
            states["b"], b = layers["b"](states["b"], said + current)
            states["out"], y = layers["out"](states["out"], layers["read"](b))
            ys.append(y)
        return jnp.stack(ys)

    state, ys = unroll(net, xs)
    want = by_hand(nnx.Dict(layers), xs)
    assert np.any(np.asarray(want) != 0)
    close(ys, want)
    state, step = net.initial_state((4,)), nnx.jit(lambda net, s, x: net(s, x))
    for t in range(3):
        state, y = step(net, state, xs[t])
        close(y, want[t])


def test_only_the_layers_on_a_cycle_go_step_by_step():
    net, _ = graph_and_layers()
    seen = []

    def run_neuron(name, neuron, xs, state):
        seen.append(name)
        return jax.lax.scan(lambda s, x: neuron(s, x), state, xs)

    xs = drive(3, 2, 6)
    state, ys = run_layers(net, xs, net.initial_state((2,)), run_neuron)
    assert seen == ["net.layers['back', 'a']", "net.layers['b']", "net.layers['out']"]
    assert jax.tree.structure(state) == jax.tree.structure(net.initial_state((2,)))
    close(ys, unroll(net, xs)[1])


def test_a_chain_is_a_sequence_and_a_self_loop_is_recurrent():
    linear, lif = nnx.Linear(6, 5, rngs=nnx.Rngs(0)), LIF(5)
    xs = drive(9, 2, 6)
    chain = Graph(
        {"w": linear, "h": lif}, [("input", "w"), ("w", "h"), ("h", "output")]
    )
    assert chain.late == ()
    close(unroll(chain, xs)[1], unroll(Sequential(linear, lif), xs)[1])
    edges = [("input", "h"), ("h", "h"), ("h", "output")]
    loop, same = Graph({"h": LIF(6)}, edges), Recurrent(LIF(6), lambda y: y)
    assert loop.late == (("h", "h"),)
    close(unroll(loop, xs)[1], unroll(same, xs)[1])
    inside = Sequential(linear, chain_of(lif), nnx.Linear(5, 2, rngs=nnx.Rngs(1)))
    assert unroll(inside, xs)[1].shape == (9, 2, 2)


def chain_of(layer):
    return Graph({"h": layer}, [("input", "h"), ("h", "output")])


def test_two_cycles_through_one_neuron():
    layers = {"h": LIF(6), "p": lambda x: 0.5 * x, "q": lambda x: -x}
    edges = [("input", "h"), ("h", "p"), ("h", "q"), ("p", "h"), ("q", "h")]
    net = Graph(layers, [*edges, ("h", "output")])
    assert set(net.late) == {("h", "p"), ("h", "q")}
    want = Recurrent(LIF(6), lambda y: -0.5 * y)
    xs = drive(9, 2, 6)
    close(unroll(net, xs)[1], unroll(want, xs)[1])


IN, OUT = ("input", "h"), ("h", "output")


@pytest.mark.parametrize(
    ("layers", "edges", "error", "message"),
    [
        ({"input": LIF(2)}, [IN, OUT], ValueError, "must not use the name 'input'"),
        ({"h": 3}, [IN, OUT], TypeError, r"`layers\['h'\]` must be callable"),
        ({"h": LIF(2)}, [IN, ("g", "output")], ValueError, "`edges` must go from"),
        ({"h": LIF(2)}, [IN, OUT, ("output", "h")], ValueError, "`edges` must go"),
        ({"h": LIF(2)}, [IN, IN, OUT], ValueError, "must not repeat an edge"),
        ({"h": LIF(2)}, [IN], ValueError, "from 'input' to 'output'"),
        ({"h": LIF(2), "g": LIF(2)}, [IN, OUT], ValueError, "from 'input' to 'g'"),
        (
            {"h": LIF(2), "g": LIF(2)},
            [IN, OUT, ("h", "g")],
            ValueError,
            "from 'g' to 'output'",
        ),
        (
            {"h": jax.nn.relu, "g": jnp.tanh},
            [IN, OUT, ("h", "g"), ("g", "h")],
            ValueError,
            "cycle without a neuron, got h -> g -> h",
        ),
        (
            {"h": Sequential(LIF(2))},
            [IN, OUT, ("h", "h")],
            TypeError,
            r"`layers\['h'\]` closes a cycle and must have the attribute `features`",
        ),
    ],
)
def test_graph_refuses_bad_arguments(layers, edges, error, message):
    with pytest.raises(error, match=message):
        Graph(layers, edges)


def test_graph_and_recurrent_refuse_bad_input():
    net = Graph(
        {"h": LIF(2), "g": lambda x: x[:, :1]},
        [IN, ("input", "g"), OUT, *[("g", "output")]],
    )
    with pytest.raises(ValueError, match="into 'output' must bring the same shape"):
        unroll(net, drive(3, 4, 2))
    with pytest.raises(TypeError, match="`state` must be a GraphState"):
        net((), drive(4, 2))
    with pytest.raises(TypeError, match="`neuron` must be a neuron"):
        Recurrent(jax.nn.relu, jax.nn.relu)
    with pytest.raises(TypeError, match="must have the attribute `features`"):
        Recurrent(Sequential(LIF(2)), jax.nn.relu)
    with pytest.raises(TypeError, match="`feedback` must be callable"):
        Recurrent(LIF(2), 3)
    with pytest.raises(TypeError, match="`state` must be a RecurrentState"):
        Recurrent(LIF(2), jax.nn.relu)((), drive(2))
    with pytest.raises(ValueError, match=r"`feedback` must return the shape \(4, 2\)"):
        unroll(Recurrent(LIF(2), lambda y: y[..., :1]), drive(3, 4, 2))
