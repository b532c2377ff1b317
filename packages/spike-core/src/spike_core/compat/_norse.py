"""Neurons of Norse: forward Euler, time in seconds, a synapse before the membrane.

Membranes are measured from `v_leak`, where those of Norse start; not that of `AdEx`,
which starts at rest as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._neuron.adex import AdEx
from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._neuron.nonlinear import EIF
from .._recurrent import Recurrent
from .._sequential import Sequential
from ..nir._layers import Scale, Shift
from ._reading import Wanted, linear, numbers, reads, refuse
from ._surrogate import torch_derivative


@reads("norse", "IAFCell")
def integrate_and_fire(neuron: Any, wanted: Wanted) -> Any:
    """Read an `IAFCell`."""
    # Without a leak the origin is free: where the membrane starts and is reset to.
    return IF(wanted.features, **_firing(neuron, wanted, origin="v_reset"))


@reads("norse", "LIFBoxCell")
def leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFBoxCell`."""
    return LIF(
        wanted.features,
        tau=_tau(neuron, wanted, "tau_mem_inv"),
        **_firing(neuron, wanted),
    )


@reads("norse", "LIFCell")
def current_based(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFCell`."""
    membrane = _current_based(neuron, wanted, detach_reset=False)
    return Sequential(Scale(_unscaled(neuron, wanted)), membrane)


@reads("norse", "LIFRecurrentCell")
def recurrent(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFRecurrentCell`: with the weights of its input."""
    factor = _unscaled(neuron, wanted)
    membrane = _current_based(neuron, wanted, detach_reset=True)
    return Sequential(
        linear(neuron.input_weights, factor=factor),
        Recurrent(membrane, linear(neuron.recurrent_weights, factor=factor)),
    )


@reads("norse", "LIFExCell")
def exponential(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFExCell`."""
    p = neuron.p
    onset = wanted.value("p.v_th", p.v_th) - wanted.value("p.v_leak", p.v_leak)
    return Sequential(
        _synapse(neuron, wanted),
        EIF(
            wanted.features,
            tau=wanted.dt / (neuron.dt * wanted.value("p.tau_mem_inv", p.tau_mem_inv)),
            sharpness=wanted.value("p.delta_T", p.delta_T),
            v_rheobase=onset,
            **_firing(neuron, wanted),
        ),
    )


@reads("norse", "LIFAdExCell")
def adaptive_exponential(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFAdExCell`: as an `AdEx` with a conductance of 1."""
    p = neuron.p
    names = ("tau_mem_inv", "tau_ada_inv", "delta_T", "v_leak", "v_th", "v_reset")
    rate, rate_adaptation, sharpness, v_leak, v_th, v_reset = (
        wanted.value(f"p.{name}", getattr(p, name)) for name in names
    )
    return Sequential(
        _synapse(neuron, wanted),
        AdEx(
            wanted.features,
            capacitance=wanted.dt / (neuron.dt * rate),
            conductance=1.0,
            v_rest=v_leak,
            v_rheobase=v_th,
            sharpness=sharpness,
            tau_adaptation=wanted.dt / (neuron.dt * rate_adaptation),
            a=wanted.value("p.adaptation_current", p.adaptation_current),
            b=wanted.value("p.adaptation_spike", p.adaptation_spike),
            threshold=v_th,
            v_reset=v_reset,
            surrogate=_firing(neuron, wanted)["surrogate"],
            dt=wanted.dt,
        ),
    )


@reads("norse", "LIBoxCell")
def leaky_integrator(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIBoxCell`."""
    tau = _tau(neuron, wanted, "tau_mem_inv")
    layer = LeakyIntegrator(wanted.features, tau=tau, dt=wanted.dt)
    v_leak = wanted.value("p.v_leak", neuron.p.v_leak)
    return Sequential(layer, Shift(v_leak)) if np.any(v_leak) else layer


@reads("norse", "LICell")
def leaky_integrator_with_synapse(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LICell`."""
    return Sequential(_synapse(neuron, wanted), leaky_integrator(neuron, wanted))


def _current_based(neuron, wanted, *, detach_reset):
    return CubaLIF(
        wanted.features,
        tau=_tau(neuron, wanted, "tau_mem_inv"),
        tau_synapse=_tau(neuron, wanted, "tau_syn_inv"),
        detach_reset=detach_reset,
        **_firing(neuron, wanted),
    )


def _synapse(neuron, wanted):
    tau = _tau(neuron, wanted, "tau_syn_inv")
    return LeakyIntegrator(wanted.features, tau=tau, input_gain="unit", dt=wanted.dt)


def _unscaled(neuron, wanted):
    """Return what makes up for the gain of a synapse here: it adds its input there."""
    return 1 / (neuron.dt * wanted.value("p.tau_syn_inv", neuron.p.tau_syn_inv))


def _tau(neuron, wanted, name):
    return wanted.tau(f"p.{name}", 1 - neuron.dt * numbers(getattr(neuron.p, name)))


def _firing(neuron: Any, wanted: Wanted, origin: str = "v_leak") -> dict[str, Any]:
    """Return threshold and reset, measured from `origin`."""
    p = neuron.p
    zero = wanted.value(f"p.{origin}", getattr(p, origin))
    settings: dict[str, Any] = {
        "threshold": wanted.value("p.v_th", p.v_th) - zero,
        "surrogate": wanted.find(
            repr(p.method), torch_derivative(lambda u: _spike(u, p.method, p.alpha))
        ),
        "dt": wanted.dt,
    }
    method = getattr(p, "reset_method", None)
    name = getattr(method, "__name__", "reset_value")
    if name == "reset_subtract":
        if np.any(zero):
            why = "it takes off the threshold as measured from zero"
            refuse(neuron, f"p.{origin}", zero, why)
        return {**settings, "reset": "subtract"}
    if name != "reset_value":
        refuse(neuron, "p.reset_method", name, "the reset is unknown")
    v_reset = wanted.value("p.v_reset", p.v_reset) - zero
    if np.any(v_reset):
        return {**settings, "reset": "value", "v_reset": v_reset}
    return {**settings, "reset": "zero"}


def _spike(u, method, alpha):
    from norse.torch.functional.threshold import threshold

    return threshold(u, method, alpha)
