"""Planned memory of a training step as the sequence grows."""

from bench_harness import Case, Workload

_LOSS = "loss"
_BATCH, _INPUTS, _HIDDEN = 8, 64, 128

memory = Case(
    name="parallel-memory",
    claim=(
        "Scratch memory of one gradient of a four-layer network, batch 8: linear in "
        "the number of steps for the whole sequence, almost flat in chunks whose "
        "borders alone are kept."
    ),
    baseline="Scan",
    quality=_LOSS,
    profiles={
        "smoke": [{"steps": 500}],
        "laptop": [{"steps": n} for n in (100, 500, 1000, 2500, 5000)],
        "gpu": [{"steps": n} for n in (100, 500, 1000, 2500, 5000)],
    },
)

_OURS = {
    "requires": ("jax", "flax", "spike_core", "spike_parallel"),
    "install": "pip install spike-parallel",
}


def _drive(steps):
    import jax.numpy as jnp
    import numpy as np

    drive = np.random.default_rng(0).normal(size=(steps, _BATCH, _INPUTS))
    return jnp.asarray(np.abs(drive), "float32")


def _workload(steps, strategy, folded=False):
    import jax
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential, unroll

    rngs, layers, size = nnx.Rngs(0), [], _INPUTS
    for _ in range(4):
        layers += [
            nnx.Linear(size, _HIDDEN, rngs=rngs),
            LIF(_HIDDEN, reset="none", threshold=0.3),
        ]
        size = _HIDDEN
    net = Sequential(*layers, nnx.Linear(size, 10, rngs=rngs), LeakyIntegrator(10))
    graph, variables, rest = nnx.split(net, nnx.Param, ...)
    xs = _drive(steps)

    def loss(variables, xs):
        net = nnx.merge(graph, variables, rest)
        _, ys = unroll(net, xs, strategy=strategy)
        return (ys if folded else (ys**2).sum()) / (steps * _BATCH)

    jitted = jax.jit(jax.value_and_grad(loss))
    return Workload(
        run=lambda: jitted(variables, xs),
        sync=jax.block_until_ready,
        quality=lambda out: {_LOSS: float(out[0])},
        scratch_bytes=lambda: (
            jitted.lower(variables, xs).compile().memory_analysis().temp_size_in_bytes
        ),
        repeats=5,
    )


@memory.contender(
    "Scan", requires=("jax", "flax", "spike_core"), install="pip install spike-core"
)
def _(steps):
    from spike_core import Scan

    return _workload(steps, Scan())


@memory.contender(
    "Checkpointed",
    requires=("jax", "flax", "spike_core"),
    install="pip install spike-core",
)
def _(steps):
    from spike_core import Checkpointed

    return _workload(steps, Checkpointed())


@memory.contender("Associative", **_OURS)
def _(steps):
    from spike_parallel import Associative

    return _workload(steps, Associative())


@memory.contender("Chunked(50), folded", **_OURS)
def _(steps):
    import jax.numpy as jnp
    from spike_parallel import Chunked

    def add(total, ys, start):
        return total + (ys**2).sum()

    return _workload(steps, Chunked(50, add, jnp.float32(0)), folded=True)


_PEER = {
    "requires": ("jax", "equinox", "jaxpike", "spike_core"),
    "install": "pip install jaxpike",
}


def _jaxpike(steps, run):
    import equinox as eqx
    import jax
    import jaxpike

    layers, size = [], _INPUTS
    keys = jax.random.split(jax.random.key(0), 5)
    for key in keys[:4]:
        layers += [
            jaxpike.Dense(size, _HIDDEN, key=key),
            jaxpike.LinearLIF(20.0, threshold=0.3),
        ]
        size = _HIDDEN
    readout = jaxpike.Dense(size, 10, key=keys[4])
    net = jaxpike.Sequential(*layers, readout, jaxpike.LeakyIntegrator(20.0))
    xs = _drive(steps)

    # Its weights are its own draw, and so is its loss. On a CPU it is fastest, and
    # compiles in a fraction of the time, with a loop that is not unrolled.
    loop = {"scan_unroll": 1} if jax.default_backend() == "cpu" else {}

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def gradients(net, xs):
        ys, _ = getattr(jaxpike, run)(net, xs, **loop)
        return (ys**2).sum() / (steps * _BATCH)

    return Workload(
        run=lambda: gradients(net, xs),
        sync=jax.block_until_ready,
        quality=lambda out: {_LOSS: float(out[0])},
        scratch_bytes=lambda: (
            gradients.lower(net, xs)
            .compile()
            .compiled.memory_analysis()
            .temp_size_in_bytes
        ),
        repeats=5,
    )


@memory.contender("jaxpike, whole", **_PEER)
def _(steps):
    return _jaxpike(steps, "unroll")


@memory.contender("jaxpike, checkpointed", **_PEER)
def _(steps):
    return _jaxpike(steps, "unroll_checkpointed")
