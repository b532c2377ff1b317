"""Neurons of jaxpike."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._neuron.alif import ALIF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from ._reading import Wanted, numbers, reads, refuse
from ._surrogate import jax_derivative


@reads("jaxpike", "LIF")
def leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read an `LIF`."""
    return LIF(wanted.features, reset=neuron.reset, **_leaky(neuron, wanted))


@reads("jaxpike", "LinearLIF")
def without_reset(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LinearLIF`."""
    return LIF(wanted.features, reset="none", **_leaky(neuron, wanted))


@reads("jaxpike", "ALIF")
def adaptive(neuron: Any, wanted: Wanted) -> Any:
    """Read an `ALIF`."""
    settings = _leaky(neuron, wanted)
    settings["trainable"] = ("tau", "tau_adaptation")
    return ALIF(
        wanted.features,
        tau_adaptation=_tau(neuron, wanted, "log_tau_a"),
        beta=neuron.beta,
        reset=neuron.reset,
        **settings,
    )


@reads("jaxpike", "LeakyIntegrator")
def leaky_integrator(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LeakyIntegrator`."""
    tau = _tau(neuron, wanted, "log_tau")
    return LeakyIntegrator(wanted.features, tau=tau, dt=wanted.dt, trainable=("tau",))


@reads("jaxpike", "Izhikevich")
def izhikevich(neuron: Any, wanted: Wanted) -> Any:
    """Refuse an `Izhikevich`."""
    del wanted
    why = (
        "the upswing is clamped ten millivolts above the peak and drives the recovery "
        "from there; build a spike_core.Izhikevich"
    )
    return refuse(neuron, "v_peak", neuron.v_peak, why)


def _leaky(neuron: Any, wanted: Wanted) -> dict[str, Any]:
    return {
        "tau": _tau(neuron, wanted, "log_tau"),
        "threshold": neuron.threshold,
        "surrogate": wanted.find(
            type(neuron.surrogate).__name__, jax_derivative(neuron.surrogate)
        ),
        "dt": wanted.dt,
        "trainable": ("tau",),
    }


def _tau(neuron, wanted, name):
    tau = np.exp(numbers(getattr(neuron, name)))
    return wanted.value(name, tau * wanted.dt / neuron.dt)
