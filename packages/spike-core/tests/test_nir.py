"""NIR graphs in and out: nothing is lost either way."""

import sys
from functools import partial

import numpy as np
import pytest
from flax import nnx
from spike_core import IF, LIF, CubaLIF, Graph, LeakyIntegrator, Recurrent, Sequential
from spike_core.nir import (
    Delay,
    Flatten,
    Integrator,
    Threshold,
    avg_pool,
    from_nir,
    to_nir,
)

from .nir_graphs import (
    DT,
    GRAPHS,
    current,
    graph,
    inner,
    linear,
    nir,
    plain_lif,
    run,
    weights,
)

# Where equal parameters do not make equal outputs sure.
SAID_OTHERWISE = ("Conv1d", "Conv2d", "Flatten", "pools", "recurrent, driven", "skip")


@pytest.mark.parametrize("name", GRAPHS)
def test_there_and_back(name):
    given = GRAPHS[name]
    net = from_nir(given, dt=DT)
    shape = tuple(given.nodes["input"].input_type["input"])
    again = to_nir(net, dt=DT, input_shape=shape)
    theirs, ours = (inner(g) for g in (given, again))
    assert [type(n) for n in ours] == [type(n) for n in theirs]
    for one, other in zip(theirs, ours, strict=True):
        _assert_same(one, other)
    if name in SAID_OTHERWISE:
        xs = current(20, 3, *shape)
        back = from_nir(again, dt=DT)
        np.testing.assert_allclose(run(net, xs), run(back, xs), atol=1e-6)


def _assert_same(one, other):
    left, right = one.to_dict(), other.to_dict()
    for key in left:
        if key in ("type", "metadata", "padding", "start_dim", "end_dim", "input_type"):
            # There are several ways to say the same.
            continue
        np.testing.assert_allclose(
            right[key], left[key], rtol=1e-6, atol=1e-7, err_msg=key
        )


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
