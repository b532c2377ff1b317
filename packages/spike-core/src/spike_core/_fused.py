"""The whole time loop of a neuron in one compiled kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from ._chunks import run_in_chunks
from ._layers import run_layers
from ._neuron.alif import ALIF
from ._neuron.base import decay_and_gain
from ._neuron.cuba_lif import CubaLIF
from ._neuron.integrate_and_fire import IF
from ._neuron.leaky_integrator import LeakyIntegrator
from ._neuron.lif import LIF
from ._neuron.spiking import SpikingNeuron
from ._scan import Scan
from ._sequential import Sequential
from ._sparse_dense import is_plain_linear, skip_zeros
from ._strategy import Strategy
from ._surrogate import (
    ATan,
    Boxcar,
    Erf,
    Exponential,
    FastSigmoid,
    Logarithmic,
    MultiGaussian,
    PowerLaw,
    Sigmoid,
    StraightThrough,
    Surrogate,
    Tanh,
    Triangular,
)
from ._varying import alike

# Bytes of a layer's signals over a chunk: those of a few layers lie in the cache.
_CHUNK_BYTES = 2 << 20
_MIN_CHUNK = 8


@dataclasses.dataclass(frozen=True)
class Fused(Strategy):
    """Run each neuron's whole time loop in one kernel of `spike-native`, on the CPU.

    Layers without state are applied to all steps at once; a `nnx.Linear` that comes
    first or behind a spiking neuron adds the rows of its weights that belong to active
    inputs, while these are few. A kernel passes once over its input and its output and
    keeps every 32nd state for the reverse pass, which computes the steps between them
    again inside the cache. Derivatives are first-order and
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
    With `spike-native` installed:

    >>> from spike_core import LIF, Fused, unroll
    >>> state, spikes = unroll(LIF(2), xs, strategy=Fused())  # doctest: +SKIP
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

        return run_layers(skip_zeros(net), xs, state, run_neuron)


@dataclasses.dataclass(frozen=True)
class Auto(Strategy):
    """What `strategy="auto"` does: kernels where there are some, else the scan.

    A `Sequential` of which all is known, `nnx.Linear` and neurons with a kernel, runs
    in chunks of time that stay in the cache from the first layer to the last.
    """

    def run(self, net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        """See `Strategy.run`."""
        if not _has_kernels():
            return Scan().run(net, xs, state)
        chunk = _chunk(net, xs, state)
        if chunk >= xs.shape[0]:
            return run_fastest(net, xs, state)
        return run_in_chunks(run_fastest, net, xs, state, chunk)


def run_fastest(net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
    """Run layer by layer, each with a kernel if there is one."""
    if not _has_kernels():
        return Scan().run(net, xs, state)
    native, scan = _native(), Scan()

    def run_neuron(name, neuron, xs, state):
        if why_not(neuron):
            return scan.run_neuron(name, neuron, xs, state)
        return run_fused(native, neuron, xs, state)

    return run_layers(skip_zeros(net), xs, state, run_neuron)


def _has_kernels():
    return jax.default_backend() == "cpu" and find_spec("spike_native") is not None


def _chunk(net, xs, state):
    """Return the steps of a chunk; all, if something in the net is not known."""
    n_steps = xs.shape[0]
    if not _is_known(net):
        return n_steps
    rows = jax.tree.leaves((jax.ShapeDtypeStruct(xs.shape[1:], xs.dtype), state))
    widest = max(1, *(row.size * row.dtype.itemsize for row in rows))
    chunk = max(_MIN_CHUNK, _CHUNK_BYTES // widest)
    # One without a remainder, where there is one: the chunk is compiled once then.
    fitting = (c for c in range(chunk, chunk // 2, -1) if n_steps % c == 0)
    return next(fitting, chunk)


def _is_known(layer):
    if type(layer) is Sequential:
        return all(map(_is_known, layer.layers))
    return is_plain_linear(layer) or not why_not(layer)


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
    kernel, rows = _describe(native, neuron, like)
    rows = [jnp.broadcast_to(r.astype(dtype), like.shape).ravel() for r in rows]
    lanes = [leaf.astype(dtype).ravel() for leaf in leaves]
    inputs = xs.astype(dtype).reshape(xs.shape[0], lanes[0].size)
    ys, last = _over_time(kernel, *alike(inputs, jnp.stack(rows), jnp.stack(lanes)))
    after = [
        row.reshape(leaf.shape).astype(leaf.dtype)
        for row, leaf in zip(last, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, after), ys.reshape(xs.shape).astype(xs.dtype)


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


def _leak(neuron, like, log_tau):
    return decay_and_gain(log_tau, like, dt=neuron.dt, input_gain=neuron.input_gain)


def _if(neuron: IF, like):
    one = jnp.ones((), like.dtype)
    return "lif", [one, one, neuron.parameters.threshold]


def _lif(neuron: LIF, like):
    p = neuron.parameters
    return "lif", [*_leak(neuron, like, p.log_tau), p.threshold]


def _alif(neuron: ALIF, like):
    p = neuron.parameters
    rho, _ = decay_and_gain(p.log_tau_adaptation, like, dt=neuron.dt, input_gain="unit")
    return "alif", [*_leak(neuron, like, p.log_tau), p.threshold, rho, p.beta]


def _cuba_lif(neuron: CubaLIF, like):
    p = neuron.parameters
    membrane, synapse = (
        _leak(neuron, like, log_tau) for log_tau in (p.log_tau, p.log_tau_synapse)
    )
    return "cuba_lif", [*membrane, p.threshold, *synapse]


def _leaky_integrator(neuron: LeakyIntegrator, like):
    return "leaky_integrator", _leak(neuron, like, neuron.parameters.log_tau)


def _describe(native, neuron, like):
    """Return what the kernel has to know, and its rows of parameters."""
    model, rows = _MODELS[type(neuron)](neuron, like)
    if not isinstance(neuron, SpikingNeuron):
        return native.Neuron(model), rows
    surrogate = neuron.surrogate
    name, *shape = _SURROGATES[type(surrogate)]
    kernel = native.Neuron(
        model,
        reset="value" if neuron.reset == "zero" else neuron.reset,
        detach_reset=neuron.detach_reset,
        refractory=neuron.refractory,
        surrogate=name,
        slope=float(surrogate.slope),
        shape=tuple(float(getattr(surrogate, field)) for field in shape),
    )
    if neuron.reset == "zero":
        rows = [*rows, jnp.zeros((), like.dtype)]
    elif neuron.reset == "value":
        rows = [*rows, neuron.parameters.v_reset]
    return kernel, rows


_MODELS: dict[type, Callable] = {
    IF: _if,
    LIF: _lif,
    ALIF: _alif,
    CubaLIF: _cuba_lif,
    LeakyIntegrator: _leaky_integrator,
}
# The kernel's name, and the fields it takes beside the slope.
_SURROGATES: dict[type[Surrogate], tuple[str, ...]] = {
    ATan: ("atan",),
    Boxcar: ("boxcar",),
    Erf: ("erf",),
    Exponential: ("exponential",),
    FastSigmoid: ("fast_sigmoid",),
    Logarithmic: ("logarithmic",),
    MultiGaussian: ("multi_gaussian", "height", "width"),
    PowerLaw: ("power_law", "exponent"),
    Sigmoid: ("sigmoid",),
    StraightThrough: ("straight_through",),
    Tanh: ("tanh",),
    Triangular: ("triangular",),
}
