"""The time loop of a LIF layer, forward and backward: kernels, scans, peers, memory.

And the dense layer behind it: by rows of the weights, or by a matrix product.

`[steps, batch, features]` float32 input, one learned time constant a neuron, the same
arctangent surrogate everywhere. Every contender returns the spikes, the gradient of
the input and that of the time constants for one random cotangent; SpikingJelly's neuron
has a fixed time constant and so a little less to do.

`memory` moves the bytes that any of them has to move: forward reads the input and
writes the spikes, backward reads the input and the cotangent and writes a gradient,
five arrays in all. All contenders have the same settings of the allocator: without them
an array above 32 MiB is mapped and faulted in anew by every call, which is half of the
time of the fastest.

The quality is the error of the input's gradient against the same scan in float64, over
the first 64 lanes, relative to the largest entry.
"""

from bench_harness import Case, Workload

_TAU = 20.0
_LANES = 64  # of the comparison in float64

layer = Case(
    name="fused-layer",
    claim=(
        "The whole time loop of a LIF layer in one kernel takes a fraction of the time "
        "of the fastest scan, close to the time of moving its bytes."
    ),
    baseline="Fused",
    quality="gradient error",
    better="lower",
    profiles={
        "smoke": [{"steps": 64, "batch": 64, "features": 128}],
        "laptop": [
            {"steps": 256, "batch": 256, "features": 128},
            {"steps": 256, "batch": 32, "features": 128},
            {"steps": 1000, "batch": 4, "features": 128},
        ],
        "gpu": [{"steps": 256, "batch": 256, "features": 128}],
    },
    env={
        # glibc takes no MALLOC_MMAP_THRESHOLD_ above 32 MiB, the size of an array.
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_TOP_PAD_": "268435456",
        "OMP_NUM_THREADS": "2",
    },
)

dense = Case(
    name="spike-dense",
    claim=(
        "A dense layer behind spikes is faster by adding rows of its weights than by a "
        "matrix product, forward and backward, while not more than half of them fire."
    ),
    baseline="rows",
    quality="error",
    better="lower",
    profiles={
        "smoke": [{"rows": 512, "inputs": 64, "outputs": 32, "density": 0.05}],
        "laptop": [
            {"rows": 4096, "inputs": 128, "outputs": outputs, "density": density}
            for outputs in (128, 20)
            for density in (0.02, 0.1, 0.3, 0.5)
        ],
        "gpu": [{"rows": 4096, "inputs": 128, "outputs": 128, "density": 0.05}],
    },
    env=layer.env,
)

_JAX = {
    "requires": ("jax", "flax", "spike_core", "spike_native"),
    "install": "pip install spike-core[native]",
}


