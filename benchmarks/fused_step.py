"""One training step of the network that frameworks publish their times for.

Linear 128-128, LIF, Linear 128-128, LIF, Linear 128-20, leaky integrator; 256 steps, a
batch of 256; cross-entropy with label smoothing 0.3 on the readout summed over time;
Adam, 5e-4; float32. Membrane time constants are learned, one a neuron, where the
framework can. Input spikes with 5 % density.

`matrix products` is the floor of whoever runs layer by layer: the products of the three
linear layers alone, forward and backward, each passing through memory.
"""

import itertools

from bench_harness import Case, Workload

step = Case(
    name="fused-step",
    claim=(
        "A whole training step with fused time loops, beside scans, peers, and its "
        "matrix products alone, which are the floor."
    ),
    baseline="Fused",
    quality="loss",
    better="lower",
    profiles={
        "smoke": [{"steps": 32, "batch": 32}],
        "laptop": [{"steps": 256, "batch": 256}],
        "gpu": [{"steps": 256, "batch": 256}],
    },
    env={
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_TOP_PAD_": "268435456",
        "OMP_NUM_THREADS": "2",
    },
)

_WIDTHS = (128, 128, 128, 20)
_JAX = {
    "requires": ("jax", "flax", "optax", "spike_core", "spike_native"),
    "install": "pip install spike-core[native]",
}
_JAXPIKE = {
    "requires": ("jax", "optax", "equinox", "jaxpike"),
    "install": "pip install jaxpike",
}


def _batch(steps, batch):
    """Input spikes and labels."""
    import numpy as np

    rng = np.random.default_rng(0)
    xs = (rng.random((steps, batch, _WIDTHS[0])) < 0.05).astype(np.float32)
    return xs, rng.integers(0, _WIDTHS[-1], batch)


def _weights():
    """Weights `[inputs, outputs]` that make a few percent of the neurons fire."""
    import numpy as np

    rng = np.random.default_rng(1)
    return [
        (rng.normal(1.0, 4.0, (m, n)) * (20 / m**0.5) / 4).astype(np.float32)
        for m, n in itertools.pairwise(_WIDTHS)
    ]


def _loss(readout, labels):
    import jax
    import optax

    targets = optax.smooth_labels(jax.nn.one_hot(labels, _WIDTHS[-1]), 0.3)
    return optax.softmax_cross_entropy(readout.sum(0) / 100, targets).mean()


def _trained(gradient, model, xs, labels):
    """One step of Adam from the same start every time."""
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.adam(5e-4)
    moments = adam.init(model)

    @jax.jit
    def train(model, moments, xs, labels):
        loss, gradients = gradient(model, xs, labels)
        updates, moments = adam.update(gradients, moments)
        return loss, optax.apply_updates(model, updates), moments

    arguments = model, moments, jnp.asarray(xs), jnp.asarray(labels)
    return Workload(
        run=lambda: train(*arguments),
        sync=jax.block_until_ready,
        quality=lambda out: {"loss": float(out[0])},
        scratch_bytes=lambda: (
            train.lower(*arguments).compile().memory_analysis().temp_size_in_bytes
        ),
    )


def _ours(strategy, sizes):
    import jax
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential, unroll

    rngs = nnx.Rngs(0)
    layers = []
    for weights in _weights():
        linear = nnx.Linear(*weights.shape, rngs=rngs)
        linear.kernel[...] = weights
        layers += [linear, LIF(weights.shape[1], trainable=("tau",))]
    net = Sequential(*layers[:-1], LeakyIntegrator(_WIDTHS[-1]))
    graph, trained, rest = nnx.split(net, nnx.Param, ...)

    def loss(trained, xs, labels):
        net = nnx.merge(graph, trained, rest)
        return _loss(unroll(net, xs, strategy=strategy)[1], labels)

    return _trained(jax.value_and_grad(loss), trained, *_batch(**sizes))


@step.contender("Fused", **_JAX)
def _(**sizes):
    from spike_core import Fused

    return _ours(Fused(), sizes)


@step.contender("Scan", **_JAX)
def _(**sizes):
    from spike_core import Scan

    return _ours(Scan(), sizes)


def _jaxpike(name, sizes):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jaxpike

    layers = []
    for weights in _weights():
        dense = jaxpike.Dense(*weights.shape, key=jax.random.key(0))
        # Kept as [outputs, inputs].
        dense = eqx.tree_at(lambda d: d.weight, dense, jnp.asarray(weights.T))
        tau = jnp.full(weights.shape[1], 20.0)
        layers += [dense, jaxpike.LIF(tau, surrogate=jaxpike.ATan(alpha=2.0))]
    net = jaxpike.Sequential(*layers[:-1], jaxpike.LeakyIntegrator(20.0))
    trained, rest = eqx.partition(net, eqx.is_inexact_array)

    def loss(trained, xs, labels):
        net = eqx.combine(trained, rest)
        return _loss(getattr(jaxpike, name)(net, xs, scan_unroll=1)[0], labels)

    return _trained(jax.value_and_grad(loss), trained, *_batch(**sizes))


@step.contender("jaxpike unroll, scan_unroll=1", **_JAXPIKE)
def _(**sizes):
    return _jaxpike("unroll", sizes)


@step.contender("jaxpike unroll_checkpointed, scan_unroll=1", **_JAXPIKE)
def _(**sizes):
    return _jaxpike("unroll_checkpointed", sizes)


@step.contender("matrix products", requires=("jax",), install="pip install jax")
def _(**sizes):
    import jax
    import jax.numpy as jnp

    xs, _ = _batch(**sizes)
    weights = [jnp.asarray(w) for w in _weights()]
    rows = [
        jnp.asarray(xs.reshape(-1, _WIDTHS[0]))[:, :n] + 0.5 for n in _WIDTHS
    ]  # any numbers will do

    @jax.jit
    def products(weights, rows):
        forward = [r @ w for r, w in zip(rows, weights, strict=False)]
        by_weights = [r.T @ g for r, g in itertools.pairwise(rows)]
        by_rows = [g @ w.T for g, w in zip(rows[2:], weights[1:], strict=True)]
        return forward, by_weights, by_rows

    return Workload(
        run=lambda: products(weights, rows),
        sync=jax.block_until_ready,
        quality=lambda out: {"loss": float("nan")},  # it computes none
    )
