"""Neurons of snnTorch."""

from __future__ import annotations

from typing import Any

from .._neuron.cuba_lif import CubaLIF
from .._neuron.lif import LIF
from .._recurrent import Recurrent
from ..nir._layers import Scale
from ._late_reset import LateResetCubaLIF, LateResetLIF
from ._reading import Wanted, linear, numbers, reads, refuse
from ._surrogate import torch_derivative

# By the function the neuron calls: its attribute `reset_mechanism` can be set to
# another name afterwards without any effect.
_RESETS = {"_base_sub": "subtract", "_base_zero": "zero", "_base_int": "none"}


@reads("snntorch", "Leaky")
def leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read a `Leaky`."""
    return _membrane(neuron, wanted, LIF, LateResetLIF, silent_after_zero=False)


@reads("snntorch", "RLeaky")
def recurrent_leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read an `RLeaky`."""
    inner = _membrane(neuron, wanted, LIF, LateResetLIF, silent_after_zero=True)
    return Recurrent(inner, _feedback(neuron, wanted))


@reads("snntorch", "Synaptic")
def synaptic(neuron: Any, wanted: Wanted) -> Any:
    """Read a `Synaptic`."""
    return _membrane(neuron, wanted, CubaLIF, LateResetCubaLIF, silent_after_zero=True)


@reads("snntorch", "RSynaptic")
def recurrent_synaptic(neuron: Any, wanted: Wanted) -> Any:
    """Read an `RSynaptic`."""
    inner = synaptic(neuron, wanted)
    return Recurrent(inner, _feedback(neuron, wanted))


def _membrane(neuron, wanted, kind, late_kind, *, silent_after_zero):
    for name, plain in (("inhibition", False), ("state_quant", False)):
        if getattr(neuron, name) is not plain:
            refuse(neuron, name, getattr(neuron, name), "there is no such thing")
    if (numbers(neuron.graded_spikes_factor) != 1).any():
        factor = neuron.graded_spikes_factor
        refuse(neuron, "graded_spikes_factor", factor, "a spike is 1")
    trained = [("beta", "tau"), ("alpha", "tau_synapse"), ("threshold", "threshold")]
    reset = _RESETS[neuron.state_function.__name__]
    late = bool(neuron.reset_delay)
    settings: dict[str, Any] = {
        "tau": wanted.tau("beta", neuron.beta),
        "threshold": wanted.value("threshold", neuron.threshold),
        "input_gain": "unit",
        "surrogate": wanted.find(
            getattr(neuron.spike_grad, "__qualname__", repr(neuron.spike_grad)),
            torch_derivative(neuron.spike_grad),
        ),
        "dt": wanted.dt,
        "trainable": [
            ours
            for theirs, ours in trained
            if getattr(getattr(neuron, theirs, None), "requires_grad", False)
        ],
        "reset": reset,
        # The reset of the step after is computed anew, and cut from the gradient.
        "detach_reset": late,
    }
    if hasattr(neuron, "alpha"):
        settings["tau_synapse"] = wanted.tau("alpha", neuron.alpha)
    if reset == "subtract" and late:
        return late_kind(wanted.features, **settings)
    # The whole next step is set to zero, its input included, as if it rested.
    silent = reset == "zero" and late and silent_after_zero
    return kind(wanted.features, refractory=int(silent), **settings)


def _feedback(neuron, wanted):
    layer = neuron.recurrent
    kind = type(layer).__name__
    if kind == "Linear":
        return linear(layer.weight, layer.bias)
    if kind == "RecurrentOneToOne":
        return Scale(wanted.value("V", layer.V))
    return refuse(neuron, "recurrent", kind, "only Linear and one-to-one feedback is")
