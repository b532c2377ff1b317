"""Networks made of NIR graphs do what the format's equations say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spike_core import Graph
from spike_core.nir import Delay, from_nir, sum_pool, to_nir

from .nir_graphs import (
    DT,
    GRAPHS,
    chain,
    cuba_lif,
    current,
    inner,
    lif,
    nir,
    run,
    values,
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


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "pools"])
def test_convolutions_and_pools_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    xs = current(1, 3, *GRAPHS[name].nodes["input"].input_type["input"])
    x = torch.tensor(xs[0], dtype=torch.float32)
    for node in inner(GRAPHS[name]):
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


def test_delays_of_their_own():
    assert jax.tree.leaves(Delay(2, 3).initial_state((4,)))[0].shape == (4, 2, 3)
    for steps in (-1, 0.5, np.nan, [1, 2, 3]):
        with pytest.raises(ValueError, match="`steps`"):
            Delay(2, steps)


def test_sums_of_windows():
    x = jnp.arange(16.0).reshape(4, 4, 1)
    sums = sum_pool(x, (2, 2), (2, 2))[..., 0]
    np.testing.assert_allclose(sums, [[10, 18], [42, 50]], rtol=1e-6)
