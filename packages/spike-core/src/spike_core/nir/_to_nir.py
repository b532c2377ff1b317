"""NIR graphs out of networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from flax import nnx

from .. import _check
from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._neuron.spiking import SpikingNeuron
from ._layers import (
    ChannelsFirst,
    Delay,
    Drive,
    Flatten,
    Integrator,
    Scale,
    Threshold,
    avg_pool,
    sum_pool,
)
from ._unfold import Unfolded
from ._wiring import Shape, about, after, before, library, output_shape, propagate

_POOLS = (avg_pool, nnx.avg_pool, sum_pool)


def to_nir(
    net: Any, *, dt: float, input_shape: int | Sequence[int] | None = None
) -> Any:
    """Make a NIR graph of a network.

    The inverse of `from_nir`: what it makes of the graph gives the same outputs, with
    the same `dt`. Surrogates, and which parameters are trained, are not in the format.

    Parameters
    ----------
    net
        A `Sequential`, `Graph`, `Recurrent`, neuron or layer, nested as you like, of
        `LIF`, `IF`, `CubaLIF` (with the reset ``"zero"`` or ``"value"``: the format
        has no other; `LIF` without a reset becomes two nodes), `LeakyIntegrator`,
        `flax.nnx.Linear`, `flax.nnx.Conv`, dropout that is switched off, and the layers
        of `spike_core.nir`. A pooling layer is a `functools.partial` of `avg_pool`,
        that of Flax or the one here, or of `sum_pool`.
    dt
        Length of a step in milliseconds: that of the neurons.
    input_shape
        Shape of a sample without time and batch; needed if the first layer does not
        tell, as a convolution does not.

    Returns
    -------
    nir.NIRGraph
        The graph. Its data have the channels before the space, as the format wants it:
        a network with the channels last, as Flax has them, takes its input, and gives
        its output, in another order than its graph. The weights behind a `Flatten` are
        reordered.

    Raises
    ------
    ImportError
        If the library `nir` is not installed.
    ValueError
        If a layer cannot be expressed; the message names it.

    Examples
    --------
    With the library `nir` installed:

    >>> import nir  # doctest: +SKIP
    >>> from spike_core.nir import to_nir
    >>> nir.write("model.nir", to_nir(net, dt=1.0))  # doctest: +SKIP
    """
    nir = library()
    _check.number("dt", dt, above=0)
    writer = _Writer(nir, Unfolded(net), dt)
    return writer.write(input_shape)


class _Writer:
    """Writes one node after another, each when the shape of its input is known."""

    def __init__(self, nir: Any, net: Unfolded, dt: float):
        self.nir, self.net, self.dt = nir, net, dt
        self.nodes: dict[str, Any] = {}
        # The node that the output of a layer comes from, where it is another one.
        self.outlets: dict[str, str] = {}
        # From the order of the network to that of the graph: where in a flattened
        # sample the graph's values are, by the source; none where they agree.
        self.orders: dict[str, np.ndarray | None] = {}
        self.last = any(_is_spatial(layer) for layer in net.layers.values())
        if self.last and any(type(n) is ChannelsFirst for n in net.layers.values()):
            raise ValueError(
                "`net` must have its channels either last or, with ChannelsFirst, "
                "before the space in all layers"
            )

    def write(self, input_shape: Any) -> Any:
        """Return the graph."""
        net = self.net
        given = self._first_shape() if input_shape is None else input_shape
        shape = _check.shape_of("input_shape", given)
        self.orders["input"] = _channels_to_front(shape) if self.last else None
        shapes = propagate(net.edges, "input", shape, self._visit)
        first = self.node_shape(shape, self.orders["input"])
        last = self.node_shape(shapes["output"], self.orders["output"])
        nodes = {
            "input": self.nir.Input(np.array(first)),
            **self.nodes,
            "output": self.nir.Output(np.array(last)),
        }
        edges = [(self.outlets.get(a, a), b) for a, b in net.edges]
        # The library's own inference errs for groups and for kernels that are not
        # square: the types are written below.
        return self.nir.NIRGraph(
            nodes, edges + list(self.outlets.items()), type_check=False
        )

    def _visit(self, name: str, shape: Shape) -> Shape:
        sources = before(name, self.net.edges)
        orders = [self.orders[s] for s in sources if s in self.orders]
        order = orders[0]
        if any(not _same(order, other) for other in orders):
            raise ValueError(
                f"what comes into layer {name!r} must be in one order of channels and "
                "space"
            )
        self.orders[name] = order
        if name == "output":
            return shape
        layer = self.net.layers[name]
        with about(name, layer):
            heard = self.node_shape(shape, order)
            writer = _writer_of(layer)
            node = writer(self, name, layer, shape)
            after_shape = output_shape(layer, shape)
            if self.orders[name] is not None and len(after_shape) > 1:
                self.orders[name] = _channels_to_front(after_shape)
            said = self.node_shape(after_shape, self.orders[name])
            node.input_type = {"input": np.array(heard)}
            node.output_type = {"output": np.array(said)}
        self.nodes[name] = node
        return after_shape

    def _first_shape(self):
        shapes = set()
        for name in after("input", self.net.edges):
            layer = self.net.layers.get(name)
            if hasattr(layer, "features"):
                shapes.add(layer.features)
            elif isinstance(layer, nnx.Linear):
                shapes.add((layer.in_features,))
        if len(shapes) != 1:
            raise ValueError(
                "`input_shape` must be given, since the first layer does not tell it"
            )
        return shapes.pop()

    def node_shape(self, shape: Shape, order: np.ndarray | None) -> Shape:
        """Return the shape in the graph of a sample here."""
        return shape if order is None or len(shape) < 2 else (shape[-1], *shape[:-1])

    def full(self, name: str, value: Any, shape: Shape) -> np.ndarray:
        """Spread a parameter over a sample, in the order of the graph."""
        full = np.broadcast_to(np.asarray(value, np.float64), shape)
        order = self.orders[name]
        if order is not None:
            full = full.ravel()[order].reshape(self.node_shape(shape, order))
        return full.astype(np.float32)

    def driven(self, name: str, neuron: Any, gain: Any) -> dict[str, Any]:
        """Return what is before a membrane: `r`, `v_leak` and `w_in`."""
        drive = self.net.drives.get(name) or Drive(1.0)
        shift = self.net.shifts.get(name)
        names = ("r", "v_leak", "w_in")
        values = {name: np.float64(getattr(drive, name)[...]) for name in names}
        wanted = 0.0 if shift is None else np.float64(shift.shift[...])
        fires = isinstance(neuron, SpikingNeuron)
        if np.any(values["v_leak"] != wanted) and not fires:
            raise ValueError(
                f"behind it must come a Shift by the `v_leak` {values['v_leak']} of "
                f"its Drive, got {wanted}"
            )
        if shift is not None and fires:
            raise ValueError("spikes cannot be shifted")
        values["r"] = values["r"] * gain
        return values


def _is_spatial(layer: Any) -> bool:
    return isinstance(layer, nnx.Conv) or (
        isinstance(layer, partial) and layer.func in _POOLS
    )


def _channels_to_front(shape: Shape) -> np.ndarray | None:
    if len(shape) < 2:
        return None
    places = np.arange(math.prod(shape)).reshape(shape)
    return np.moveaxis(places, -1, 0).ravel()


def _same(order, other):
    return (order is None) == (other is None) and (
        order is None or np.array_equal(order, other)
    )


def _writer_of(layer: Any) -> Callable:
    if isinstance(layer, partial):
        return _pool
    writer = _WRITERS.get(type(layer))
    if writer is None:
        known = ", ".join(kind.__name__ for kind in _WRITERS)
        raise ValueError(f"no node does what it does; it must be one of {known}")
    return writer


def _firing(w: _Writer, name: str, neuron: Any, shape: Shape, v_leak: Any) -> dict:
    if neuron.reset not in ("value", "zero"):
        raise ValueError(
            "a node resets to a value: the reset must be 'zero' or 'value', "
            f"got {neuron.reset!r}"
        )
    _refuse_rest(neuron)
    p = neuron.parameters
    v_reset = 0.0 if neuron.reset == "zero" else np.float64(p.v_reset)
    return {
        "v_threshold": w.full(name, np.float64(p.threshold) + v_leak, shape),
        "v_reset": w.full(name, v_reset + v_leak, shape),
    }


def _refuse_rest(neuron):
    if neuron.refractory:
        raise ValueError(
            f"no node rests after a spike, got `refractory={neuron.refractory}`"
        )


def _check_step(w: _Writer, neuron: Any) -> None:
    if not math.isclose(neuron.dt, w.dt, rel_tol=1e-9):
        raise ValueError(f"its step must be `dt` = {w.dt} ms, got {neuron.dt} ms")


def _leak(w: _Writer, neuron: Any, log_tau: Any) -> tuple[Any, Any]:
    """Return a time constant in seconds, and what is to be the resistance."""
    _check_step(w, neuron)
    tau = np.exp(np.float64(log_tau))
    raw = neuron.input_gain == "unit"
    return 1e-3 * tau, 1 / -np.expm1(-w.dt / tau) if raw else 1.0


def _lif(w: _Writer, name: str, neuron: LIF, shape: Shape) -> Any:
    p = neuron.parameters
    tau, gain = _leak(w, neuron, p.log_tau)
    drive = w.driven(name, neuron, gain)
    v_leak = drive["v_leak"]
    membrane = {
        "tau": w.full(name, tau, shape),
        "r": w.full(name, drive["r"] * drive["w_in"], shape),
        "v_leak": w.full(name, v_leak, shape),
    }
    if neuron.reset != "none":
        firing = _firing(w, name, neuron, shape, v_leak)
        return w.nir.LIF(**membrane, **firing)
    _refuse_rest(neuron)
    threshold = w.full(name, np.float64(p.threshold) + v_leak, shape)
    w.outlets[name] = f"{name}_spikes"
    w.nodes[w.outlets[name]] = w.nir.Threshold(threshold)
    return w.nir.LI(**membrane)


def _cuba_lif(w: _Writer, name: str, neuron: CubaLIF, shape: Shape) -> Any:
    p = neuron.parameters
    tau, gain = _leak(w, neuron, p.log_tau)
    tau_synapse, gain_synapse = _leak(w, neuron, p.log_tau_synapse)
    drive = w.driven(name, neuron, gain)
    return w.nir.CubaLIF(
        tau_mem=w.full(name, tau, shape),
        tau_syn=w.full(name, tau_synapse, shape),
        r=w.full(name, drive["r"], shape),
        v_leak=w.full(name, drive["v_leak"], shape),
        w_in=w.full(name, drive["w_in"] * gain_synapse, shape),
        **_firing(w, name, neuron, shape, drive["v_leak"]),
    )


def _if(w: _Writer, name: str, neuron: IF, shape: Shape) -> Any:
    _check_step(w, neuron)
    drive = w.driven(name, neuron, 1e3 / w.dt)
    firing = _firing(w, name, neuron, shape, 0.0)
    return w.nir.IF(r=w.full(name, drive["r"] * drive["w_in"], shape), **firing)


def _integrator(w: _Writer, name: str, neuron: Integrator, shape: Shape) -> Any:
    drive = w.driven(name, neuron, 1e3 / w.dt)
    return w.nir.I(r=w.full(name, drive["r"] * drive["w_in"], shape))


def _li(w: _Writer, name: str, neuron: LeakyIntegrator, shape: Shape) -> Any:
    tau, gain = _leak(w, neuron, neuron.parameters.log_tau)
    drive = w.driven(name, neuron, gain)
    return w.nir.LI(
        tau=w.full(name, tau, shape),
        r=w.full(name, drive["r"] * drive["w_in"], shape),
        v_leak=w.full(name, drive["v_leak"], shape),
    )


def _delay(w: _Writer, name: str, layer: Delay, shape: Shape) -> Any:
    delay = 1e-3 * w.dt * np.float64(layer.steps[...])
    return w.nir.Delay(w.full(name, delay, shape))


def _scale(w: _Writer, name: str, layer: Scale, shape: Shape) -> Any:
    return w.nir.Scale(w.full(name, layer.scale[...], shape))


def _threshold(w: _Writer, name: str, layer: Threshold, shape: Shape) -> Any:
    return w.nir.Threshold(w.full(name, layer.threshold[...], shape))


def _linear(w: _Writer, name: str, layer: nnx.Linear, shape: Shape) -> Any:
    if len(shape) != 1:
        raise ValueError(f"its input must be flat, got shape {shape}")
    # A copy: a view of a JAX array cannot be written to.
    weight = np.array(layer.kernel[...], np.float32).T
    order = w.orders[name]
    if order is not None:
        weight, w.orders[name] = weight[:, order], None
    if layer.bias is None:
        return w.nir.Linear(weight)
    return w.nir.Affine(weight, np.array(layer.bias[...], np.float32))


def _flatten(w: _Writer, name: str, layer: Flatten, shape: Shape) -> Any:
    rank = len(shape)
    if w.orders[name] is not None and (layer.first, layer.last) != (-rank, -1):
        raise ValueError("with the channels last all axes have to be flattened")
    heard = np.array(w.node_shape(shape, w.orders[name]))
    first, last = layer.first + rank, layer.last + rank
    return w.nir.Flatten({"input": heard}, start_dim=first, end_dim=last)


def _channels_first(w: _Writer, name: str, layer: Any, shape: Shape) -> Any:
    inner = layer.layer
    if layer.axes != len(shape) - 1:
        raise ValueError(f"its input must have {layer.axes + 1} axes, got {shape}")
    return _writer_of(inner)(w, name, inner, (*shape[1:], shape[0]))


def _conv(w: _Writer, name: str, layer: nnx.Conv, shape: Shape) -> Any:
    axes = len(layer.kernel_size)
    if axes not in (1, 2) or len(shape) != axes + 1:
        raise ValueError(
            f"a node has one or two spatial axes, got {axes} for an input of shape "
            f"{shape}"
        )
    if layer.mask is not None or _filled(layer.input_dilation, axes) != (1,) * axes:
        raise ValueError("no node has a mask or a dilated input")
    strides = _filled(layer.strides, axes)
    weight = np.array(layer.kernel[...], np.float32)
    bias = np.zeros(layer.out_features) if layer.bias is None else layer.bias[...]
    settings = {
        "weight": np.moveaxis(weight, (-1, -2), (0, 1)),
        "stride": strides,
        "padding": _padding(layer.padding, axes, strides),
        "dilation": _filled(layer.kernel_dilation, axes),
        "groups": int(layer.feature_group_count),
        "bias": np.array(bias, np.float32),
    }
    if axes == 2:
        return w.nir.Conv2d(input_shape=shape[:-1], **settings)
    single = {
        key: value[0] if isinstance(value, tuple) else value
        for key, value in settings.items()
    }
    return w.nir.Conv1d(input_shape=shape[0], **single)


def _filled(value: Any, axes: int) -> tuple[int, ...]:
    value = 1 if value is None else value
    return (value,) * axes if isinstance(value, int) else tuple(value)


def _padding(padding: Any, axes: int, strides: tuple[int, ...]) -> Any:
    """Return what a node calls the padding: one number an axis, or a name."""
    if isinstance(padding, str):
        name = padding.lower()
        if name == "valid" or (name == "same" and set(strides) == {1}):
            return name
        raise ValueError(f"no node has the padding {padding!r} with strides {strides}")
    pairs = [(padding, padding)] * axes if isinstance(padding, int) else list(padding)
    pairs = [(pair, pair) if isinstance(pair, int) else tuple(pair) for pair in pairs]
    if any(low != high for low, high in pairs):
        raise ValueError(f"no node pads one side alone, got {pairs}")
    return tuple(low for low, _ in pairs)


def _pool(w: _Writer, name: str, layer: partial, shape: Shape) -> Any:
    settings: dict[str, Any] = {"strides": None, "padding": "VALID", **layer.keywords}
    known = {"window_shape", "strides", "padding"}
    is_pool = layer.func in _POOLS
    if not is_pool or layer.args or set(settings) != known:
        raise ValueError(
            "a function must be a functools.partial of avg_pool or sum_pool with "
            f"{', '.join(sorted(known))} by name, got {layer}"
        )
    window = tuple(settings["window_shape"])
    if len(window) != 2 or len(shape) != 3:
        raise ValueError(f"a node pools two axes, got {window} for shape {shape}")
    strides = _filled(settings["strides"], 2)
    padding = _padding(settings["padding"], 2, strides)
    if padding == "same" and any(n % 2 == 0 for n in window):
        raise ValueError(f"no node pads one side alone, as 'SAME' does for {window}")
    if isinstance(padding, str):
        padding = [n // 2 if padding == "same" else 0 for n in window]
    kind = w.nir.SumPool2d if layer.func is sum_pool else w.nir.AvgPool2d
    return kind(*(np.array(value) for value in (window, strides, padding)))


_WRITERS: dict[type, Callable[[_Writer, str, Any, Shape], Any]] = {
    LIF: _lif,
    IF: _if,
    CubaLIF: _cuba_lif,
    LeakyIntegrator: _li,
    Integrator: _integrator,
    Delay: _delay,
    Scale: _scale,
    Threshold: _threshold,
    Flatten: _flatten,
    ChannelsFirst: _channels_first,
    nnx.Linear: _linear,
    nnx.Conv: _conv,
}
