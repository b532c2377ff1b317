"""Graphs written here, read by other libraries; and the other way round."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, Scan, Sequential, unroll
from spike_core.nir import from_nir, to_nir

pytest.importorskip("nir", reason="the library nir is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

# Of the library that both build on.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")

# A membrane of 20 ms and the threshold 1; 1.5 for 200 ms.
SPIKES = 9


def _probe():
    net = Sequential(
        nnx.Linear(1, 1, use_bias=False, rngs=nnx.Rngs(0)), LIF(1, reset="zero")
    )
    net.layers[0].kernel[...] = jnp.ones((1, 1), jnp.float32)
    return net


def test_norse_reads_what_is_written_here():
    norse = pytest.importorskip("norse.torch", reason="Norse is not installed")
    net = norse.from_nir(to_nir(_probe(), dt=1.0), dt=1e-3)
    state, count = None, 0.0
    for x in torch.full((200, 1, 1), 1.5):
        spikes, state = net(x, state)
        count += spikes.sum().item()
    assert count == SPIKES


def test_spikingjelly_reads_what_is_written_here():
    exchange = pytest.importorskip(
        "spikingjelly.activation_based.nir_exchange",
        reason="SpikingJelly is not installed",
    )
    net = exchange.import_from_nir(to_nir(_probe(), dt=1.0), dt=1e-3)
    state, count = None, 0.0
    for x in torch.full((200, 1, 1), 1.5):
        spikes, state = net(x, state)
        count += spikes.sum().item()
    assert count == SPIKES


def test_what_spikingjelly_writes_is_read_here():
    exchange = pytest.importorskip(
        "spikingjelly.activation_based.nir_exchange",
        reason="SpikingJelly is not installed",
    )
    from spikingjelly.activation_based import layer, neuron

    net = torch.nn.Sequential(layer.Linear(1, 1, bias=False), neuron.LIFNode(tau=20.0))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
    graph = exchange.export_to_nir(net, torch.ones(1, 1), dt=1e-3)
    xs = jnp.full((200, 1), 1.5, jnp.float32)
    _, ys = unroll(from_nir(graph, dt=1.0), xs, strategy=Scan())
    assert np.sum(ys) == SPIKES
