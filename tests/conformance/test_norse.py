"""Neurons of Norse beside the ones here."""

import numpy as np
import pytest

norse = pytest.importorskip("norse.torch", reason="Norse is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from norse.torch.functional.lif_box import LIFBoxParameters  # noqa: E402
from norse.torch.functional.reset import reset_subtract  # noqa: E402
from spike_core import FastSigmoid  # noqa: E402
from spike_core.compat import from_peer  # noqa: E402

NEURONS = 6


def _tensor(value):
    return torch.as_tensor(value)


def _box(**settings):
    return norse.LIFBoxCell(LIFBoxParameters(tau_mem_inv=_tensor(100.0), **settings))


def _lif(**settings):
    return norse.LIFCell(norse.LIFParameters(**settings))


SPIKING = {
    "integrate-and-fire": (
        lambda: norse.IAFCell(norse.IAFParameters(v_reset=_tensor(-0.3))),
        (0.2, 0.5),
    ),
    "no synapse": (_box, (0.8, 2.0)),
    "no synapse, subtract": (lambda: _box(reset_method=reset_subtract), (0.8, 2.0)),
    "no synapse, leak and reset": (
        lambda: _box(v_leak=_tensor(-0.2), v_reset=_tensor(-0.5), v_th=_tensor(0.6)),
        (0.8, 2.0),
    ),
    "no synapse, one value a neuron": (
        lambda: _box(v_th=torch.linspace(0.4, 1.0, NEURONS)),
        (0.8, 2.0),
    ),
    "current-based": (_lif, (0.2, 0.6)),
    "current-based, leak and reset": (
        lambda: _lif(v_leak=_tensor(-0.2), v_reset=_tensor(-0.4), v_th=_tensor(0.8)),
        (0.3, 0.6),
    ),
    "exponential": (
        lambda: norse.LIFExCell(norse.LIFExParameters(v_leak=_tensor(0.0))),
        (0.1, 0.4),
    ),
    "adaptive exponential": (
        lambda: norse.LIFAdExCell(
            norse.LIFAdExParameters(
                adaptation_spike=_tensor(0.5),
                tau_ada_inv=_tensor(20.0),
                v_leak=_tensor(-0.1),
                v_reset=_tensor(-0.3),
            )
        ),
        (0.4, 0.6),
    ),
}


@pytest.mark.parametrize("name", SPIKING)
def test_spikes_and_gradients(name, drive, by_torch, agrees):
    make, current = SPIKING[name]
    peer, xs = make(), drive(*current)
    agrees(from_peer(peer, NEURONS), xs, *by_torch(peer, xs))


def test_recurrent_neurons(drive, by_torch, agrees):
    torch.manual_seed(0)
    peer = norse.LIFRecurrentCell(NEURONS, NEURONS)
    xs = drive(0.3, 0.6)
    agrees(from_peer(peer, NEURONS), xs, *by_torch(peer, xs))


@pytest.mark.parametrize("kind", ["LIBoxCell", "LICell"])
def test_readouts(kind, drive, by_torch, agrees):
    parameters = getattr(norse, kind.replace("Cell", "Parameters"))
    peer = getattr(norse, kind)(parameters(v_leak=_tensor(-0.3)))
    xs = drive(0.2, 0.5)
    outputs, gradient = by_torch(peer, xs)
    agrees(from_peer(peer, NEURONS), xs, outputs, gradient, spiking=False)


def test_the_surrogate_ignores_its_slope():
    assert from_peer(_box(alpha=_tensor(50.0)), 2).surrogate == FastSigmoid(1.0)


def test_what_cannot_be_expressed():
    peer = _box(reset_method=reset_subtract, v_leak=_tensor(-0.2))
    with pytest.raises(ValueError, match="v_leak"):
        from_peer(peer, 2)
    too_fast = norse.LIFBoxCell(LIFBoxParameters(tau_mem_inv=_tensor(1500.0)))
    with pytest.raises(ValueError, match="tau_mem_inv"):
        from_peer(too_fast, 2)
    with pytest.raises(TypeError, match="LSNNCell"):
        from_peer(norse.LSNNCell(), 2)


def test_time_constants_are_given_in_the_step_asked_for():
    layer = from_peer(_box(), 2, dt=0.5)
    assert layer.dt == 0.5
    assert np.exp(-0.5 / np.exp(layer.log_tau[...])) == pytest.approx(0.9, rel=1e-6)
