"""Neurons of SpikingJelly beside the ones here."""

import numpy as np
import pytest

neuron = pytest.importorskip(
    "spikingjelly.activation_based.neuron", reason="SpikingJelly is not installed"
)
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
surrogate = pytest.importorskip("spikingjelly.activation_based.surrogate")

import spike_core  # noqa: E402
from spike_core import Scan, unroll  # noqa: E402
from spike_core.compat import from_peer  # noqa: E402

NEURONS = 6
SPIKING = {
    "IF": (lambda: neuron.IFNode(), (0.2, 0.5)),
    "IF, soft": (lambda: neuron.IFNode(v_reset=None), (0.2, 0.5)),
    "IF, reset to a value": (lambda: neuron.IFNode(v_reset=-0.5), (0.2, 0.5)),
    "LIF": (lambda: neuron.LIFNode(tau=5.0), (0.8, 2.0)),
    "LIF, soft": (lambda: neuron.LIFNode(tau=5.0, v_reset=None), (0.8, 2.0)),
    "LIF, raw input": (lambda: neuron.LIFNode(tau=5.0, decay_input=False), (0.2, 0.5)),
    "LIF, reset to a value": (
        lambda: neuron.LIFNode(tau=5.0, v_reset=-0.3, v_threshold=0.7),
        (0.8, 2.0),
    ),
    "LIF, detached": (lambda: neuron.LIFNode(tau=5.0, detach_reset=True), (0.8, 2.0)),
    "PLIF": (lambda: neuron.ParametricLIFNode(init_tau=4.0), (0.8, 2.0)),
    "current-based": (lambda: neuron.CUBALIFNode(), (0.1, 0.3)),
    "current-based, reset to a value": (
        lambda: neuron.CUBALIFNode(v_reset=-0.4),
        (0.2, 0.3),
    ),
    "resonate-and-fire": (
        lambda: neuron.RAFNode(v_threshold=0.5, v_reset=None),
        (0.0, 0.5),
    ),
    "exponential": (lambda: neuron.EIFNode(tau=5.0, delta_T=0.3), (0.9, 2.0)),
    "quadratic": (lambda: neuron.QIFNode(tau=5.0, v_reset=-0.2), (0.9, 2.0)),
}
SURROGATES = {
    "ATan": (surrogate.ATan(alpha=3.0), spike_core.ATan(3.0)),
    "Sigmoid": (surrogate.Sigmoid(alpha=4.0), spike_core.Sigmoid(4.0)),
    "Erf": (surrogate.Erf(alpha=2.0), spike_core.Erf(2.0)),
    "PiecewiseExp": (surrogate.PiecewiseExp(alpha=3.0), spike_core.Exponential(3.0)),
    "NonzeroSignLogAbs": (
        surrogate.NonzeroSignLogAbs(alpha=2.0),
        spike_core.Logarithmic(2.0),
    ),
    "Rect": (surrogate.Rect(alpha=1.0), spike_core.Boxcar(1.0)),
}


def _step(peer):
    return lambda x, state: (peer(x), None)


@pytest.mark.parametrize("name", SPIKING)
def test_spikes_and_gradients(name, drive, by_torch, agrees):
    make, current = SPIKING[name]
    peer, xs = make(), drive(*current)
    if name in ("exponential", "quadratic"):
        peer.surrogate_function = surrogate.ATan()
    agrees(from_peer(peer, NEURONS), xs, *by_torch(_step(peer), xs))


@pytest.mark.parametrize("kind", ["NonSpikingLIFNode", "NonSpikingIFNode"])
def test_readouts(kind, drive, agrees):
    peer, xs = getattr(neuron, kind)(), drive(0.2, 0.5)
    outputs = torch.stack(peer(torch.tensor(xs))).numpy()
    agrees(from_peer(peer, NEURONS), xs, outputs, None, spiking=False)


def test_a_membrane_at_the_threshold_fires():
    peer = neuron.IFNode(v_reset=None)
    xs = np.full((9, 1), 0.25, np.float32)
    theirs = [float(peer(x)[0]) for x in torch.tensor(xs)]
    assert theirs == unroll(from_peer(peer, 1), xs, strategy=Scan())[1][:, 0].tolist()
    assert theirs == [0, 0, 0, 1, 0, 0, 0, 1, 0]


def test_the_gradient_of_the_learned_time_constant(drive, by_torch, by_decay):
    peer, xs = neuron.ParametricLIFNode(init_tau=4.0), drive(0.8, 2.0)
    by_torch(_step(peer), xs)
    rate = peer.w.sigmoid().item()
    ours = by_decay(from_peer(peer, NEURONS), xs)
    assert ours * -rate * (1 - rate) == pytest.approx(peer.w.grad.item(), rel=2e-3)


@pytest.mark.parametrize("name", SURROGATES)
def test_surrogates(name):
    theirs, ours = SURROGATES[name]
    assert from_peer(neuron.IFNode(surrogate_function=theirs), 2).surrogate == ours


def test_what_cannot_be_expressed():
    for peer, match in (
        (neuron.RAFNode(), "v_reset"),
        (neuron.EIFNode(v_reset=None), "v_reset"),
        (neuron.NonSpikingLIFNode(decode="max-mem"), "decode"),
        (neuron.IFNode(surrogate_function=surrogate.LeakyKReLU()), "LeakyKReLU"),
    ):
        with pytest.raises(ValueError, match=match):
            from_peer(peer, 2)
    with pytest.raises(TypeError, match="KLIFNode"):
        from_peer(neuron.KLIFNode(), 2)
