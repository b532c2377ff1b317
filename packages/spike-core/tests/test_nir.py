"""NIR graphs in and out."""

import itertools
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    ALIF,
    IF,
    LIF,
    CubaLIF,
    Graph,
    LeakyIntegrator,
    Recurrent,
    Sequential,
)
from spike_core.nir import (
    ChannelsFirst,
    Delay,
    Drive,
    Flatten,
    Integrator,
    Shift,
    Threshold,
    avg_pool,
    from_nir,
    sum_pool,
    to_nir,
)

nir = pytest.importorskip("nir", reason="the library nir is not installed")

DT = 0.5


def values(*numbers):
    return np.array(numbers, np.float32)


def chain(*nodes, shape=(2,)):
    """Make a graph of nodes in a row."""
    names = [str(i) for i in range(len(nodes))]
    edges = itertools.pairwise(["input", *names, "output"])
    return graph(list(edges), shape, **dict(zip(names, nodes, strict=True)))


def graph(edges, shape=(2,), **nodes):
    """Make a graph of named nodes between `input` and `output`."""
    ends = {"input": nir.Input(np.array(shape)), "output": nir.Output(np.array(shape))}
    return nir.NIRGraph({**ends, **nodes}, edges, type_check=False)


def run(net, xs):
    batch = (xs.shape[1],) if xs.ndim > 2 else ()
    start = net.initial_state(batch)
    # The plainest way there is: many networks have to be compiled.
    step = jax.jit(lambda xs: jax.lax.scan(lambda s, x: net(s, x), start, xs)[1])
    return np.asarray(step(jnp.asarray(xs, jnp.float32)))


def current(*shape, mean=1.0, seed=0):
    return np.random.default_rng(seed).normal(mean, 2.0, shape)


def lif(**changes):
    settings = {
        "tau": values(0.02, 0.01),
        "r": values(1.5, 0.7),
        "v_leak": values(-0.2, 0.1),
        "v_threshold": values(0.8, 0.9),
        "v_reset": values(-0.3, 0.1),
    }
    return nir.LIF(**{**settings, **changes})


def cuba_lif(**changes):
    settings = {
        "tau_mem": values(0.02, 0.01),
        "tau_syn": values(0.005, 0.003),
        "r": values(1.5, 1.7),
        "v_leak": values(-0.2, 0.1),
        "v_threshold": values(0.6, 0.7),
        "v_reset": values(-0.3, 0.1),
        "w_in": values(1.2, 0.9),
    }
    return nir.CubaLIF(**{**settings, **changes})


def plain_lif(n=2):
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.float32)
    return nir.LIF(0.02 * ones, ones, zeros, 0.5 * ones, zeros)


