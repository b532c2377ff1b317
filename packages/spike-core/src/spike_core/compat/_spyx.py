"""Neurons of Spyx.

All but `PSU_LIF` and `LI` compare the membrane of the step before: their spikes come
one step later than they would here, so that a `Delay` follows.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx

from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._recurrent import Recurrent
from .._sequential import Sequential
from ..nir._layers import Delay
from ._late_reset import LateResetALIF, LateResetLIF
from ._reading import Wanted, numbers, reads
from ._surrogate import jax_derivative


@reads("spyx", "IF")
def integrate_and_fire(neuron: Any, wanted: Wanted) -> Any:
    """Read an `IF`."""
    threshold = float(neuron.threshold)
    surrogate = _surrogate(neuron, wanted)
    layer = IF(wanted.features, threshold=threshold, surrogate=surrogate, dt=wanted.dt)
    return _late(layer, wanted)


@reads("spyx", "LIF")
def leaky(neuron: Any, wanted: Wanted) -> Any:
    """Read an `LIF`."""
    return _late(LateResetLIF(wanted.features, **_leaky(neuron, wanted)), wanted)


@reads("spyx", "RLIF")
def recurrent(neuron: Any, wanted: Wanted) -> Any:
    """Read an `RLIF`."""
    size = wanted.features[-1]
    feedback = nnx.Linear(size, size, use_bias=False, rngs=nnx.Rngs(0))
    feedback.kernel[...] = jnp.asarray(neuron.recurrent_w[...])
    inner = LateResetLIF(wanted.features, **_leaky(neuron, wanted))
    return _late(Recurrent(inner, feedback), wanted)


@reads("spyx", "ALIF")
def adaptive(neuron: Any, wanted: Wanted) -> Any:
    """Read an `ALIF`."""
    gamma = wanted.value("gamma", neuron.gamma[...])
    layer = LateResetALIF(
        wanted.features,
        tau_adaptation=wanted.tau("gamma", gamma),
        beta=1 - gamma,
        **_leaky(neuron, wanted),
    )
    return _late(layer, wanted)


@reads("spyx", "CuBaLIF")
def current_based(neuron: Any, wanted: Wanted) -> Any:
    """Read a `CuBaLIF`."""
    settings = _leaky(neuron, wanted)
    settings["trainable"] = ("tau", "tau_synapse")
    tau_synapse = wanted.tau("alpha", numbers(neuron.alpha[...]))
    return _late(CubaLIF(wanted.features, tau_synapse=tau_synapse, **settings), wanted)


@reads("spyx", "PSU_LIF")
def without_reset(neuron: Any, wanted: Wanted) -> Any:
    """Read a `PSU_LIF`."""
    return LIF(wanted.features, reset="none", **_leaky(neuron, wanted))


@reads("spyx", "LI")
def leaky_integrator(neuron: Any, wanted: Wanted) -> Any:
    """Read an `LI`."""
    return LeakyIntegrator(
        wanted.features,
        tau=wanted.tau("beta", numbers(neuron.beta[...])),
        input_gain="unit",
        dt=wanted.dt,
        trainable=("tau",),
    )


def _leaky(neuron: Any, wanted: Wanted) -> dict[str, Any]:
    return {
        "tau": wanted.tau("beta", numbers(neuron.beta[...])),
        "threshold": float(neuron.threshold),
        "input_gain": "unit",
        "surrogate": _surrogate(neuron, wanted),
        "dt": wanted.dt,
        "trainable": ("tau",),
    }


def _surrogate(neuron, wanted):
    return wanted.find("`activation`", jax_derivative(neuron.spike))


def _late(layer, wanted):
    return Sequential(layer, Delay(wanted.features, 1))
