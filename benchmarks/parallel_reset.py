"""Neurons with reset: forward with proof, and backward, in parallel over time."""

from bench_harness import Case, Workload

_WRONG = "wrong spikes"
_ERROR = "max relative gradient error"
_JAX = {"requires": ("jax", "spike_core"), "install": "pip install spike-core"}
_OURS = {
    "requires": ("jax", "spike_core", "spike_parallel"),
    "install": "pip install spike-parallel",
}


def _sizes(chunks, steps=2048, batch=16, neurons=512, resets=("subtract", "zero")):
    return [
        {"reset": r, "chunk": c, "steps": steps, "batch": batch, "neurons": neurons}
        for r in resets
        for c in chunks
    ]


forward = Case(
    name="parallel-reset",
    claim=(
        "Neurons with reset run in chunks side by side and come back only with proof: "
        "no wrong spike in any row; the sweeps that the proof took are listed."
    ),
    baseline="scan",
    quality=_WRONG,
    profiles={
        "smoke": _sizes((128,), steps=512, batch=2, neurons=64),
        "laptop": _sizes((8, 32, 128, 512)),
        "gpu": _sizes((8, 32, 128, 512)),
    },
)


def _problem(reset, steps, batch, neurons):
    import jax.numpy as jnp
    import numpy as np
    from spike_core import LIF

    neuron = LIF(neurons, reset=reset, tau=20.0, input_gain="unit")
    drive = np.random.default_rng(0).normal(size=(steps, batch, neurons))
    return neuron, jnp.asarray(0.07 * np.abs(drive), "float32")


def _forward(solve, reset, chunk, steps, batch, neurons, repeats=3):
    """Time `solve(neuron, state, xs) -> (ys, sweeps, sequential)`."""
    import jax

    neuron, xs = _problem(reset, steps, batch, neurons)
    state = neuron.initial_state((batch,))

    def run(solve, xs):
        return solve(neuron, state, xs)

    jitted = jax.jit(run, static_argnums=0)

    def quality(out):
        ys, sweeps, sequential = out
        expected = jax.jit(run, static_argnums=0)(_scan, xs)[0]
        return {
            _WRONG: int((ys != expected).sum()),
            "spikes": int(expected.sum()),
            "sweeps": round(float(sweeps), 1),
            "fell back to the scan": int(sequential),
        }

    return Workload(
        run=lambda: jitted(solve, xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            jitted.lower(solve, xs).compile().memory_analysis().temp_size_in_bytes
        ),
        repeats=repeats,
    )


def _scan(neuron, state, xs):
    import jax

    return jax.lax.scan(neuron, state, xs)[1], 0, False


@forward.contender("scan", **_JAX)
def _(**sizes):
    return _forward(_scan, **sizes)


def _verified(max_sweeps, sizes, repeats=3):
    from spike_parallel import verified_scan

    chunk = sizes["chunk"]

    def solve(neuron, state, xs):
        found = verified_scan(neuron, state, xs, chunk=chunk, max_sweeps=max_sweeps)
        return found[1:]

    return _forward(solve, **sizes, repeats=repeats)


@forward.contender("verified_scan", **_OURS)
def _(**sizes):
    return _verified(None, sizes)


@forward.contender("verified_scan, never falling back", **_OURS)
def _(**sizes):
    # As slow as its sweeps are many, and their number is what it is here for.
    return _verified(sizes["steps"], sizes, repeats=1)


@forward.contender("chunked fixed point", **_OURS)
def _(**sizes):
    # Chunks one after another; in each, spikes are guessed, the linear recurrence that
    # they make is solved in parallel, and its spikes are the next guess until they
    # stay. That is the sequential answer but for the rounding of the solution.
    def solve(neuron, state, xs):
        return _fixed_point(neuron, state, xs, sizes["chunk"])

    return _forward(solve, **sizes, repeats=1)


def _fixed_point(neuron, state, xs, chunk):
    import jax
    import jax.numpy as jnp
    from spike_core import LIF
    from spike_parallel import linear_recurrence

    kept = LIF(xs.shape[-1], reset="none", tau=20.0, input_gain="unit")
    decay, drive = kept.linear_form(xs)
    subtract = neuron.reset == "subtract"

    def membrane(v, drive, spikes):
        before = jnp.concatenate([jnp.zeros_like(v)[None], spikes[:-1]])
        if subtract:
            return linear_recurrence(decay, drive - decay * before, v)
        return linear_recurrence(decay * (1 - before), drive, v)

    def run_chunk(v, drive):
        def again(guess):
            spikes, _, sweeps = guess
            new = (membrane(v, drive, spikes) > 1).astype(xs.dtype)
            return new, (new != spikes).any(), sweeps + 1

        start = jnp.zeros_like(drive), True, 0
        spikes, _, sweeps = jax.lax.while_loop(lambda guess: guess[1], again, start)
        u = membrane(v, drive, spikes)[-1]
        v = u - spikes[-1] if subtract else u * (1 - spikes[-1])
        return v, (spikes, sweeps)

    chunks = drive.reshape(-1, chunk, *drive.shape[1:])
    _, (spikes, sweeps) = jax.lax.scan(run_chunk, state.v, chunks)
    return spikes.reshape(xs.shape), sweeps.mean(), False