def weights(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def conv(**changes):
    settings = {
        "input_shape": (7, 6),
        "weight": weights(4, 1, 3, 2),
        "stride": (2, 1),
        "padding": (1, 2),
        "dilation": (1, 2),
        "groups": 2,
        "bias": weights(4),
    }
    return nir.Conv2d(**{**settings, **changes})


def line(**changes):
    settings = {
        "input_shape": 9,
        "weight": weights(3, 2, 3),
        "stride": 1,
        "padding": "same",
        "dilation": 2,
        "groups": 1,
        "bias": weights(3),
    }
    return nir.Conv1d(**{**settings, **changes})


GRAPHS = {
    "LIF": chain(lif()),
    "LIF, plain": chain(plain_lif()),
    "LIF, raw input": chain(
        lif(
            r=1 / -np.expm1(-1e-3 * DT / values(0.02, 0.01)),
            v_leak=values(0.0, 0.0),
            v_reset=values(0.0, 0.0),
        )
    ),
    "CubaLIF": chain(cuba_lif()),
    "IF": chain(nir.IF(values(900.0, 500.0), values(1.0, 2.0), values(0.2, -0.1))),
    "LI": chain(nir.LI(values(0.02, 0.01), values(1.5, 0.7), values(-0.2, 0.1))),
    "I": chain(nir.I(values(900.0, 500.0))),
    "Affine": chain(nir.Affine(weights(3, 2), weights(3))),
    "Linear": chain(nir.Linear(weights(3, 2))),
    "Scale": chain(nir.Scale(values(2.0, -1.0)), lif()),
    "Threshold": chain(nir.Threshold(values(0.2, -1.0))),
    "Delay": chain(nir.Delay(values(1e-3, 2.5e-3))),
    "Conv1d": chain(line(), shape=(2, 9)),
    "Conv2d": chain(conv(), shape=(2, 7, 6)),
    "pools": chain(
        nir.SumPool2d(np.array([2, 3]), np.array([2, 1]), np.array([1, 0])),
        nir.AvgPool2d(np.array([3, 2]), np.array([1, 2]), np.array([0, 1])),
        shape=(2, 7, 6),
    ),
    "Flatten": chain(
        nir.Flatten({"input": np.array([2, 7, 6])}, start_dim=1), shape=(2, 7, 6)
    ),
    "recurrent": graph(
        [("input", "n"), ("n", "w"), ("w", "n"), ("n", "output")],
        n=plain_lif(),
        w=nir.Linear(weights(2, 2)),
    ),
    "recurrent, driven": graph(
        [("input", "n"), ("n", "w"), ("w", "n"), ("n", "output")],
        n=lif(),
        w=nir.Affine(weights(2, 2), weights(2)),
    ),
    "skip": graph(
        [("input", "a"), ("a", "n"), ("input", "n"), ("n", "output"), ("a", "output")],
        a=nir.Affine(weights(2, 2), weights(2)),
        n=lif(),
    ),
}


# Where equal parameters do not make equal outputs sure.
SAID_OTHERWISE = ("Conv1d", "Conv2d", "Flatten", "pools", "recurrent, driven", "skip")


@pytest.mark.parametrize("name", GRAPHS)
def test_there_and_back(name):
    given = GRAPHS[name]
    net = from_nir(given, dt=DT)
    shape = tuple(given.nodes["input"].input_type["input"])
    again = to_nir(net, dt=DT, input_shape=shape)
    theirs, ours = (_inner(g) for g in (given, again))
    assert [type(n) for n in ours] == [type(n) for n in theirs]
    for one, other in zip(theirs, ours, strict=True):
        _assert_same(one, other)
    if name in SAID_OTHERWISE:
        xs = current(20, 3, *shape)
        back = from_nir(again, dt=DT)
        np.testing.assert_allclose(run(net, xs), run(back, xs), atol=1e-6)


def _inner(g):
    kinds = nir.Input, nir.Output
    return [node for node in g.nodes.values() if not isinstance(node, kinds)]


def _assert_same(one, other):
    left, right = one.to_dict(), other.to_dict()
    for key in left:
        if key in ("type", "metadata", "padding", "start_dim", "end_dim", "input_type"):
            # There are several ways to say the same.
            continue
        np.testing.assert_allclose(
            right[key], left[key], rtol=1e-6, atol=1e-7, err_msg=key
        )


def test_a_published_probe():
    # 1.5 into a membrane of 20 ms with threshold 1 for 200 ms: solved by hand, a spike
    # every 20 ms times log(3), and that rounded up to whole steps.
    assert (
        run(from_nir(chain(plain_probe(20.0), shape=(1,)), dt=1.0), _probe(1)).sum()
        == 9
    )
    both = from_nir(chain(plain_probe(10.0, 40.0)), dt=1.0)
    assert run(both, _probe(2)).sum(0).tolist() == [18, 4]
    strong = from_nir(chain(plain_probe(20.0, r=2.0), shape=(1,)), dt=1.0)
    assert run(strong, _probe(1)).sum() == 200 // np.ceil(20 * np.log(3 / 2))


def plain_probe(*tau, r=1.0):
    ones, zeros = np.ones(len(tau)), np.zeros(len(tau))
    return nir.LIF(1e-3 * values(*tau), r * ones, zeros, ones, zeros)


def _probe(n):
    return np.full((200, n), 1.5)


def test_a_membrane_solves_its_equation():
    node = lif()
    xs = current(80, 2, mean=3.0)
    decay = np.exp(-1e-3 * DT / node.tau.astype(np.float64))
    v, wanted = node.v_leak.astype(np.float64), []
    for x in xs:
        v = decay * v + (1 - decay) * (node.v_leak + node.r * x)
        wanted.append(v > node.v_threshold)
        v = np.where(wanted[-1], node.v_reset, v)
    assert np.sum(wanted) > 5
    np.testing.assert_array_equal(run(from_nir(chain(node), dt=DT), xs), wanted)


def test_a_synapse_and_a_membrane_solve_their_equations():
    node = cuba_lif()
    xs = current(80, 2)
    kept, kept_syn = (
        np.exp(-1e-3 * DT / tau.astype(np.float64))
        for tau in (node.tau_mem, node.tau_syn)
    )
    v, i, wanted = node.v_leak.astype(np.float64), 0.0, []
    for x in xs:
        i = kept_syn * i + (1 - kept_syn) * node.w_in * x
        v = kept * v + (1 - kept) * (node.v_leak + node.r * i)
        wanted.append(v > node.v_threshold)
        v = np.where(wanted[-1], node.v_reset, v)
    assert np.sum(wanted) > 5
    np.testing.assert_array_equal(run(from_nir(chain(node), dt=DT), xs), wanted)
    readout = nir.CubaLI(node.tau_syn, node.tau_mem, node.r, node.v_leak, node.w_in)
    v, i, wanted = node.v_leak.astype(np.float64), 0.0, []
    for x in xs:
        i = kept_syn * i + (1 - kept_syn) * node.w_in * x
        v = kept * v + (1 - kept) * (node.v_leak + node.r * i)
        wanted.append(v)
    net = from_nir(chain(readout), dt=DT)
    np.testing.assert_allclose(run(net, xs), wanted, atol=1e-5)
    again = from_nir(to_nir(net, dt=DT), dt=DT)
    np.testing.assert_allclose(run(again, xs), run(net, xs), atol=1e-6)


def test_what_does_not_leak_adds_up_seconds():
    net = from_nir(chain(nir.I(values(1000.0, 500.0))), dt=2.0)
    assert run(net, np.ones((3, 2))).tolist() == [[2, 1], [4, 2], [6, 3]]


def test_feedback_is_heard_a_step_later():
    net = from_nir(GRAPHS["recurrent, driven"], dt=DT)
    assert isinstance(net, Graph)
    assert net.late == (("n", "w"),)
    node, w = (GRAPHS["recurrent, driven"].nodes[name] for name in "nw")
    xs = current(60, 2, mean=3.0)
    decay = np.exp(-1e-3 * DT / node.tau.astype(np.float64))
    v, s, wanted = node.v_leak.astype(np.float64), np.zeros(2), []
    for x in xs:
        push = node.r * (x + w.weight @ s + w.bias)
        v = decay * v + (1 - decay) * (node.v_leak + push)
        s = (v > node.v_threshold).astype(float)
        v = np.where(s > 0, node.v_reset, v)
        wanted.append(s)
    assert np.sum(wanted) > 5
    np.testing.assert_array_equal(run(net, xs), wanted)


def test_graphs_inside_the_graph_are_taken_apart():
    inside = graph(
        [("input", "n"), ("n", "w"), ("w", "n"), ("n", "output")],
        n=plain_lif(),
        w=nir.Linear(weights(2, 2)),
    )
    outside = graph(
        [("input", "a"), ("a", "cell"), ("cell", "output")],
        a=nir.Affine(weights(2, 2), weights(2)),
        cell=inside,
    )
    net = from_nir(outside, dt=DT)
    assert sorted(net.layers) == ["a", "cell.n", "cell.w"]
    flat = from_nir(to_nir(net, dt=DT), dt=DT)
    xs = current(40, 2)
    np.testing.assert_array_equal(run(net, xs), run(flat, xs))


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "pools"])
def test_convolutions_and_pools_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    xs = current(1, 3, *GRAPHS[name].nodes["input"].input_type["input"])
    x = torch.tensor(xs[0], dtype=torch.float32)
    for node in _inner(GRAPHS[name]):
        if name == "pools":
            sizes = (tuple(int(n) for n in a) for a in list(vars(node).values())[1:4])
            scale = 6 if isinstance(node, nir.SumPool2d) else 1
            x = scale * torch.nn.functional.avg_pool2d(x, *sizes)
            continue
        function = getattr(torch.nn.functional, name.lower())
        settings = (node.stride, node.padding, node.dilation, node.groups)
        x = function(x, torch.tensor(node.weight), torch.tensor(node.bias), *settings)
    net = from_nir(GRAPHS[name], dt=DT)
    np.testing.assert_allclose(run(net, xs)[0], x, rtol=1e-4, atol=1e-5)


