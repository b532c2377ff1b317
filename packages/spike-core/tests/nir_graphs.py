"""Graphs of the format to try, the numbers in them, and how a network is run."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

nir = pytest.importorskip("nir", reason="the library nir is not installed")

DT = 0.5


def values(*numbers):
    return np.array(numbers, np.float32)


def chain(*nodes, shape=(2,)):
    """Make a graph of nodes in a row."""
    names = [str(i) for i in range(len(nodes))]
    edges = itertools.pairwise(["input", *names, "output"])
    return graph(list(edges), shape, **dict(zip(names, nodes, strict=True)))


def graph(edges, shape=(2,), **nodes):
    """Make a graph of named nodes between `input` and `output`."""
    ends = {"input": nir.Input(np.array(shape)), "output": nir.Output(np.array(shape))}
    return nir.NIRGraph({**ends, **nodes}, edges, type_check=False)


def run(net, xs):
    batch = (xs.shape[1],) if xs.ndim > 2 else ()
    start = net.initial_state(batch)
    # The plainest way there is: many networks have to be compiled.
    step = jax.jit(lambda xs: jax.lax.scan(lambda s, x: net(s, x), start, xs)[1])
    return np.asarray(step(jnp.asarray(xs, jnp.float32)))


def current(*shape, mean=1.0, seed=0):
    return np.random.default_rng(seed).normal(mean, 2.0, shape)


def lif(**changes):
    settings = {
        "tau": values(0.02, 0.01),
        "r": values(1.5, 0.7),
        "v_leak": values(-0.2, 0.1),
        "v_threshold": values(0.8, 0.9),
        "v_reset": values(-0.3, 0.1),
    }
    return nir.LIF(**{**settings, **changes})


def cuba_lif(**changes):
    settings = {
        "tau_mem": values(0.02, 0.01),
        "tau_syn": values(0.005, 0.003),
        "r": values(1.5, 1.7),
        "v_leak": values(-0.2, 0.1),
        "v_threshold": values(0.6, 0.7),
        "v_reset": values(-0.3, 0.1),
        "w_in": values(1.2, 0.9),
    }
    return nir.CubaLIF(**{**settings, **changes})


def plain_lif(n=2):
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.float32)
    return nir.LIF(0.02 * ones, ones, zeros, 0.5 * ones, zeros)


def weights(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def conv(**changes):
    settings = {
        "input_shape": (7, 6),
        "weight": weights(4, 1, 3, 2),
        "stride": (2, 1),
        "padding": (1, 2),
        "dilation": (1, 2),
        "groups": 2,
        "bias": weights(4),
    }
    return nir.Conv2d(**{**settings, **changes})


def line(**changes):
    settings = {
        "input_shape": 9,
        "weight": weights(3, 2, 3),
        "stride": 1,
        "padding": "same",
        "dilation": 2,
        "groups": 1,
        "bias": weights(3),
    }
    return nir.Conv1d(**{**settings, **changes})


GRAPHS = {
    "LIF": chain(lif()),
    "LIF, plain": chain(plain_lif()),
    "LIF, raw input": chain(
        lif(
            r=1 / -np.expm1(-1e-3 * DT / values(0.02, 0.01)),
            v_leak=values(0.0, 0.0),
            v_reset=values(0.0, 0.0),
        )
    ),
    "CubaLIF": chain(cuba_lif()),
    "IF": chain(nir.IF(values(900.0, 500.0), values(1.0, 2.0), values(0.2, -0.1))),
    "LI": chain(nir.LI(values(0.02, 0.01), values(1.5, 0.7), values(-0.2, 0.1))),
    "I": chain(nir.I(values(900.0, 500.0))),
    "Affine": chain(nir.Affine(weights(3, 2), weights(3))),
    "Linear": chain(nir.Linear(weights(3, 2))),
    "Scale": chain(nir.Scale(values(2.0, -1.0)), lif()),
    "Threshold": chain(nir.Threshold(values(0.2, -1.0))),
    "Delay": chain(nir.Delay(values(1e-3, 2.5e-3))),
    "Conv1d": chain(line(), shape=(2, 9)),
    "Conv2d": chain(conv(), shape=(2, 7, 6)),
    "pools": chain(
        nir.SumPool2d(np.array([2, 3]), np.array([2, 1]), np.array([1, 0])),
        nir.AvgPool2d(np.array([3, 2]), np.array([1, 2]), np.array([0, 1])),
        shape=(2, 7, 6),
    ),
    "Flatten": chain(
        nir.Flatten({"input": np.array([2, 7, 6])}, start_dim=1), shape=(2, 7, 6)
    ),
    "recurrent": graph(
        [("input", "n"), ("n", "w"), ("w", "n"), ("n", "output")],
        n=plain_lif(),
        w=nir.Linear(weights(2, 2)),
    ),
    "recurrent, driven": graph(
        [("input", "n"), ("n", "w"), ("w", "n"), ("n", "output")],
        n=lif(),
        w=nir.Affine(weights(2, 2), weights(2)),
    ),
    "skip": graph(
        [("input", "a"), ("a", "n"), ("input", "n"), ("n", "output"), ("a", "output")],
        a=nir.Affine(weights(2, 2), weights(2)),
        n=lif(),
    ),
}


def linear(inputs, outputs):
    layer = nnx.Linear(
        inputs, outputs, kernel_init=nnx.initializers.zeros, rngs=nnx.Rngs(0)
    )
    layer.kernel[...] = weights(inputs, outputs)
    return layer


def inner(g):
    kinds = nir.Input, nir.Output
    return [node for node in g.nodes.values() if not isinstance(node, kinds)]
