"""Whole networks, forward and backward: time and planned memory of each strategy."""

from bench_harness import Case, Workload

_ERROR = "max relative gradient error"
_WEIGHTS = "that of the weights"
_OURS = {
    "requires": ("jax", "flax", "spike_core", "spike_parallel"),
    "install": "pip install spike-parallel",
}


def _sizes(*steps, batch=16, inputs=128, hidden=512):
    shape = {"batch": batch, "inputs": inputs, "hidden": hidden}
    return [{"steps": n} | shape for n in steps]


network = Case(
    name="parallel-network",
    claim=(
        "Training gradients of a reset-free two-layer network: chunked execution needs "
        "a fraction of the scratch memory of a whole-sequence solution."
    ),
    baseline="Scan",
    quality=_ERROR,
    profiles={
        "smoke": _sizes(256, batch=4, inputs=32, hidden=64),
        "laptop": _sizes(128, 2048, 8192),
        "gpu": _sizes(128, 2048, 8192),
    },
)


def _problem(steps, batch, inputs, hidden):
    import jax.numpy as jnp
    import numpy as np
    from flax import nnx
    from spike_core import LIF, Sequential

    rngs = nnx.Rngs(0)

    def lif():
        tau = jnp.full(hidden, 20.0)
        return LIF(hidden, reset="none", tau=tau, threshold=0.3, trainable=("tau",))

    net = Sequential(
        nnx.Linear(inputs, hidden, rngs=rngs),
        lif(),
        nnx.Linear(hidden, hidden, rngs=rngs),
        lif(),
    )
    drive = np.random.default_rng(0).normal(size=(steps, batch, inputs))
    return net, jnp.asarray(np.abs(drive), "float32")


def _workload(strategy, folded, **sizes):
    """Gradients of the mean squared output, whose sum `folded` strategies return."""
    import jax
    from flax import nnx
    from spike_core import Scan, unroll

    net, xs = _problem(**sizes)
    graph, variables, rest = nnx.split(net, nnx.Param, ...)

    def gradients(strategy, folded):
        def loss(variables, xs):
            net = nnx.merge(graph, variables, rest)
            _, ys = unroll(net, xs, strategy=strategy)
            total = ys if folded else (ys**2).sum()
            return total / (xs.shape[0] * xs.shape[1])

        return jax.jit(jax.grad(loss))

    jitted = gradients(strategy, folded)

    def quality(out):
        expected = gradients(Scan(), False)(variables, xs)
        return _relative_errors(out, expected)

    return Workload(
        run=lambda: jitted(variables, xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            jitted.lower(variables, xs).compile().memory_analysis().temp_size_in_bytes
        ),
        repeats=_repeats(xs.shape[0]),
    )


def _relative_errors(found, expected):
    import jax

    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    errors = [(e.ndim, float(abs(f - e).max() / abs(e).max())) for f, e in pairs]
    # Those of the time constants are the large ones: sums whose terms cancel.
    return {
        _ERROR: max(error for _, error in errors),
        _WEIGHTS: max(error for ndim, error in errors if ndim == 2),
    }


def _repeats(steps):
    # A gradient over the longest sequence takes many seconds, which vary little.
    return 2 if steps > 4000 else 5


@network.contender(
    "Scan",
    requires=("jax", "flax", "spike_core"),
    install="pip install spike-core",
)
def _(**sizes):
    from spike_core import Scan

    return _workload(Scan(), False, **sizes)


@network.contender("Associative", **_OURS)
def _(**sizes):
    from spike_parallel import Associative

    return _workload(Associative(), False, **sizes)


def _chunked(chunk, sizes):
    import jax.numpy as jnp
    from spike_parallel import Chunked

    def add(total, ys, start):
        return total + (ys**2).sum()

    return _workload(Chunked(chunk, add, jnp.float32(0)), True, **sizes)


@network.contender("Chunked(64), folded", **_OURS)
def _(**sizes):
    return _chunked(64, sizes)


@network.contender("Chunked(128), folded", **_OURS)
def _(**sizes):
    return _chunked(128, sizes)


@network.contender(
    "jaxpike, parallel",
    requires=("jax", "flax", "spike_core", "equinox", "jaxpike"),
    install="pip install jaxpike",
)
def _(steps, batch, inputs, hidden):
    return _jaxpike("unroll_parallel", steps, batch, inputs, hidden)


@network.contender(
    "jaxpike, checkpointed",
    requires=("jax", "flax", "spike_core", "equinox", "jaxpike"),
    install="pip install jaxpike",
)
def _(steps, batch, inputs, hidden):
    return _jaxpike("unroll_checkpointed", steps, batch, inputs, hidden)


def _jaxpike(run, steps, batch, inputs, hidden):
    import equinox as eqx
    import jax
    import jaxpike
    from jax.numpy import full

    _, xs = _problem(steps, batch, inputs, hidden)
    keys = jax.random.split(jax.random.key(0))

    def lif():
        return jaxpike.LinearLIF(full(hidden, 20.0), threshold=0.3)

    net = jaxpike.Sequential(
        jaxpike.Dense(inputs, hidden, key=keys[0]),
        lif(),
        jaxpike.Dense(hidden, hidden, key=keys[1]),
        lif(),
    )

    # On a CPU its loop is fastest, and compiles soonest, if it is not unrolled.
    loop = {"scan_unroll": 1} if jax.default_backend() == "cpu" else {}

    def gradients(name):
        settings = {} if name == "unroll_parallel" else loop

        def loss(net, xs):
            ys, _ = getattr(jaxpike, name)(net, xs, **settings)
            return (ys**2).sum() / (steps * batch)

        return eqx.filter_jit(eqx.filter_grad(loss))

    # Its weights and surrogate are its own: the error is to its own sequential run.
    jitted = gradients(run)

    def quality(out):
        return _relative_errors(out, gradients("unroll")(net, xs))

    return Workload(
        run=lambda: jitted(net, xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            jitted.lower(net, xs)
            .compile()
            .compiled.memory_analysis()
            .temp_size_in_bytes
        ),
        repeats=_repeats(steps),
    )
