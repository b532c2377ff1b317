"""Networks out of NIR graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flax import nnx

from .. import _check
from .._graph import Graph
from .._neuron.cuba_lif import CubaLIF
from .._neuron.integrate_and_fire import IF
from .._neuron.leaky_integrator import LeakyIntegrator
from .._neuron.lif import LIF
from .._sequential import Sequential
from ._layers import (
    ChannelsFirst,
    Delay,
    Drive,
    Flatten,
    Integrator,
    Scale,
    Shift,
    Threshold,
    avg_pool,
    sum_pool,
)
from ._wiring import (
    Edge,
    Shape,
    about,
    after,
    before,
    library,
    output_shape,
    propagate,
    splice_out,
)

# How near a number has to be for what it stands for: files are in float32.
_CLOSE = 1e-6


def from_nir(graph: Any, *, dt: float) -> Sequential | Graph:
    r"""Make a network of a NIR graph.

    The membranes of NIR are differential equations in seconds; here they are solved
    exactly for an input that is constant over a step `dt`, in milliseconds:
    $v \leftarrow \alpha v + (1 - \alpha)(v_\mathrm{leak} + R I)$,
    $\alpha = e^{-dt/\tau}$. Membranes start at rest, at ``v_leak``. Those without a
    leak, ``IF`` and ``I``, add $dt \, R I$, with $dt$ in seconds.

    A membrane is kept as measured from ``v_leak``: its threshold and reset are those of
    the file less ``v_leak``, and ``r`` goes into a `Drive` before it; neither is there
    where ``r`` is 1 (or $1/(1 - \alpha)$, which is the gain ``"unit"``) and ``v_leak``
    is 0. Data keep the order of NIR, channels before space.

    Parameters
    ----------
    graph
        A `nir.NIRGraph`, as ``nir.read`` gives it; with one input and one output.
        Graphs inside the graph are taken apart.
    dt
        Length of a step in milliseconds.

    Returns
    -------
    Sequential or Graph
        A `Sequential` of a graph that is a chain, else a `Graph` whose layers have the
        names of the nodes: several inputs are summed, and in a cycle the output of a
        neuron is heard one step later. Weights are trainable, the parameters of neurons
        are `Frozen`.

    Raises
    ------
    ImportError
        If the library `nir` is not installed.
    TypeError
        If `graph` is not a `nir.NIRGraph`.
    ValueError
        If a node is of an unknown type or cannot be expressed in steps of `dt`, if it
        is not between input and output, or if shapes do not fit. The message names the
        node.

    References
    ----------
    Pedersen et al., "Neuromorphic intermediate representation", Nature Communications
    15 (2024), table 1.

    Examples
    --------
    With the library `nir` installed:

    >>> import nir  # doctest: +SKIP
    >>> from spike_core.nir import from_nir
    >>> net = from_nir(nir.read("model.nir"), dt=1.0)  # doctest: +SKIP
    """
    nir = library()
    if not isinstance(graph, nir.NIRGraph):
        raise TypeError(f"`graph` must be a nir.NIRGraph, got {type(graph).__name__}")
    _check.number("dt", dt, above=0)
    nodes, edges = _inline(nir, graph)
    start, stop = (_only(nodes, kind) for kind in (nir.Input, nir.Output))
    layers: dict[str, list[Any]] = {}

    def visit(name: str, shape: Shape) -> Shape:
        if name == stop:
            return shape
        node = nodes[name]
        with about(name, node):
            kind = type(node).__name__
            if kind not in _READERS:
                known = ", ".join(sorted(_READERS))
                raise ValueError(f"a node must be one of {known}")
            layers[name] = _READERS[kind](node, shape, dt)
            for layer in layers[name]:
                shape = output_shape(layer, shape)
        return shape

    with about(start, nodes[start]):
        shape = _type_of(nodes[start].input_type["input"])
    shapes = propagate(edges, start, shape, visit)
    for name in nodes:
        if name not in shapes:
            raise ValueError(f"node {name!r} is not reached from the input {start!r}")
    nothing = [name for name, parts in layers.items() if not parts]
    full = {name: parts for name, parts in layers.items() if parts}
    return _assemble(full, splice_out(nothing, edges), start, stop)


def _inline(nir, graph, prefix=""):
    """Return nodes and edges, with the graphs inside the graph taken apart."""
    nodes, edges, entry, leave = {}, [], {}, {}
    for name, node in graph.nodes.items():
        full = prefix + name
        if not isinstance(node, nir.NIRGraph):
            nodes[full] = node
            continue
        inner, inner_edges = _inline(nir, node, f"{full}.")
        first, last = (_only(inner, kind) for kind in (nir.Input, nir.Output))
        entry[full], leave[full] = first, last
        nodes.update(inner)
        edges += inner_edges
    for source, target in graph.edges:
        source, target = prefix + source, prefix + target
        edges.append((leave.get(source, source), entry.get(target, target)))
    inside = {*entry.values(), *leave.values()}
    edges = splice_out(inside, edges)
    return {name: node for name, node in nodes.items() if name not in inside}, edges


def _only(nodes, kind):
    found = [name for name, node in nodes.items() if isinstance(node, kind)]
    if len(found) != 1:
        raise ValueError(
            f"`graph` must have one {kind.__name__} node, got {found or 'none'}"
        )
    return found[0]


def _assemble(
    layers: dict[str, list[Any]], edges: list[Edge], start: str, stop: str
) -> Sequential | Graph:
    order, here = [], start
    while here != stop and len(after(here, edges)) == 1:
        (here,) = after(here, edges)
        if len(before(here, edges)) != 1:
            break
        order.append(here)
    if here == stop and len(order) == len(layers) + 1:
        if not layers:
            raise ValueError("`graph` must have a node between input and output")
        return Sequential(*(layer for name in order[:-1] for layer in layers[name]))
    named, ends, inner = {}, {start: ("", "input"), stop: ("output", "")}, []
    for name, parts in layers.items():
        names = _names(name, parts)
        named.update(zip(names, parts, strict=True))
        inner += itertools.pairwise(names)
        ends[name] = (names[0], names[-1])
    return Graph(named, inner + [(ends[s][1], ends[t][0]) for s, t in edges])


def _names(name, parts):
    """Name the layers of a node: the one that makes its output like the node."""
    # Two names are taken by the graph itself.
    name = f"{name}_" if name in ("input", "output") else name
    main = max(i for i, part in enumerate(parts) if not isinstance(part, Shift))
    return [
        name if i == main else f"{name}_{type(part).__name__.lower()}_{i}"
        for i, part in enumerate(parts)
    ]


def _type_of(shape: Any) -> Shape:
    if shape is None:
        raise ValueError("its shape is not given")
    return tuple(int(n) for n in np.asarray(shape).reshape(-1))


def _fitted(node: Any, shape: Shape, *names: str) -> list[Any]:
    """Return parameters as a number, or as an array of the shape of the input."""
    values = []
    for name in names:
        value = np.asarray(getattr(node, name), np.float64)
        if value.size == 1 and value.shape != shape:
            value = value.reshape(())
        elif value.shape != shape:
            raise ValueError(
                f"`{name}` must have the shape {shape} of the input, got {value.shape}"
            )
        values.append(value)
    return values


def _near(value: Any, wanted: Any) -> bool:
    return bool(np.allclose(value, wanted, rtol=_CLOSE, atol=0))


def _decayed(tau: Any, dt: float) -> Any:
    """Return what of a membrane is lost in a step; `tau` in seconds."""
    _check.number("tau", tau, above=0)
    return -np.expm1(-dt / (1e3 * tau))


def _firing(v_threshold: Any, v_reset: Any, v_leak: Any = 0.0) -> dict[str, Any]:
    v_reset = v_reset - v_leak
    settings: dict[str, Any] = {"threshold": v_threshold - v_leak}
    if np.any(v_reset):
        return {**settings, "reset": "value", "v_reset": v_reset}
    return {**settings, "reset": "zero"}


def _driven(gains, r, v_leak=0.0, w_in=1.0):
    """Return the drive, if one is needed, and the gain of the membrane.

    `gains` are what a membrane, and a synapse, have in place of 1 with the gain "leak".
    """
    if not np.any(v_leak):
        if all(_near(value, 1) for value in (r, w_in)):
            return [], "leak"
        scaled = zip((r, w_in), gains, strict=False)
        if gains and all(_near(value * gain, 1) for value, gain in scaled):
            return [], "unit"
    return [Drive(r, v_leak, w_in)], "leak"


def _lif(node: Any, shape: Shape, dt: float) -> list[Any]:
    names = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    tau, r, v_leak, v_threshold, v_reset = _fitted(node, shape, *names)
    drive, gain = _driven([_decayed(tau, dt)], r, v_leak)
    firing = _firing(v_threshold, v_reset, v_leak)
    return [*drive, LIF(shape, tau=1e3 * tau, input_gain=gain, dt=dt, **firing)]


def _cuba_lif(node: Any, shape: Shape, dt: float) -> list[Any]:
    names = ("tau_mem", "tau_syn", "r", "v_leak", "w_in", "v_threshold", "v_reset")
    tau, tau_synapse, r, v_leak, w_in, *others = _fitted(node, shape, *names)
    gains = [_decayed(tau, dt), _decayed(tau_synapse, dt)]
    drive, gain = _driven(gains, r, v_leak, w_in)
    times = {"tau": 1e3 * tau, "tau_synapse": 1e3 * tau_synapse, "dt": dt}
    firing = _firing(others[0], others[1], v_leak)
    return [*drive, CubaLIF(shape, input_gain=gain, **times, **firing)]


def _if(node: Any, shape: Shape, dt: float) -> list[Any]:
    r, v_threshold, v_reset = _fitted(node, shape, "r", "v_threshold", "v_reset")
    drive, _ = _driven([], 1e-3 * dt * r)
    return [*drive, IF(shape, dt=dt, **_firing(v_threshold, v_reset))]


def _integrator(node: Any, shape: Shape, dt: float) -> list[Any]:
    (r,) = _fitted(node, shape, "r")
    return [*_driven([], 1e-3 * dt * r)[0], Integrator(shape)]


def _li(node: Any, shape: Shape, dt: float) -> list[Any]:
    tau, r, v_leak = _fitted(node, shape, "tau", "r", "v_leak")
    drive, gain = _driven([_decayed(tau, dt)], r, v_leak)
    membrane = LeakyIntegrator(shape, tau=1e3 * tau, input_gain=gain, dt=dt)
    return [*drive, membrane, *_back(v_leak)]


def _cuba_li(node: Any, shape: Shape, dt: float) -> list[Any]:
    names = ("tau_mem", "tau_syn", "r", "v_leak", "w_in")
    tau, tau_synapse, r, v_leak, w_in = _fitted(node, shape, *names)
    drive = [] if _near(w_in, 1) else [Drive(w_in)]
    synapse = LeakyIntegrator(shape, tau=1e3 * tau_synapse, dt=dt)
    drive_2, gain = _driven([_decayed(tau, dt)], r, v_leak)
    membrane = LeakyIntegrator(shape, tau=1e3 * tau, input_gain=gain, dt=dt)
    return [*drive, synapse, *drive_2, membrane, *_back(v_leak)]


def _back(v_leak):
    return [Shift(v_leak)] if np.any(v_leak) else []


def _delay(node: Any, shape: Shape, dt: float) -> list[Any]:
    (delay,) = _fitted(node, shape, "delay")
    steps = 1e3 * delay / dt
    whole = np.round(steps)
    if not np.allclose(steps, whole, rtol=_CLOSE, atol=1e-3):
        raise ValueError(
            f"`delay` must be a multiple of `dt` = {dt} ms, got {1e3 * delay} ms"
        )
    return [Delay(shape, whole)] if whole.any() else []


def _scale(node: Any, shape: Shape, dt: float) -> list[Any]:
    del dt
    return [Scale(*_fitted(node, shape, "scale"))]


def _threshold(node: Any, shape: Shape, dt: float) -> list[Any]:
    del dt
    return [Threshold(*_fitted(node, shape, "threshold"))]


def _linear(node: Any, shape: Shape, dt: float) -> list[Any]:
    del dt
    weight = np.asarray(node.weight, np.float32)
    if weight.ndim != 2 or len(shape) != 1 or weight.shape[1] != shape[0]:
        raise ValueError(
            f"`weight` must be [outputs, inputs] for an input of shape {shape}, "
            f"got shape {weight.shape}"
        )
    bias = getattr(node, "bias", None)
    layer = nnx.Linear(*weight.T.shape, use_bias=bias is not None, **_BLANK)
    return [_with(layer, weight.T, bias)]


# No random numbers for weights that are known.
_BLANK: dict[str, Any] = {"kernel_init": nnx.initializers.zeros, "rngs": nnx.Rngs(0)}


def _with(layer: Any, kernel: np.ndarray, bias: Any) -> Any:
    layer.kernel[...] = kernel
    if bias is not None:
        layer.bias[...] = np.asarray(bias, np.float32)
    return layer


def _pair(value: Any, axes: int) -> tuple[int, ...]:
    return tuple(int(n) for n in np.broadcast_to(np.asarray(value), (axes,)))


def _conv(node: Any, shape: Shape, dt: float, axes: int) -> list[Any]:
    del dt
    weight = np.asarray(node.weight, np.float32)
    strides = _pair(node.stride, axes)
    inputs = weight.shape[1] * node.groups
    if len(shape) != axes + 1 or shape[0] != inputs:
        raise ValueError(
            f"its input must be {inputs} channels and {axes} axes, got shape {shape}"
        )
    padding = node.padding
    if isinstance(padding, str):
        if padding == "same" and set(strides) != {1}:
            raise ValueError('`padding` "same" is not defined for a stride')
        padding = padding.upper()
    else:
        padding = [(n, n) for n in _pair(padding, axes)]
    layer = nnx.Conv(
        inputs,
        weight.shape[0],
        weight.shape[2:],
        strides=strides,
        padding=padding,
        kernel_dilation=_pair(node.dilation, axes),
        feature_group_count=int(node.groups),
        use_bias=node.bias is not None,
        **_BLANK,
    )
    # ``[outputs, inputs, *space]`` there, ``[*space, inputs, outputs]`` here
    kernel = np.moveaxis(weight, (0, 1), (-1, -2))
    return [ChannelsFirst(_with(layer, kernel, node.bias), axes)]


def _pool(node: Any, shape: Shape, dt: float, function: Callable) -> list[Any]:
    del dt
    if len(shape) != 3:
        raise ValueError(f"its input must be channels and two axes, got shape {shape}")
    pool = partial(
        function,
        window_shape=_pair(node.kernel_size, 2),
        strides=_pair(node.stride, 2),
        padding=tuple((n, n) for n in _pair(node.padding, 2)),
    )
    return [ChannelsFirst(pool, 2)]


def _flatten(node: Any, shape: Shape, dt: float) -> list[Any]:
    del dt
    rank = len(shape)
    first, last = (n if n < 0 else n - rank for n in (node.start_dim, node.end_dim))
    return [] if first == last else [Flatten(int(first), int(last))]


_READERS: dict[str, Callable[[Any, Shape, float], list[Any]]] = {
    "Affine": _linear,
    "AvgPool2d": partial(_pool, function=avg_pool),
    "Conv1d": partial(_conv, axes=1),
    "Conv2d": partial(_conv, axes=2),
    "CubaLI": _cuba_li,
    "CubaLIF": _cuba_lif,
    "Delay": _delay,
    "Flatten": _flatten,
    "I": _integrator,
    "IF": _if,
    "LI": _li,
    "LIF": _lif,
    "Linear": _linear,
    "Scale": _scale,
    "SumPool2d": partial(_pool, function=sum_pool),
    "Threshold": _threshold,
}
