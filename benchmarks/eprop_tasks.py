"""The classic tasks of online learning, learned by e-prop and by backpropagation."""

from bench_harness import Case, Workload

_OURS = {
    "requires": ("jax", "optax", "spike_core", "spike_eprop"),
    "install": "pip install spike-eprop h5py",
}


def _pattern(draw, batch, steps):
    """Draw one fixed sum of sines, told the time by inputs that fire in turn.

    Bellec et al. 2020, figure 2; scored by the normalised mean squared error.
    """
    import numpy as np

    inputs = 20
    channel = np.arange(steps) * inputs // steps
    spikes = np.eye(inputs)[channel][:, None]
    time = np.arange(steps) / steps * 2 * np.pi
    waves = np.random.default_rng(0)  # the same pattern in every batch
    target = sum(
        waves.uniform(0.5, 2) * np.sin(k * time + waves.uniform(0, 2 * np.pi))
        for k in (1, 2, 3, 5)
    )
    target = np.repeat((target / np.std(target))[:, None, None], batch, 1)
    return np.repeat(spikes, batch, 1), target, np.ones((steps, batch))


def _evidence(draw, batch, steps):
    """Say on which side there were more cues, after a delay.

    Morcos and Harvey 2016, as in Bellec et al. 2020, figure 3: seven cues left or
    right, a delay, then a signal to answer.
    """
    import numpy as np

    cue, n_cues = steps // 15, 7
    left = draw.random((n_cues, batch)) < 0.5
    rates = np.zeros((steps, batch, 4))  # left, right, recall, noise
    for i in range(n_cues):
        on = slice(2 * i * cue * 5 // 8, 2 * i * cue * 5 // 8 + cue)
        rates[on, :, 0], rates[on, :, 1] = left[i], ~left[i]
    rates[-2 * cue :, :, 2] = 1
    rates[..., 3] = 0.25
    spikes = draw.random((steps, batch, 4, 10)) < 0.2 * rates[..., None]
    mask = np.zeros((steps, batch))
    mask[-2 * cue :] = 1
    answer = (left.sum(0) > n_cues // 2).astype(int)
    return spikes.reshape(steps, batch, 40), answer, mask


def _match(draw, batch, steps):
    """Say whether two cues, with a delay between them, were the same.

    Delayed match to sample, as in Bellec et al. 2020, supplementary note 8.
    """
    import numpy as np

    cue = steps // 6
    first, second = draw.integers(0, 2, (2, batch))
    rates = np.zeros((steps, batch, 4))
    rates[:cue, np.arange(batch), first] = 1
    rates[3 * cue : 4 * cue, np.arange(batch), second] = 1
    rates[4 * cue :, :, 2] = 1
    rates[..., 3] = 0.25
    spikes = draw.random((steps, batch, 4, 10)) < 0.2 * rates[..., None]
    mask = np.zeros((steps, batch))
    mask[5 * cue :] = 1
    return spikes.reshape(steps, batch, 40), (first == second).astype(int), mask


def _digits_file(name):
    from pathlib import Path

    from bench_harness import Unavailable

    here = Path(__file__).resolve().parents[1]
    path = here.parent / "shared" / "data" / "spoken_digits" / name
    if not path.exists():
        raise Unavailable(f"needs the spoken digits, {name}, in shared/ beside this")
    return path


def _load_digits(split, steps):
    """Bin the spikes of held-out speakers or the others: 140 channels, 1 s."""
    import h5py  # pyrefly: ignore [missing-import]
    import numpy as np

    with h5py.File(_digits_file(f"fsdd_spikes_140ch_{split}.h5")) as file:
        labels = file["labels"][:].astype(int)
        spikes = np.zeros((len(labels), steps, 140), bool)
        for row, times, units in zip(
            spikes, file["spikes/times"], file["spikes/units"], strict=True
        ):
            # In float64: the file's float16 would move spikes to other bins.
            bins = np.floor(times.astype("float64") * steps).astype(int)
            inside = bins < steps
            row[bins[inside], units[inside]] = True
    return spikes, labels


def _build(task, hidden):
    from flax import nnx
    from spike_core import ALIF, LIF, LeakyIntegrator, Recurrent, Sequential

    rngs = nnx.Rngs(1)
    inputs = {"pattern": 20, "digits": 140}.get(task, 40)
    outputs = {"pattern": 1, "digits": 10}.get(task, 2)
    adaptive = {
        "tau_adaptation": {"evidence": 400.0, "match": 200.0}.get(task, 100.0),
        "beta": 0.05,
    }
    if task == "pattern":
        neuron = LIF(hidden, threshold=0.05)
    else:
        neuron = ALIF(hidden, threshold=0.05, **adaptive)
    return Sequential(
        nnx.Linear(inputs, hidden, rngs=rngs),
        Recurrent(neuron, nnx.Linear(hidden, hidden, use_bias=False, rngs=rngs)),
        nnx.Linear(hidden, outputs, rngs=rngs),
        LeakyIntegrator(outputs),
    )


def _batches(task, steps, batch):
    """Return the function from an iteration to a batch, and one batch for the test."""
    import numpy as np

    if task == "digits":
        (train, labels), (test, test_labels) = (
            _load_digits(split, steps) for split in ("train", "test")
        )

        def pick(spikes, labels, rows):
            mask = np.ones((steps, len(rows)))
            return spikes[rows].swapaxes(0, 1), labels[rows], mask

        def draw_batch(iteration):
            draw = np.random.default_rng(iteration)
            return pick(train, labels, draw.integers(0, len(labels), batch))

        return draw_batch, pick(test, test_labels, np.arange(len(test_labels)))
    make = {"pattern": _pattern, "evidence": _evidence, "match": _match}[task]

    def draw_batch(iteration):
        return make(np.random.default_rng(iteration), batch, steps)

    return draw_batch, make(np.random.default_rng(10**6), max(batch, 64), steps)


def _as_arrays(task, data):
    import jax.numpy as jnp

    xs, targets, mask = data
    if task != "pattern":  # one class a sequence: the same target at every step
        targets = jnp.broadcast_to(jnp.asarray(targets), mask.shape)
    else:
        targets = jnp.asarray(targets, "float32")
    return jnp.asarray(xs, "float32"), targets, jnp.asarray(mask, "float32")


def _loss_of(task):
    import optax

    if task == "pattern":
        return lambda y, target: ((y - target) ** 2).mean(-1)
    return optax.softmax_cross_entropy_with_integer_labels


def _bptt(net, xs, targets, loss, mask):
    import jax
    from flax import nnx
    from spike_core import unroll

    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def mean_loss(params):
        _, ys = unroll(nnx.merge(graphdef, params, rest), xs)
        return (mask * jax.vmap(loss)(ys, targets)).sum() / mask.sum()

    return jax.value_and_grad(mean_loss)(params)


def _train(gradient, task, steps, batch, hidden, iterations):
    import jax
    import optax
    from flax import nnx
    from spike_core import unroll

    loss = _loss_of(task)
    draw_batch, test = _batches(task, steps, batch)
    test = _as_arrays(task, test)

    @nnx.jit
    def step(net, optimizer, xs, targets, mask):
        value, gradients = gradient(net, xs, targets, loss, mask)
        optimizer.update(net, gradients)
        return value

    def run():
        net = _build(task, hidden)
        clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))
        optimizer = nnx.Optimizer(net, clipped, wrt=nnx.Param)
        values = [
            float(step(net, optimizer, *_as_arrays(task, draw_batch(i))))
            for i in range(iterations)
        ]
        return net, values

    def quality(out):
        net, _ = out
        xs, targets, mask = test
        _, ys = jax.jit(lambda xs: unroll(net, xs))(xs)
        if task == "pattern":
            error = ((ys - targets) ** 2).mean() / targets.var()
            return {"normalised error": float(error)}
        votes = (mask[..., None] * jax.nn.log_softmax(ys)).sum(0).argmax(-1)
        return {"accuracy": float((votes == targets[0]).mean())}

    return Workload(
        run=run, quality=quality, curves=lambda out: {"loss": out[1]}, repeats=0
    )


def _case(task, claim, quality, better, laptop):
    names = ("steps", "batch", "hidden", "iterations")
    profiles = {
        "laptop": [dict(zip(names, laptop, strict=True))],
        "gpu": [dict(zip(names, laptop, strict=True))],
    }
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
    laptop=(500, 1, 100, 1000),
)
evidence = _case(
    "evidence",
    "Adaptive neurons learn by e-prop to weigh evidence and answer after a delay.",
    "accuracy",
    "higher",
    laptop=(300, 64, 60, 400),
)
match = _case(
    "match",
    "Adaptive neurons learn by e-prop to compare two cues across a delay.",
    "accuracy",
    "higher",
    laptop=(120, 64, 60, 400),
)
digits = _case(
    "digits",
    "Spoken digits of speakers never heard, learned by e-prop and by backpropagation.",
    "accuracy",
    "higher",
    laptop=(100, 64, 100, 300),
)