def linear(inputs, outputs):
    layer = nnx.Linear(
        inputs, outputs, kernel_init=nnx.initializers.zeros, rngs=nnx.Rngs(0)
    )
    layer.kernel[...] = weights(inputs, outputs)
    return layer


def drop():
    return nnx.Dropout(0.5, deterministic=True, rngs=nnx.Rngs(0))


NETWORKS = {
    "row": lambda: Sequential(
        linear(3, 4),
        LIF(4, tau=np.arange(5.0, 9.0), reset="zero", dt=DT),
        drop(),
        Sequential(linear(4, 2), LeakyIntegrator(2, input_gain="unit", dt=DT)),
    ),
    "no reset": lambda: LIF(3, reset="none", input_gain="unit", dt=DT),
    "recurrent": lambda: Sequential(
        linear(3, 4),
        Recurrent(CubaLIF(4, reset="value", v_reset=-0.1, dt=DT), linear(4, 4)),
    ),
    "integrate-and-fire": lambda: Sequential(IF(3, reset="zero", dt=DT), Integrator(3)),
    "graph in a row": lambda: Sequential(
        Graph(
            {"a": linear(3, 3), "n": LIF(3, reset="zero", dt=DT), "d": Delay(3, 2)},
            [
                ("input", "a"),
                ("a", "n"),
                ("n", "d"),
                ("d", "a"),
                ("n", "output"),
                ("input", "output"),
            ],
        ),
        Threshold(0.3),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_our_networks_come_back_the_same(name):
    net = NETWORKS[name]()
    xs = current(40, 2, 3, mean=2.0)
    wanted = run(net, xs)
    assert np.abs(wanted).sum() > 0
    again = from_nir(to_nir(net, dt=DT), dt=DT)
    np.testing.assert_allclose(run(again, xs), wanted, rtol=1e-6, atol=1e-6)


def image_network():
    tau = np.random.default_rng(0).uniform(2.0, 9.0, (6, 5, 3))
    return Sequential(
        nnx.Conv(2, 3, (3, 3), padding="SAME", rngs=nnx.Rngs(3)),
        LIF((6, 5, 3), tau=tau, threshold=0.1, reset="zero", dt=DT),
        partial(avg_pool, window_shape=(2, 2), strides=(2, 2), padding="VALID"),
        Flatten(-3),
        IF(18, threshold=np.linspace(0.1, 2.0, 18), reset="zero", dt=DT),
        linear(18, 2),
    )


def test_channels_last_become_channels_first():
    net = image_network()
    xs = current(20, 2, 6, 5, 2)
    given = to_nir(net, dt=DT, input_shape=(6, 5, 2))
    assert given.nodes["1"].tau.shape == (3, 6, 5)
    assert given.nodes["0"].weight.flags.writeable
    again = from_nir(given, dt=DT)
    wanted = run(net, xs)
    np.testing.assert_allclose(
        run(again, np.moveaxis(xs, -1, 2)), wanted, rtol=1e-5, atol=1e-5
    )


def test_a_file_keeps_the_graph(tmp_path):
    net = image_network()
    written = to_nir(net, dt=DT, input_shape=(6, 5, 2))
    nir.write(tmp_path / "net.nir", written)
    read = nir.read(tmp_path / "net.nir")
    xs = current(10, 2, 2, 6, 5)
    one, other = (run(from_nir(g, dt=DT), xs) for g in (written, read))
    np.testing.assert_array_equal(one, other)


def test_the_step_is_asked_for():
    with pytest.raises(TypeError, match="dt"):
        from_nir(GRAPHS["LIF"])
    with pytest.raises(TypeError, match="dt"):
        to_nir(LIF(2))
    for dt in (0.0, np.nan, -1.0):
        with pytest.raises(ValueError, match="`dt`"):
            from_nir(GRAPHS["LIF"], dt=dt)
        with pytest.raises(ValueError, match="`dt`"):
            to_nir(LIF(2, reset="zero"), dt=dt)
    with pytest.raises(TypeError, match="NIRGraph"):
        from_nir("model.nir", dt=1.0)


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nir", None)
    with pytest.raises(ImportError, match=r"spike-core\[nir\]"):
        from_nir(GRAPHS["LIF"], dt=1.0)
    with pytest.raises(ImportError, match=r"spike-core\[nir\]"):
        to_nir(LIF(2), dt=1.0)


class Strange(nir.NIRNode):
    """A node of a later version."""

    def __init__(self):
        self.input_type = self.output_type = {}


def _mixed():
    node = lif()
    node.r = values(1.0, 2.0, 3.0)
    return node


BAD_GRAPHS = {
    "node 'n', a Strange": graph([("input", "n"), ("n", "output")], n=Strange()),
    "node 'n', a LIF: `tau`": graph(
        [("input", "n"), ("n", "output")], n=lif(tau=values(0.0, 0.01))
    ),
    "node 'n', a LIF: `r` must have the shape": graph(
        [("input", "n"), ("n", "output")], n=_mixed()
    ),
    "node 'n', a Delay: `delay` must be a multiple": graph(
        [("input", "n"), ("n", "output")], n=nir.Delay(values(0.0, 7e-4))
    ),
    "node 'n', a Linear: `weight`": graph(
        [("input", "n"), ("n", "output")], n=nir.Linear(weights(3, 4))
    ),
    "node 'n', a Conv1d: its input": graph(
        [("input", "n"), ("n", "output")], shape=(3, 9), n=line()
    ),
    "node 'n', a Conv1d: `padding`": graph(
        [("input", "n"), ("n", "output")], shape=(2, 9), n=line(stride=2)
    ),
    "node 'm' is not reached": graph(
        [("input", "n"), ("n", "output"), ("m", "output")], n=lif(), m=lif()
    ),
    "cycle without a neuron": graph(
        [("input", "a"), ("a", "b"), ("b", "a"), ("b", "output")],
        a=nir.Linear(weights(2, 2)),
        b=nir.Linear(weights(2, 2)),
    ),
    "comes into node 'n'": graph(
        [("input", "a"), ("a", "n"), ("input", "n"), ("n", "output")],
        a=nir.Linear(weights(3, 2)),
        n=plain_lif(),
    ),
    "one Input node": graph([("input", "output")], m=nir.Input(np.array([2]))),
    "a node between": graph([("input", "output")]),
}


@pytest.mark.parametrize("match", BAD_GRAPHS)
def test_what_we_cannot_express_is_named(match):
    with pytest.raises(ValueError, match=match):
        from_nir(BAD_GRAPHS[match], dt=DT)


BAD_NETWORKS = {
    "'1', a LIF: .* reset .*'subtract'": lambda: Sequential(
        linear(2, 2), LIF(2, dt=DT)
    ),
    "'lif', a LIF: no node rests": lambda: LIF(2, reset="zero", refractory=2, dt=DT),
    "'lif', a LIF: its step": lambda: LIF(2, reset="zero", dt=1.0),
    "'alif', an? ALIF: no node does": lambda: ALIF(2, reset="zero", dt=DT),
    "'1', a .*: no node does": lambda: Sequential(linear(2, 2), jax.nn.relu),
    "a Dropout at work": lambda: Sequential(
        linear(2, 2), nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    ),
    "'0', a Drive, must stand before": lambda: Sequential(Drive(2.0), linear(2, 2)),
    "a Shift by the `v_leak`": lambda: Sequential(
        Drive(2.0, 0.5), LeakyIntegrator(2, dt=DT), Shift(0.25)
    ),
    "spikes cannot be shifted": lambda: Sequential(
        LIF(2, reset="zero", dt=DT), Shift(0.25)
    ),
    "`input_shape` must be given": lambda: Sequential(Threshold(0.5)),
    "partial of avg_pool": lambda: Sequential(
        linear(2, 2), partial(nnx.max_pool, window_shape=(2, 2))
    ),
}


@pytest.mark.parametrize("match", BAD_NETWORKS)
def test_what_the_format_cannot_express_is_named(match):
    with pytest.raises(ValueError, match=match):
        to_nir(BAD_NETWORKS[match](), dt=DT)


BAD_IMAGES = {
    "pads one side": nnx.Conv(2, 2, (3, 3), padding=[(1, 0), (1, 1)], rngs=nnx.Rngs(0)),
    "padding 'CIRCULAR'": nnx.Conv(2, 2, 3, padding="CIRCULAR", rngs=nnx.Rngs(0)),
    "input must be flat": linear(2, 2),
    "all axes have to be flattened": Sequential(
        nnx.Conv(2, 2, (3, 3), rngs=nnx.Rngs(0)), Flatten(-2)
    ),
    "channels either last or": Sequential(
        nnx.Conv(2, 2, (3, 3), rngs=nnx.Rngs(0)),
        ChannelsFirst(nnx.Conv(6, 2, (3, 3), rngs=nnx.Rngs(0)), 2),
    ),
    "in one order of channels": Graph(
        {
            "conv": nnx.Conv(2, 2, (1, 1), rngs=nnx.Rngs(0)),
            "flat": Flatten(-3),
            "line": linear(72, 72),
        },
        [
            ("input", "conv"),
            ("conv", "flat"),
            ("flat", "line"),
            ("flat", "output"),
            ("line", "output"),
        ],
    ),
}


@pytest.mark.parametrize("match", BAD_IMAGES)
def test_images_that_the_format_cannot_express_are_named(match):
    shape = (6, 2) if "CIRCULAR" in match else (6, 6, 2)
    with pytest.raises(ValueError, match=match):
        to_nir(BAD_IMAGES[match], dt=DT, input_shape=shape)


def test_delays_of_their_own():
    assert jax.tree.leaves(Delay(2, 3).initial_state((4,)))[0].shape == (4, 2, 3)
    for steps in (-1, 0.5, np.nan, [1, 2, 3]):
        with pytest.raises(ValueError, match="`steps`"):
            Delay(2, steps)


def test_sums_of_windows():
    x = jnp.arange(16.0).reshape(4, 4, 1)
    sums = sum_pool(x, (2, 2), (2, 2))[..., 0]
    np.testing.assert_allclose(sums, [[10, 18], [42, 50]], rtol=1e-6)
