"""Whether anything grows while a network learns from an endless stream."""

from bench_harness import Case, Workload

_GROWTH = "growth of resident memory (MiB)"

stream = Case(
    name="eprop-stream",
    claim=(
        "A learner that updates inside the stream needs no more memory after a million "
        "steps than after its first ones."
    ),
    baseline="Learner",
    quality=_GROWTH,
    tolerance=4.0,
    profiles={
        "laptop": [{"steps": 1_000_000, "block": 1000}],
        "gpu": [{"steps": 1_000_000, "block": 1000}],
    },
)


def _resident_mib():
    import resource
    from pathlib import Path

    from bench_harness import Unavailable

    if not Path("/proc/self/statm").exists():
        raise Unavailable("resident memory is read from /proc, which is Linux's")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@stream.contender(
    "Learner",
    requires=("jax", "optax", "spike_core", "spike_eprop"),
    install="pip install spike-eprop",
)
def _(steps, block):
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from spike_core import ALIF, LeakyIntegrator, Recurrent, Sequential
    from spike_eprop import Learner

    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(10, 20, rngs=rngs),
        Recurrent(ALIF(20, threshold=0.1), nnx.Linear(20, 20, rngs=rngs)),
        nnx.Linear(20, 1, rngs=rngs),
        LeakyIntegrator(1),
    )
    learner = Learner(
        net,
        lambda y, target: ((y - target) ** 2).mean(-1),
        optimizer=optax.adam(1e-3),
        every=10,
    )
    _resident_mib()

    def run():
        state = learner.init(np.zeros((1, 10), "float32"))
        resident, losses = [], []
        for start in range(0, steps, block):
            # A wave of 200 steps, told the time by ten inputs that fire in turn.
            time = np.arange(start, start + block)[:, None]
            xs = np.eye(10, dtype="float32")[time // 20 % 10]
            targets = np.sin(time[..., None] * 2 * np.pi / 200).astype("float32")
            state, out = learner.run(state, xs, targets)
            losses.append(float(out.loss.mean()))
            resident.append(_resident_mib())
        assert int(state.steps) == steps
        return state, resident, losses

    def quality(out):
        state, resident, losses = out
        # The first tenth warms up: compilation, and the allocator's own reserves.
        warm = len(resident) // 10
        return {
            _GROWTH: max(resident[warm:]) - resident[warm],
            "loss, first tenth": sum(losses[:warm]) / warm,
            "loss, last tenth": sum(losses[-warm:]) / warm,
            "bytes of state": sum(leaf.nbytes for leaf in jax.tree.leaves(state)),
        }

    def curves(out):
        thinned = slice(None, None, max(1, steps // block // 100))
        return {"resident memory (MiB)": out[1][thinned], "loss": out[2][thinned]}

    return Workload(run=run, quality=quality, curves=curves, repeats=0)
