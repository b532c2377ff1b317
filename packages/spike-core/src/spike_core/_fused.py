"""The whole time loop of a neuron in one compiled kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from ._layers import run_layers
from ._neuron.leaky_integrator import LeakyIntegrator
from ._neuron.lif import LIF
from ._strategy import Strategy
from ._surrogate import ATan, FastSigmoid, Surrogate


@dataclasses.dataclass(frozen=True)
class Fused(Strategy):
    """Run each neuron's whole time loop in one kernel of `spike-native`, on the CPU.

    Layers without state are applied to all steps at once. A kernel passes once over its
    input and its output and keeps every 32nd state for the reverse pass, which computes
    the steps between them again inside the cache. Derivatives are first-order and
    reverse-mode: `jax.grad` and `jax.vjp`, not `jax.jvp`.

    Raises
    ------
    ImportError
        When run, if `spike-native` is not installed.
    ValueError
        When run, if a neuron has no kernel (the note names the layer), or the default
        device is not a CPU.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, Fused, unroll
    >>> state, spikes = unroll(LIF(2), jnp.ones((10, 2)), strategy=Fused())
    >>> spikes.shape
    (10, 2)
    """

    def run(self, net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        """See `Strategy.run`."""
        if jax.default_backend() != "cpu":
            raise ValueError(
                "Fused() runs on the CPU alone, and the default device is a "
                f"{jax.default_backend()}; use strategy=Scan()"
            )
        native = _native()

        def run_neuron(name, neuron, xs, state):
            reason = why_not(neuron)
            if reason:
                raise ValueError(
                    f"Fused() cannot run {name}: {reason}; use strategy=Scan()"
                )
            return run_fused(native, neuron, xs, state)

        return run_layers(net, xs, state, run_neuron)


def _native() -> ModuleType:
    try:
        import spike_native
    except ImportError as error:
        raise ImportError(
            "Fused() needs the package spike-native: `pip install spike-core[native]`"
        ) from error
    return spike_native


def why_not(neuron: Any) -> str:
    """Say why no kernel runs a neuron; an empty string if one does."""
    # Exact types: a subclass may have another step, another relaxation.
    if type(neuron) not in _MODELS:
        return f"there is no kernel for {type(neuron).__name__}"
    surrogate = getattr(neuron, "surrogate", None)
    if surrogate is not None and type(surrogate) not in _SURROGATES:
        return f"there is no kernel for the surrogate {type(surrogate).__name__}"
    if hasattr(neuron, "log_slope"):
        return "no kernel has a gradient for the slope of the surrogate"
    return ""


def run_fused(
    native: ModuleType, neuron: Any, xs: jax.Array, state: Any
) -> tuple[Any, jax.Array]:
    """Run one neuron; `why_not` has said nothing against it."""
    leaves, tree = jax.tree.flatten(state)
    dtype = leaves[0].dtype
    like = jax.ShapeDtypeStruct(neuron.features, dtype)
    kernel, rows = _MODELS[type(neuron)](native, neuron, like)
    rows = [jnp.broadcast_to(r.astype(dtype), like.shape).ravel() for r in rows]
    lanes = [leaf.astype(dtype).ravel() for leaf in leaves]
    inputs = xs.astype(dtype).reshape(xs.shape[0], lanes[0].size)
    ys, last = _over_time(kernel, *_alike(inputs, jnp.stack(rows), jnp.stack(lanes)))
    after = [
        row.reshape(leaf.shape).astype(leaf.dtype)
        for row, leaf in zip(last, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, after), ys.reshape(xs.shape).astype(xs.dtype)


def _alike(*arrays):
    """Let all arrays vary over the same axes of a `shard_map`."""
    axes = frozenset().union(*map(_varying, arrays))
    return [
        jax.lax.pcast(array, tuple(axes - _varying(array)), to="varying")
        for array in arrays
    ]


def _varying(array):
    kind = jax.typeof(array)
    # The attribute's name depends on the version of jax.
    if hasattr(kind, "vma"):
        return kind.vma
    return kind.manual_axis_type.varying


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _over_time(kernel, xs, parameters, state):
    """Run ``[T, lanes]`` input; one row of `parameters` and `state` for each name."""
    from spike_native import xla

    ys, last, _ = xla.forward(kernel, xs, parameters, state, borders=False)
    return ys, last


def _over_time_forward(kernel, xs, parameters, state):
    from spike_native import xla

    ys, last, borders = xla.forward(kernel, xs, parameters, state)
    return (ys, last), (xs, parameters, borders)


def _over_time_backward(kernel, kept, cotangents):
    from spike_native import xla

    return xla.backward(kernel, *kept, *cotangents)


_over_time.defvjp(_over_time_forward, _over_time_backward)


def _lif(native, neuron: LIF, like):
    p = neuron.parameters
    decay, gain = neuron._coefficients(p, like)
    v_reset = [] if isinstance(p.v_reset, tuple) else [p.v_reset]
    kernel = native.Neuron(
        "lif",
        reset=neuron.reset,
        detach_reset=neuron.detach_reset,
        refractory=neuron.refractory,
        **_surrogate(neuron.surrogate),
    )
    return kernel, [decay, gain, p.threshold, *v_reset]


def _leaky_integrator(native, neuron: LeakyIntegrator, like):
    decay, gain = neuron._coefficients(neuron.parameters, like)
    return native.Neuron("leaky_integrator"), [decay, gain]


def _surrogate(surrogate: Surrogate) -> dict[str, Any]:
    return {"surrogate": _SURROGATES[type(surrogate)], "slope": float(surrogate.slope)}


_MODELS: dict[type, Callable] = {LIF: _lif, LeakyIntegrator: _leaky_integrator}
_SURROGATES: dict[type, str] = {ATan: "atan", FastSigmoid: "fast_sigmoid"}
