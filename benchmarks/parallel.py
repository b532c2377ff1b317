"""Isolated membranes: the time axis in parallel against one step after another."""

from bench_harness import Case, Workload

_ERROR = "max |v - v_scan|"
_JAX = {"requires": ("jax", "spike_core"), "install": "pip install spike-core"}
_OURS = {
    "requires": ("jax", "spike_core", "spike_parallel"),
    "install": "pip install spike-parallel",
}


def _sizes(*steps):
    return [{"steps": n, "batch": 8, "neurons": 128} for n in steps]


membrane = Case(
    name="parallel-membrane",
    claim=(
        "A reset-free membrane solved in parallel over time equals the plain scan to "
        "rounding; on a CPU the scan is the faster one, on a GPU it is to be measured."
    ),
    baseline="scan",
    quality=_ERROR,
    profiles={
        "smoke": _sizes(512),
        "laptop": _sizes(128, 512, 2048, 8192),
        "gpu": _sizes(128, 512, 2048, 8192),
    },
)


def _workload(solve, steps, batch, neurons):
    """Time `solve(neuron, xs) -> v` and the spikes that follow from it."""
    import jax
    import numpy as np
    from spike_core import LIF, LIFState

    neuron = LIF(neurons, reset="none", tau=20.0, threshold=0.8)
    drive = np.random.default_rng(0).normal(size=(steps, batch, neurons))
    xs = jax.numpy.asarray(np.abs(drive), "float32")

    def run(solve, xs):
        v = solve(neuron, xs)
        return v, neuron.emit(LIFState(v))

    jitted = jax.jit(run, static_argnums=0)

    def scratch():
        return jitted.lower(solve, xs).compile().memory_analysis().temp_size_in_bytes

    def quality(out):
        v, spikes = out
        v_scan, spikes_scan = jitted(_scan, xs)
        return {
            _ERROR: float(abs(v - v_scan).max()),
            "mismatching spikes": int((spikes != spikes_scan).sum()),
            "spikes": int(spikes_scan.sum()),
        }

    return Workload(
        run=lambda: jitted(solve, xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=scratch,
    )


def _scan(neuron, xs):
    import jax

    def step(state, x):
        state, _ = neuron(state, x)
        return state, state.v

    return jax.lax.scan(step, neuron.initial_state(xs.shape[1:-1]), xs)[1]


@membrane.contender("scan", **_JAX)
def _(steps, batch, neurons):
    return _workload(_scan, steps, batch, neurons)


@membrane.contender("linear_recurrence", **_OURS)
def _(steps, batch, neurons):
    from spike_parallel import linear_recurrence

    def solve(neuron, xs):
        return linear_recurrence(*neuron.linear_form(xs), 0.0)

    return _workload(solve, steps, batch, neurons)


@membrane.contender("lax.associative_scan", **_JAX)
def _(steps, batch, neurons):
    import jax

    def combine(earlier, later):
        return later[0] * earlier[0], later[0] * earlier[1] + later[1]

    def solve(neuron, xs):
        a, b = neuron.linear_form(xs)
        a = jax.numpy.broadcast_to(a, (steps, 1, 1))
        return jax.lax.associative_scan(combine, (a, b))[1]

    return _workload(solve, steps, batch, neurons)


@membrane.contender(
    "jaxpike",
    requires=("jax", "spike_core", "jaxpike"),
    install="pip install jaxpike",
)
def _(steps, batch, neurons):
    import jax.numpy as jnp
    from jaxpike.parallel import scan_linear_recurrence

    def solve(neuron, xs):
        a, b = neuron.linear_form(xs)
        # As its own `LinearLIF` calls it: one coefficient a step and neuron.
        return scan_linear_recurrence(
            jnp.broadcast_to(a, b.shape), b, jnp.zeros_like(b[0])
        )

    return _workload(solve, steps, batch, neurons)
