"""Neurons of snnTorch beside the ones here."""

import warnings

import numpy as np
import pytest
from flax import nnx

snntorch = pytest.importorskip("snntorch", reason="snnTorch is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
surrogate = pytest.importorskip("snntorch.surrogate")

from spike_core import ATan, FastSigmoid, Sigmoid, StraightThrough  # noqa: E402
from spike_core.compat import from_peer  # noqa: E402

NEURONS = 6


def _step(neuron):
    """Carry the states, whatever their number, from call to call."""

    def step(x, state):
        y, *state = neuron(x, *(state or []))
        return y, state

    return step


def _recurrent_step(neuron):
    """The same for neurons whose first state is their own output."""

    def step(x, state):
        state = neuron(x, *(state or []))
        return state[0], list(state)

    return step


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
@pytest.mark.parametrize("delay", [True, False])
@pytest.mark.parametrize("model", ["Leaky", "Synaptic"])
def test_spikes_and_gradients(model, reset, delay, drive, by_torch, agrees):
    decays = {"beta": 0.9} if model == "Leaky" else {"alpha": 0.6, "beta": 0.8}
    neuron = getattr(snntorch, model)(
        **decays, reset_mechanism=reset, reset_delay=delay
    )
    # Weak enough for a reset to leave no membrane above the threshold.
    xs = drive(0.12, 0.2) if model == "Leaky" else drive(0.1, 0.1)
    agrees(from_peer(neuron, NEURONS), xs, *by_torch(_step(neuron), xs))


@pytest.mark.parametrize("reset", ["subtract", "zero"])
@pytest.mark.parametrize("model", ["RLeaky", "RSynaptic"])
@pytest.mark.parametrize("all_to_all", [True, False])
def test_recurrent_neurons(model, reset, all_to_all, drive, by_torch, agrees):
    torch.manual_seed(0)
    decays = {"beta": 0.9} if model == "RLeaky" else {"alpha": 0.6, "beta": 0.8}
    neuron = getattr(snntorch, model)(
        **decays,
        V=-0.3,
        all_to_all=all_to_all,
        linear_features=NEURONS if all_to_all else None,
        reset_mechanism=reset,
    )
    xs = drive(0.15, 0.2)
    agrees(from_peer(neuron, NEURONS), xs, *by_torch(_recurrent_step(neuron), xs))


def test_one_value_a_neuron(drive, by_torch, agrees):
    beta, threshold = torch.linspace(0.7, 0.95, NEURONS), torch.linspace(0.5, 1, 6)
    neuron = snntorch.Leaky(beta=beta, threshold=threshold)
    xs = drive(0.12, 0.3)
    agrees(from_peer(neuron, NEURONS), xs, *by_torch(_step(neuron), xs))


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_the_gradient_of_the_learned_decay(reset, drive, by_torch, by_decay):
    neuron = snntorch.Leaky(beta=0.9, learn_beta=True, reset_mechanism=reset)
    xs = drive(0.12, 0.2)
    by_torch(_step(neuron), xs)
    ours = by_decay(from_peer(neuron, NEURONS), xs)
    assert ours == pytest.approx(neuron.beta.grad.item(), rel=2e-3)


def test_strong_input_with_an_undelayed_reset_may_differ(drive, by_torch, agrees):
    neuron = snntorch.Leaky(beta=0.9, reset_delay=False)
    xs = drive(2.0, 1.0)
    with pytest.raises(AssertionError):
        agrees(from_peer(neuron, NEURONS), xs, *by_torch(_step(neuron), xs))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (surrogate.atan(alpha=3.0), ATan(3.0)),
        (surrogate.fast_sigmoid(slope=25), FastSigmoid(25.0)),
        (surrogate.sigmoid(slope=5), Sigmoid(5.0)),
        (surrogate.straight_through_estimator(), StraightThrough(1.0)),
    ],
)
def test_surrogates(theirs, ours):
    neuron = snntorch.Leaky(beta=0.9, spike_grad=theirs)
    assert from_peer(neuron, 2).surrogate == ours


def test_what_cannot_be_expressed():
    for name, settings in (
        ("inhibition", {"inhibition": True}),
        ("graded_spikes_factor", {"graded_spikes_factor": 2.0}),
        ("beta", {"beta": 1.0}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an unstable feature
            neuron = snntorch.Leaky(**{"beta": 0.9, **settings})
        with pytest.raises(ValueError, match=name):
            from_peer(neuron, 2)
    with pytest.raises(TypeError, match="Alpha"):
        from_peer(snntorch.Alpha(alpha=0.9, beta=0.8), 2)


def test_learned_parameters_are_trainable():
    neuron = snntorch.Leaky(beta=0.9, learn_beta=True, learn_threshold=True)
    layer = from_peer(neuron, 2)
    assert sorted(nnx.state(layer, nnx.Param)) == ["log_tau", "threshold"]
    assert np.exp(-1 / np.exp(layer.log_tau[...])) == pytest.approx(0.9, rel=1e-6)
