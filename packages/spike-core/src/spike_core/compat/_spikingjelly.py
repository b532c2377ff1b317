"""Neurons of SpikingJelly.

They fire when the threshold is reached: the threshold here is the float32 just below.
Membranes are measured from the potential to which they leak.
"""

from __future__ import annotations

import math
from typing import Any

from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._neuron.nonlinear import EIF, QIF
from .._neuron.resonate_and_fire import ResonateAndFire
from ..nir._layers import Integrator
from ._reading import Wanted, just_below, numbers, reads, refuse
from ._start_at import StartAt
from ._surrogate import torch_derivative


@reads("spikingjelly", "IFNode", "SimpleIFNode")
def integrate_and_fire(neuron: Any, wanted: Wanted) -> Any:
    """Read an `IFNode`."""
    # Without a leak the origin is free: where the membrane starts and is reset to.
    return IF(wanted.features, **_firing(neuron, wanted, neuron.v_reset or 0.0))


@reads("spikingjelly", "LIFNode", "SimpleLIFNode", "ParametricLIFNode")
def leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read a `LIFNode` or a `ParametricLIFNode`."""
    learned = hasattr(neuron, "w")
    rate = neuron.w.sigmoid() if learned else 1 / neuron.tau
    return LIF(
        wanted.features,
        tau=wanted.tau("tau", 1 - numbers(rate)),
        input_gain="leak" if neuron.decay_input else "unit",
        trainable=("tau",) if learned else (),
        **_firing(neuron, wanted, neuron.v_reset or 0.0),
    )


@reads("spikingjelly", "CUBALIFNode")
def current_based(neuron: Any, wanted: Wanted) -> Any:
    """Read a `CUBALIFNode`."""
    start = neuron.v_reset or 0.0
    settings = _firing(neuron, wanted, 0.0)
    layer = CubaLIF(
        wanted.features,
        tau=wanted.tau("v_decay", neuron.v_decay),
        tau_synapse=wanted.tau("c_decay", neuron.c_decay),
        input_gain="unit",
        **settings,
    )
    return StartAt(layer, start) if start else layer


@reads("spikingjelly", "RAFNode")
def resonate_and_fire(neuron: Any, wanted: Wanted) -> Any:
    """Read an `RAFNode`."""
    if neuron.v_reset is not None:
        why = "a reset to a value here sets both parts of the oscillator"
        refuse(neuron, "v_reset", neuron.v_reset, why)
    return ResonateAndFire(
        wanted.features,
        tau=-wanted.dt / (neuron.b * neuron.dt),
        frequency=1e3 * neuron.omega * neuron.dt / (2 * math.pi * wanted.dt),
        input_gain="unit",
        **_firing(neuron, wanted, 0.0),
    )


@reads("spikingjelly", "EIFNode")
def exponential(neuron: Any, wanted: Wanted) -> Any:
    """Read an `EIFNode`."""
    _refuse_soft(neuron)
    layer = EIF(
        wanted.features,
        tau=neuron.tau * wanted.dt,
        sharpness=neuron.delta_T,
        v_rheobase=neuron.theta_rh - neuron.v_rest,
        **_firing(neuron, wanted, neuron.v_rest),
    )
    return StartAt(layer, neuron.v_reset - neuron.v_rest)


@reads("spikingjelly", "QIFNode")
def quadratic(neuron: Any, wanted: Wanted) -> Any:
    """Read a `QIFNode`."""
    _refuse_soft(neuron)
    layer = QIF(
        wanted.features,
        tau=neuron.tau * wanted.dt,
        curvature=neuron.a0,
        v_critical=neuron.v_c - neuron.v_rest,
        **_firing(neuron, wanted, neuron.v_rest),
    )
    return StartAt(layer, neuron.v_reset - neuron.v_rest)


@reads("spikingjelly", "NonSpikingLIFNode")
def leaky_integrator(neuron: Any, wanted: Wanted) -> Any:
    """Read a `NonSpikingLIFNode`."""
    _refuse_decoding(neuron)
    tau = wanted.tau("tau", 1 - 1 / neuron.tau)
    return LeakyIntegrator(wanted.features, tau=tau, dt=wanted.dt)


@reads("spikingjelly", "NonSpikingIFNode")
def integrator(neuron: Any, wanted: Wanted) -> Any:
    """Read a `NonSpikingIFNode`."""
    _refuse_decoding(neuron)
    return Integrator(wanted.features)


def _firing(neuron: Any, wanted: Wanted, origin: float) -> dict[str, Any]:
    """Return threshold and reset, measured from `origin`."""
    settings: dict[str, Any] = {
        "threshold": just_below(neuron.v_threshold - origin),
        "detach_reset": neuron.detach_reset,
        "surrogate": wanted.find(
            type(neuron.surrogate_function).__name__,
            torch_derivative(neuron.surrogate_function),
        ),
        "dt": wanted.dt,
    }
    if neuron.v_reset is None:
        return {**settings, "reset": "subtract"}
    v_reset = neuron.v_reset - origin
    if v_reset:
        return {**settings, "reset": "value", "v_reset": v_reset}
    return {**settings, "reset": "zero"}


def _refuse_soft(neuron):
    if neuron.v_reset is None:
        why = "a membrane above the threshold is followed there into the upswing"
        refuse(neuron, "v_reset", None, why)


def _refuse_decoding(neuron):
    if neuron.decode is not None:
        why = "apply a readout to the membranes, such as `time_mean`"
        refuse(neuron, "decode", neuron.decode, why)