def _arrays(steps, batch, features):
    """Input and cotangent."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (steps, batch, features)
    xs = rng.normal(0.5, 3.0, shape).astype(np.float32)
    return xs, rng.normal(size=shape).astype(np.float32)


def _quality(xs, cotangent):
    """Compare outputs with a scan in float64."""
    import numpy as np

    def quality(out):
        spikes, gradient = (
            np.asarray(a).reshape(len(xs), -1)[:, :_LANES] for a in out[:2]
        )
        x, g = (
            a.reshape(len(xs), -1)[:, :_LANES].astype(float) for a in (xs, cotangent)
        )
        decay = np.exp(-1 / _TAU)
        u, s, v = np.empty_like(x), np.empty_like(x), np.zeros(x.shape[1])
        for t in range(len(x)):
            u[t] = decay * v + (1 - decay) * x[t]
            s[t] = u[t] > 1
            v = u[t] - s[t]
        expected, after = np.empty_like(x), np.zeros(x.shape[1])
        for t in reversed(range(len(x))):
            psi = 1 / (1 + (np.pi * (u[t] - 1)) ** 2)
            at_membrane = after + psi * (g[t] - after)
            expected[t] = (1 - decay) * at_membrane
            after = decay * at_membrane
        return {
            "gradient error": float(
                np.abs(gradient - expected).max() / np.abs(expected).max()
            ),
            "spikes that differ": float((spikes != s).mean()),
        }

    return quality


def _ours(strategy, sizes):
    import jax
    import jax.numpy as jnp
    from flax import nnx
    from spike_core import LIF, ATan, unroll

    xs, cotangent = _arrays(**sizes)
    features = sizes["features"]
    neuron = LIF(features, tau=[_TAU] * features, surrogate=ATan(), trainable=("tau",))
    graph, variables = nnx.split(neuron)

    @jax.jit
    def both_passes(variables, xs, cotangent):
        def run(variables, xs):
            return unroll(nnx.merge(graph, variables), xs, strategy=strategy)[1]

        spikes, pull = jax.vjp(run, variables, xs)
        by_variables, by_xs = pull(cotangent)
        return spikes, by_xs, by_variables

    arguments = variables, jnp.asarray(xs), jnp.asarray(cotangent)
    return Workload(
        run=lambda: both_passes(*arguments),
        sync=jax.block_until_ready,
        quality=_quality(xs, cotangent),
        scratch_bytes=lambda: (
            both_passes.lower(*arguments).compile().memory_analysis().temp_size_in_bytes
        ),
    )


@layer.contender("Fused", **_JAX)
def _(**sizes):
    from spike_core import Fused

    return _ours(Fused(), sizes)


@layer.contender("Scan", **_JAX)
def _(**sizes):
    from spike_core import Scan

    return _ours(Scan(), sizes)


@layer.contender("memory", requires=("jax",), install="pip install jax")
def _(**sizes):
    import jax
    import jax.numpy as jnp

    xs, cotangent = map(jnp.asarray, _arrays(**sizes))
    forward = jax.jit(lambda xs: -xs)
    backward = jax.jit(lambda xs, cotangent: xs + cotangent)
    return Workload(
        run=lambda: (forward(xs), backward(xs, cotangent)),
        sync=jax.block_until_ready,
        quality=lambda out: {"gradient error": float("nan")},  # it computes none
    )


def _jaxpike(unroll, sizes):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jaxpike

    xs, cotangent = _arrays(**sizes)
    neuron = jaxpike.LIF(
        jnp.full(sizes["features"], _TAU), surrogate=jaxpike.ATan(alpha=2.0)
    )

    @eqx.filter_jit
    def both_passes(neuron, xs, cotangent):
        def run(neuron, xs):
            return jaxpike.unroll(neuron, xs, scan_unroll=unroll)[0]

        spikes, pull = eqx.filter_vjp(run, neuron, xs)
        by_neuron, by_xs = pull(cotangent)
        return spikes, by_xs, by_neuron.log_tau

    arguments = neuron, jnp.asarray(xs), jnp.asarray(cotangent)
    return Workload(
        run=lambda: both_passes(*arguments),
        sync=jax.block_until_ready,
        quality=_quality(xs, cotangent),
    )


_JAXPIKE = {
    "requires": ("jax", "equinox", "jaxpike"),
    "install": "pip install jaxpike",
}


@layer.contender("jaxpike", **_JAXPIKE)
def _(**sizes):
    return _jaxpike(None, sizes)


@layer.contender("jaxpike, scan_unroll=1", **_JAXPIKE)
def _(**sizes):
    return _jaxpike(1, sizes)


@layer.contender(
    "SpikingJelly",
    requires=("torch", "spikingjelly"),
    install="pip install torch spikingjelly",
)
def _(**sizes):
    import numpy as np
    import torch
    from spikingjelly.activation_based import functional, neuron, surrogate

    xs, cotangent = _arrays(**sizes)
    node = neuron.LIFNode(
        tau=1 / (1 - float(np.exp(-1 / _TAU))),
        v_reset=None,
        surrogate_function=surrogate.ATan(alpha=2.0),
        step_mode="m",
    )
    leaf, g = torch.from_numpy(xs).requires_grad_(), torch.from_numpy(cotangent)

    def run():
        functional.reset_net(node)
        leaf.grad = None
        spikes = node(leaf)
        spikes.backward(g)
        return spikes.detach(), leaf.grad

    return Workload(run=run, quality=_quality(xs, cotangent))


def _dense(name, rows, inputs, outputs, density):
    """Output, and the gradients of weights and bias; that of the input is no sum."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from spike_native import xla

    rng = np.random.default_rng(0)
    xs = jnp.asarray(rng.random((rows, inputs)) < density, jnp.float32)
    weights, bias, cotangent = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((inputs, outputs), (outputs,), (rows, outputs))
    )
    both_ways = {
        "rows": lambda x, w, b, g: (
            xla.dense_forward(x, w, b),
            *xla.dense_backward(x, g),
        ),
        "product": lambda x, w, b, g: (x @ w + b, x.T @ g, g.sum(0)),
    }
    run = jax.jit(both_ways[name])
    expected = [
        np.asarray(a, float)
        for a in both_ways["product"](
            *(np.asarray(a, float) for a in (xs, weights, bias, cotangent))
        )
    ]

    def quality(out):
        errors = (
            np.abs(got - wanted).max() / np.abs(wanted).max()
            for got, wanted in zip(out, expected, strict=True)
        )
        return {"error": float(max(errors))}

    return Workload(
        run=lambda: run(xs, weights, bias, cotangent),
        sync=jax.block_until_ready,
        quality=quality,
    )


@dense.contender("rows", **_JAX)
def _(**sizes):
    return _dense("rows", **sizes)


@dense.contender("product", **_JAX)
def _(**sizes):
    return _dense("product", **sizes)
