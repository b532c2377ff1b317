"""Spoken digits of speakers never heard, from the spikes of a model cochlea."""

from bench_harness import Case, Unavailable, Workload

spoken_digits = Case(
    name="spoken-digits",
    claim="Spiking networks tell the digits of speakers they never heard well above "
    "a linear classifier on spike counts.",
    baseline="logistic regression on spike counts",
    quality="test accuracy",
    better="higher",
    tolerance=0.03,
    profiles={
        "laptop": [{"seeds": 5, "epochs": 30, "hidden": 128, "every": 1}],
        "gpu": [{"seeds": 5, "epochs": 30, "hidden": 128, "every": 1}],
    },
)

CLASSES = 10
CHANNELS = 70  # pairs of the 140 of the cochlea
STEPS = 50  # of 20 ms
FINE = 2  # steps of the data in one of the network: time is stretched before pooling
BATCH = 64
# What follows was chosen by leaving out one training speaker after the other.
TAU, TAU_READOUT = 20.0, 50.0  # ms, before training
RATE, DECAY = 6e-3, 1e-3
SMOOTHING, DROPOUT, GAIN = 0.1, 0.3, 5.0
STRETCH, SHIFT, TRANSPOSE, DROP = 0.25, 5, 3, 0.2

_NEEDS = {
    "requires": ("jax", "h5py", "sklearn", "spike_core"),
    "install": "pip install 'spike-core[data,train]' scikit-learn",
}


def _file(split):
    """Find the speakers to train on, or those held out."""
    import os
    from pathlib import Path

    beside = Path(__file__).resolve().parents[2] / "shared/data/spoken_digits"
    path = Path(os.environ.get("SPOKEN_DIGITS", beside))
    path /= f"fsdd_spikes_140ch_{split}.h5"
    if not path.exists():
        raise Unavailable(f"no {path.name}; set SPOKEN_DIGITS to the folder it is in")
    return path


def _recordings(split, every):
    """Read every nth recording: its spikes and its digit."""
    from spike_core.data import HDF5Recordings

    return list(HDF5Recordings(_file(split)))[::every]


def _load(split, every):
    """Count spikes in steps of 10 ms over the first second, in pairs of channels."""
    from spike_core.data import Events, bin_recordings

    recordings = [
        (Events(events.times, events.channels // 2), label)
        for events, label in _recordings(split, every)
    ]
    return bin_recordings(
        recordings,
        duration=1000.0,
        n_steps=STEPS * FINE,
        n_channels=CHANNELS,
        counts=True,
        progress=False,
    )


def _augment(batch, key):
    """Speak slower or faster, earlier or later, higher or lower, and less clearly."""
    import jax
    import jax.numpy as jnp
    from spike_core.data import drop_spikes, shift_time

    stretching, shifting, transposing, dropping = jax.random.split(key, 4)
    n_steps, n = batch.xs.shape[:2]
    factor = jax.random.uniform(stretching, (n,), minval=-STRETCH, maxval=STRETCH)
    source = jnp.floor(jnp.arange(n_steps)[:, None] / jnp.exp(factor)).astype(int)
    xs = jnp.take_along_axis(batch.xs, source.clip(0, n_steps - 1)[..., None], axis=0)
    xs = jnp.where((source < n_steps)[..., None], xs, 0)
    # The place on the cochlea goes with the logarithm of the frequency.
    up = jax.random.randint(transposing, (n,), -TRANSPOSE, TRANSPOSE + 1)
    padded = jnp.pad(xs, [(0, 0), (0, 0), (TRANSPOSE, TRANSPOSE)])
    place = jnp.arange(CHANNELS)[None, :] + TRANSPOSE - up[:, None]
    xs = jnp.take_along_axis(padded, place[None], axis=2)
    batch = shift_time(batch._replace(xs=xs), SHIFT, key=shifting)
    return drop_spikes(batch, DROP, key=dropping)


def _pool(batch):
    """Add up the spikes of the fine steps."""
    xs = batch.xs.reshape(STEPS, FINE, *batch.xs.shape[1:]).sum(1)
    return xs, batch.labels


def _train(make_network, seeds, epochs, hidden, every):
    """Return a workload that trains one network a seed, and tests each once."""
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from spike_core import accuracy, cross_entropy, evaluate, fit, time_mean
    from spike_core.data import batches, train_validation_split

    data, unheard = _load("train", every), _load("test", every)
    augmented = jax.jit(lambda batch, key: _pool(_augment(batch, key)))
    pooled = jax.jit(_pool)

    def loss(ys, labels):
        logits = GAIN * time_mean(ys)
        return cross_entropy(logits, labels, label_smoothing=SMOOTHING)

    def score(ys, labels):
        return accuracy(time_mean(ys), labels)

    n_steps = epochs * round(0.9 * len(data) / BATCH)
    adam = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.cosine_decay_schedule(RATE, n_steps), weight_decay=DECAY),
    )

    def plain(data):
        return [pooled(batch) for batch in batches(data, 250)]

    def one(seed):
        chosen, held_out = train_validation_split(data.labels, seed=seed)

        def heard(epoch):
            keys = jax.random.split(jax.random.key(seed * 1000 + epoch), len(data))
            order = batches(data[chosen], BATCH, seed=seed, epoch=epoch, drop_last=True)
            for batch, key in zip(order, keys, strict=False):
                yield augmented(batch, key)

        net = make_network(hidden, nnx.Rngs(seed))
        history = fit(
            net,
            heard,
            nnx.Optimizer(net, adam, wrt=nnx.Param),
            loss=loss,
            epochs=epochs,
            validation=plain(data[held_out]),
            metrics={"accuracy": score},
            monitor="accuracy",
            progress=False,
        )
        return history, evaluate(net, plain(unheard), {"accuracy": score})["accuracy"]

    def quality(out):
        scores = np.array([score for _, score in out])
        best = [h.columns["validation accuracy"][h.best_epoch] for h, _ in out]
        return {
            "test accuracy": float(scores.mean()),
            "spread over seeds": float(scores.std()),
            "lowest": float(scores.min()),
            "validation": float(np.mean(best)),
        }

    def curves(out):
        columns = out[0][0].columns
        return {name: columns[name] for name in ("loss", "validation accuracy")}

    return Workload(
        run=lambda: [one(seed) for seed in range(seeds)],
        quality=quality,
        curves=curves,
        repeats=0,
    )


