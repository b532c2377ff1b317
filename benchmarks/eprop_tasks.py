"""The classic tasks of online learning, learned by e-prop and by backpropagation.

Every method trains at each of the rates and keeps the network with the least loss over
the last tenth of training; the time is that of all of them. `gradient norm` is the
median over that training, before the norm is clipped to 1.
"""

from typing import Any, NamedTuple

from bench_harness import Case, Workload

_RATES = (5e-3, 2e-3)

_OURS = {
    "requires": ("jax", "optax", "spike_core", "spike_eprop"),
    "install": "pip install spike-eprop h5py",
}


def _example(name):
    """Load a script that shows the task: it draws the batches and makes the network."""
    import importlib.util
    from pathlib import Path

    folder = Path(__file__).resolve().parents[1] / "packages/spike-eprop/examples"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _digits_file(name):
    from pathlib import Path

    from bench_harness import Unavailable

    here = Path(__file__).resolve().parents[1]
    path = here.parent / "shared" / "data" / "spoken_digits" / name
    if not path.exists():
        raise Unavailable(f"needs the spoken digits, {name}, in shared/ beside this")
    return path


class _Task(NamedTuple):
    draw_batch: Any  # from an iteration, (spikes, targets, mask)
    test: Any  # one batch
    make_network: Any  # from the number of hidden neurons
    loss: Any
    score: Any


def _task(name, steps, batch):
    import functools

    import numpy as np

    if name == "digits":
        example = _example("spoken_digits")
        (train, labels), (test, answers) = (
            example.load(_digits_file(f"fsdd_spikes_140ch_{split}.h5"), 140, steps)
            for split in ("train", "test")
        )

        def draw_batch(iteration):
            rows = np.random.default_rng(iteration).integers(0, len(labels), batch)
            return example.batch_of(train, labels, rows)

        def make_network(hidden):
            return example.make_network(140, hidden, 10)

        held_out = example.batch_of(test, answers, np.arange(len(answers)))
        return _Task(draw_batch, held_out, make_network, example.loss, example.score)
    if name == "pattern":
        example = _example("pattern_generation")
        draw, make_network = example.draw_batch, example.make_network
    else:
        example = _example("cued_decisions")
        draw, _ = example.TASKS[name]
        make_network = functools.partial(example.make_network, name)

    def draw_batch(iteration, batch=batch):
        return draw(np.random.default_rng(iteration), batch, steps)

    held_out = draw_batch(10**6, max(batch, 128))
    return _Task(draw_batch, held_out, make_network, example.loss, example.score)


def _as_arrays(data):
    import jax.numpy as jnp
    import numpy as np

    spikes, targets, mask = data
    targets = np.asarray(targets)
    kind = "float32" if targets.dtype.kind == "f" else "int32"
    return (
        jnp.asarray(spikes, "float32"),
        jnp.asarray(targets, kind),
        (jnp.asarray(mask, "float32")),
    )


def _bptt(net, xs, targets, loss, mask):
    import jax
    from flax import nnx
    from spike_core import unroll

    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def mean_loss(params):
        _, ys = unroll(nnx.merge(graphdef, params, rest), xs)
        return (mask * jax.vmap(loss)(ys, targets)).sum() / mask.sum()

    return jax.value_and_grad(mean_loss)(params)


class _Trained(NamedTuple):
    net: Any
    rate: float
    losses: Any  # one an iteration
    norms: Any  # of the gradients

    @property
    def final_loss(self):
        """Mean over the last tenth of training; infinite if it is no number."""
        mean = self.losses[-max(1, len(self.losses) // 10) :].mean()
        return mean if mean == mean else float("inf")


def _train(gradient, task, steps, batch, hidden, iterations):
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from spike_core import unroll

    task = _task(task, steps, batch)
    test = _as_arrays(task.test)

    @nnx.jit
    def step(net, optimizer, xs, targets, mask):
        value, gradients = gradient(net, xs, targets, task.loss, mask)
        optimizer.update(net, gradients)
        return value, optax.global_norm(gradients)

    def train(rate):
        net = task.make_network(hidden)
        clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
        optimizer = nnx.Optimizer(net, clipped, wrt=nnx.Param)
        steps = [
            step(net, optimizer, *_as_arrays(task.draw_batch(i)))
            for i in range(iterations)
        ]
        losses, norms = np.array(steps).T
        return _Trained(net, rate, losses, norms)

    def run():
        return min(map(train, _RATES), key=lambda trained: trained.final_loss)

    def quality(out):
        xs, targets, mask = test
        _, ys = jax.jit(lambda xs: unroll(out.net, xs))(xs)
        return task.score(ys, targets, mask) | {
            "rate": out.rate,
            "gradient norm": float(np.median(out.norms)),
        }

    return Workload(
        run=run,
        quality=quality,
        curves=lambda out: {"loss": out.losses.tolist()},
        repeats=0,
    )


def _case(task, claim, quality, better, laptop):
    names = ("steps", "batch", "hidden", "iterations")
    sizes = dict(zip(names, laptop, strict=True))
    profiles = {"laptop": [sizes], "gpu": [sizes]}
    case = Case(
        name=f"eprop-{task}",
        claim=claim,
        baseline="BPTT",
        quality=quality,
        better=better,
        profiles=profiles,
    )

    def contend(name, gradient):
        requires = _OURS["requires"] + (("h5py",) if task == "digits" else ())

        @case.contender(name, requires=requires, install=_OURS["install"])
        def _(**sizes):
            return _train(gradient, task, **sizes)

    def by_rule(feedback):
        def gradient(net, xs, targets, loss, mask):
            from spike_eprop import eprop, value_and_grad

            rule = eprop(feedback=feedback)
            return value_and_grad(net, xs, targets, loss, rule=rule, mask=mask)

        return gradient

    contend("BPTT", _bptt)
    contend("e-prop, symmetric", by_rule("symmetric"))
    contend("e-prop, random", by_rule("random"))
    return case


pattern = _case(
    "pattern",
    "A recurrent network learns by e-prop to draw a pattern, as by backpropagation.",
    "normalised error",
    "lower",
    laptop=(500, 1, 100, 600),
)
evidence = _case(
    "evidence",
    "Adaptive neurons learn by e-prop to weigh evidence and answer after a delay.",
    "accuracy",
    "higher",
    laptop=(300, 32, 60, 250),
)
match = _case(
    "match",
    "Adaptive neurons learn by e-prop to compare two cues across a delay.",
    "accuracy",
    "higher",
    laptop=(120, 32, 60, 250),
)
digits = _case(
    "digits",
    "Spoken digits of speakers never heard, learned by e-prop and by backpropagation.",
    "accuracy",
    "higher",
    laptop=(100, 16, 64, 500),
)
