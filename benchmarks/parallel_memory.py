"""Planned memory of a training step as the sequence grows."""

from bench_harness import Case, Workload

_LOSS = "loss"
_BATCH, _INPUTS, _HIDDEN = 8, 64, 128

memory = Case(
    name="parallel-memory",
    claim=(
        "Scratch memory of one gradient of a four-layer network, batch 8: linear in "
        "the number of steps for the whole sequence, almost flat in chunks."
    ),
    baseline="Scan",
    quality=_LOSS,
    profiles={
        "laptop": [{"steps": n} for n in (100, 500, 1000, 2500, 5000)],
        "gpu": [{"steps": n} for n in (100, 500, 1000, 2500, 5000)],
    },
)

_OURS = {
    "requires": ("jax", "flax", "spike_core", "spike_parallel"),
    "install": "pip install spike-parallel",
}


def _workload(steps, strategy, folded=False):
    import jax
    import jax.numpy as jnp
    import numpy as np
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
    drive = np.random.default_rng(0).normal(size=(steps, _BATCH, _INPUTS))
    xs = jnp.asarray(np.abs(drive), "float32")

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
    )


@memory.contender(
    "Scan", requires=("jax", "flax", "spike_core"), install="pip install spike-core"
)
def _(steps):
    from spike_core import Scan

    return _workload(steps, Scan())


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