def _linear(features, every):
    """Return a workload that fits a linear classifier, which has no seed."""
    import h5py  # pyrefly: ignore [missing-import]
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def table(split):
        events, labels = zip(*_recordings(split, every), strict=True)
        with h5py.File(_file(split)) as file:
            seconds = file["extra/duration"][::every]
        rows = [features(*row) for row in zip(events, 1000 * seconds, strict=True)]
        return np.log1p(rows), np.array(labels)

    train, test = table("train"), table("test")

    def run():
        model = LogisticRegression(C=0.01, max_iter=2000)
        return make_pipeline(StandardScaler(), model).fit(*train).score(*test)

    return Workload(run=run, quality=lambda out: {"test accuracy": float(out)})


@spoken_digits.contender("logistic regression on spike counts", **_NEEDS)
def _(seeds, epochs, hidden, every):
    import numpy as np

    del seeds, epochs, hidden
    return _linear(lambda e, _: np.bincount(e.channels, minlength=140), every)


@spoken_digits.contender("logistic regression on 28 channels in 10 parts", **_NEEDS)
def _(seeds, epochs, hidden, every):
    import numpy as np

    del seeds, epochs, hidden

    def features(events, duration):
        # Parts of the recording, however long: a warp in time that nets do not get.
        part = np.minimum(10 * events.times // duration, 9).astype(int)
        return np.bincount(events.channels // 5 * 10 + part, minlength=280)

    return _linear(features, every)


def _network(make_layer):
    def make(hidden, rngs):
        from flax import nnx
        from spike_core import LeakyIntegrator, SequenceDropout, Sequential

        dt = 1000.0 / STEPS
        return Sequential(
            nnx.Linear(CHANNELS, hidden, rngs=rngs),
            make_layer(hidden, dt, rngs),
            SequenceDropout(hidden, nnx.Dropout(DROPOUT, rngs=rngs)),
            nnx.Linear(hidden, CLASSES, rngs=rngs),
            LeakyIntegrator(CLASSES, tau=TAU_READOUT, dt=dt, trainable=("tau",)),
        )

    return make


def _settings(hidden, dt, rngs):
    """Return what the neurons have in common: time constants around `TAU`."""
    import jax
    import jax.numpy as jnp

    spread = jax.random.uniform(rngs.params(), (hidden,), minval=-0.7, maxval=0.7)
    return {
        "tau": TAU * jnp.exp(spread),
        "dt": dt,
        "input_gain": "unit",
        "trainable": ("tau", "threshold"),
    }


def _feedback(neuron, hidden, rngs):
    from flax import nnx
    from spike_core import Recurrent

    weak = nnx.initializers.variance_scaling(0.25, "fan_in", "truncated_normal")
    return Recurrent(neuron, nnx.Linear(hidden, hidden, kernel_init=weak, rngs=rngs))


@spoken_digits.contender("LIF", **_NEEDS)
def _(seeds, epochs, hidden, every):
    from spike_core import LIF

    def layer(hidden, dt, rngs):
        return LIF(hidden, **_settings(hidden, dt, rngs))

    return _train(_network(layer), seeds, epochs, hidden, every)


@spoken_digits.contender("LIF without reset", **_NEEDS)
def _(seeds, epochs, hidden, every):
    from spike_core import LIF

    def layer(hidden, dt, rngs):
        return LIF(hidden, reset="none", **_settings(hidden, dt, rngs))

    return _train(_network(layer), seeds, epochs, hidden, every)


@spoken_digits.contender("recurrent LIF", **_NEEDS)
def _(seeds, epochs, hidden, every):
    from spike_core import LIF

    def layer(hidden, dt, rngs):
        neuron = LIF(hidden, **_settings(hidden, dt, rngs))
        return _feedback(neuron, hidden, rngs)

    return _train(_network(layer), seeds, epochs, hidden, every)


@spoken_digits.contender("recurrent ALIF", **_NEEDS)
def _(seeds, epochs, hidden, every):
    from spike_core import ALIF

    def layer(hidden, dt, rngs):
        neuron = ALIF(
            hidden, tau_adaptation=200.0, beta=0.3, **_settings(hidden, dt, rngs)
        )
        return _feedback(neuron, hidden, rngs)

    return _train(_network(layer), seeds, epochs, hidden, every)