@forward.contender(
    "spyx ParallelResetLIF",
    requires=("jax", "spike_core", "spyx"),
    install="pip install spyx",
)
def _(reset, chunk, steps, batch, neurons):
    import jax
    import jax.numpy as jnp
    from bench_harness import Unavailable
    from flax import nnx
    from spyx.experimental import ParallelResetLIF

    if reset != "subtract":
        raise Unavailable("its reset subtracts the threshold")
    if chunk != 128:
        raise Unavailable("it has no chunks; run once")
    _, xs = _problem(reset, steps, batch, neurons)
    decay = float(jnp.exp(-1 / 20))
    layer = ParallelResetLIF((neurons,), beta=decay, rngs=nnx.Rngs(0))
    run = jax.jit(layer.parallel)  # with its default number of sweeps, three

    def quality(spikes):
        def step(v, x):
            y, v = layer(x, v)
            return v, y

        # A spike shows the membrane before the input: the truth is its own step.
        _, expected = jax.jit(lambda xs: jax.lax.scan(step, jnp.zeros_like(xs[0]), xs))(
            xs
        )
        return {
            _WRONG: int((spikes != expected).sum()),
            "spikes": int(expected.sum()),
            "sweeps": 3,
            "fell back to the scan": 0,
        }

    return Workload(
        run=lambda: run(xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            run.lower(xs).compile().memory_analysis().temp_size_in_bytes
        ),
        repeats=3,
    )


@forward.contender("successor pointers, verified", **_OURS)
def _(**sizes):
    from bench_harness import Unavailable
    from spike_parallel.experimental import pointer_scan

    if sizes["reset"] == "subtract":
        raise Unavailable("only for a reset to a value")
    if sizes["chunk"] != 128:
        raise Unavailable("the chunk is only that of the proof; run for 128")

    def solve(neuron, state, xs):
        return pointer_scan(neuron, state, xs, chunk=128)[1:]

    return _forward(solve, **sizes, repeats=1)


backward = Case(
    name="parallel-backward",
    claim=(
        "The gradient through neurons with reset, forward by the scan and backward in "
        "parallel over time, equals that of the scan; on a CPU it takes about as long."
    ),
    baseline="Scan",
    quality=_ERROR,
    profiles={
        "laptop": [
            {"reset": reset, "steps": 2048, "batch": 16, "neurons": 512}
            for reset in ("subtract", "zero")
        ],
        "gpu": [
            {"reset": reset, "steps": steps, "batch": 16, "neurons": 512}
            for reset in ("subtract", "zero")
            for steps in (2048, 8192)
        ],
    },
)


def _backward(strategy, reset, steps, batch, neurons):
    import jax
    from spike_core import Scan, unroll

    neuron, xs = _problem(reset, steps, batch, neurons)

    def gradient(strategy):
        def loss(xs):
            ys = unroll(neuron, xs, strategy=strategy)[1]
            return (ys.mean(0) ** 2).sum()

        return jax.jit(jax.grad(loss))

    jitted = gradient(strategy)

    def quality(out):
        expected = gradient(Scan())(xs)
        return {_ERROR: float(abs(out - expected).max() / abs(expected).max())}

    return Workload(
        run=lambda: jitted(xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            jitted.lower(xs).compile().memory_analysis().temp_size_in_bytes
        ),
        repeats=5,
    )


@backward.contender("Scan", **_JAX)
def _(**sizes):
    from spike_core import Scan

    return _backward(Scan(), **sizes)


@backward.contender("ParallelBackward", **_OURS)
def _(**sizes):
    from spike_parallel import ParallelBackward

    return _backward(ParallelBackward(), **sizes)


@backward.contender(
    "ParallelBackward, forward fused",
    requires=(*_OURS["requires"], "spike_native"),
    install="pip install spike-parallel spike-core[native]",
)
def _(**sizes):
    from spike_core import Fused
    from spike_parallel import ParallelBackward

    return _backward(ParallelBackward(forward=Fused()), **sizes)
