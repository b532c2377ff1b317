"""What one side cannot express is refused, and named."""

from functools import partial

import jax
import numpy as np
import pytest
from flax import nnx
from spike_core import ALIF, LIF, Graph, LeakyIntegrator, Sequential
from spike_core.nir import (
    ChannelsFirst,
    Drive,
    Flatten,
    Shift,
    Threshold,
    from_nir,
    to_nir,
)

from .nir_graphs import DT, graph, lif, line, linear, nir, plain_lif, values, weights


class Strange(nir.NIRNode):
    """A node of a later version."""

    def __init__(self):
        self.input_type = self.output_type = {}


def _mixed():
    node = lif()
    node.r = values(1.0, 2.0, 3.0)
    return node


BAD_GRAPHS = {
    "node 'n', a Strange": graph([("input", "n"), ("n", "output")], n=Strange()),
    "node 'n', a LIF: `tau`": graph(
        [("input", "n"), ("n", "output")], n=lif(tau=values(0.0, 0.01))
    ),
    "node 'n', a LIF: `r` must have the shape": graph(
        [("input", "n"), ("n", "output")], n=_mixed()
    ),
    "node 'n', a Delay: `delay` must be a multiple": graph(
        [("input", "n"), ("n", "output")], n=nir.Delay(values(0.0, 7e-4))
    ),
    "node 'n', a Linear: `weight`": graph(
        [("input", "n"), ("n", "output")], n=nir.Linear(weights(3, 4))
    ),
    "node 'n', a Conv1d: its input": graph(
        [("input", "n"), ("n", "output")], shape=(3, 9), n=line()
    ),
    "node 'n', a Conv1d: `padding`": graph(
        [("input", "n"), ("n", "output")], shape=(2, 9), n=line(stride=2)
    ),
    "node 'm' is not reached": graph(
        [("input", "n"), ("n", "output"), ("m", "output")], n=lif(), m=lif()
    ),
    "cycle without a neuron": graph(
        [("input", "a"), ("a", "b"), ("b", "a"), ("b", "output")],
        a=nir.Linear(weights(2, 2)),
        b=nir.Linear(weights(2, 2)),
    ),
    "comes into node 'n'": graph(
        [("input", "a"), ("a", "n"), ("input", "n"), ("n", "output")],
        a=nir.Linear(weights(3, 2)),
        n=plain_lif(),
    ),
    "one Input node": graph([("input", "output")], m=nir.Input(np.array([2]))),
    "a node between": graph([("input", "output")]),
}


@pytest.mark.parametrize("match", BAD_GRAPHS)
def test_what_we_cannot_express_is_named(match):
    with pytest.raises(ValueError, match=match):
        from_nir(BAD_GRAPHS[match], dt=DT)


BAD_NETWORKS = {
    "'1', a LIF: .* reset .*'subtract'": lambda: Sequential(
        linear(2, 2), LIF(2, dt=DT)
    ),
    "'lif', a LIF: no node rests": lambda: LIF(2, reset="zero", refractory=2, dt=DT),
    "'lif', a LIF: its step": lambda: LIF(2, reset="zero", dt=1.0),
    "'alif', an? ALIF: no node does": lambda: ALIF(2, reset="zero", dt=DT),
    "'1', a .*: no node does": lambda: Sequential(linear(2, 2), jax.nn.relu),
    "a Dropout at work": lambda: Sequential(
        linear(2, 2), nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    ),
    "'0', a Drive, must stand before": lambda: Sequential(Drive(2.0), linear(2, 2)),
    "a Shift by the `v_leak`": lambda: Sequential(
        Drive(2.0, 0.5), LeakyIntegrator(2, dt=DT), Shift(0.25)
    ),
    "spikes cannot be shifted": lambda: Sequential(
        LIF(2, reset="zero", dt=DT), Shift(0.25)
    ),
    "`input_shape` must be given": lambda: Sequential(Threshold(0.5)),
    "partial of avg_pool": lambda: Sequential(
        linear(2, 2), partial(nnx.max_pool, window_shape=(2, 2))
    ),
}


@pytest.mark.parametrize("match", BAD_NETWORKS)
def test_what_the_format_cannot_express_is_named(match):
    with pytest.raises(ValueError, match=match):
        to_nir(BAD_NETWORKS[match](), dt=DT)


BAD_IMAGES = {
    "pads one side": nnx.Conv(2, 2, (3, 3), padding=[(1, 0), (1, 1)], rngs=nnx.Rngs(0)),
    "padding 'CIRCULAR'": nnx.Conv(2, 2, 3, padding="CIRCULAR", rngs=nnx.Rngs(0)),
    "input must be flat": linear(2, 2),
    "all axes have to be flattened": Sequential(
        nnx.Conv(2, 2, (3, 3), rngs=nnx.Rngs(0)), Flatten(-2)
    ),
    "channels either last or": Sequential(
        nnx.Conv(2, 2, (3, 3), rngs=nnx.Rngs(0)),
        ChannelsFirst(nnx.Conv(6, 2, (3, 3), rngs=nnx.Rngs(0)), 2),
    ),
    "in one order of channels": Graph(
        {
            "conv": nnx.Conv(2, 2, (1, 1), rngs=nnx.Rngs(0)),
            "flat": Flatten(-3),
            "line": linear(72, 72),
        },
        [
            ("input", "conv"),
            ("conv", "flat"),
            ("flat", "line"),
            ("flat", "output"),
            ("line", "output"),
        ],
    ),
}


@pytest.mark.parametrize("match", BAD_IMAGES)
def test_images_that_the_format_cannot_express_are_named(match):
    shape = (6, 2) if "CIRCULAR" in match else (6, 6, 2)
    with pytest.raises(ValueError, match=match):
        to_nir(BAD_IMAGES[match], dt=DT, input_shape=shape)
