"""Handwritten digits turned to spikes and classified by trained spiking networks."""

from typing import Any

from bench_harness import Case, Workload

EPOCHS = 10
STEPS = 20
BATCH = 128

digits = Case(
    name="digits",
    claim="A spiking network learns handwritten digits from spikes; a linear "
    "classifier on spike counts is the floor to compare with.",
    baseline="logistic regression on spike counts",
    quality="test accuracy",
    better="higher",
    profiles={
        "smoke": [{"hidden": 128}],
        "laptop": [{"hidden": 128}, {"hidden": 512}],
        "gpu": [{"hidden": 512}],
    },
)


def spikes_and_labels():
    """Training, validation and test set: spikes ``[T, samples, 64]`` and labels.

    A pixel's ink is the probability that it fires in a step. Of the samples 20 % are
    for testing and 10 % of the others for choosing the epoch.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from spike_core import encode_rate

    dataset: Any = load_digits()
    labels = np.asarray(dataset["target"])
    rates = jnp.asarray(dataset["data"] / 16, jnp.float32)
    spikes = np.asarray(encode_rate(rates, STEPS, key=jax.random.key(0)))
    rest, test = train_test_split(
        np.arange(labels.size), test_size=0.2, random_state=0, stratify=labels
    )
    train, validation = train_test_split(
        rest, test_size=0.1, random_state=0, stratify=labels[rest]
    )
    return [(spikes[:, part], labels[part]) for part in (train, validation, test)]


def train(make_network):
    """Return a workload that trains the network and tests it once."""
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from spike_core import accuracy, cross_entropy, time_sum, train_step, unroll

    (xs, labels), validation, test = spikes_and_labels()

    def loss(ys, labels):
        return cross_entropy(time_sum(ys), labels)

    @nnx.jit
    def score(net, xs, labels):
        return accuracy(time_sum(unroll(net, xs)[1]), labels)

    def run():
        net = make_network(nnx.Rngs(0))
        optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)
        rng = np.random.default_rng(0)
        losses, accuracies, best = [], [], None
        for _ in range(EPOCHS):
            # The few samples left over by whole batches are others in each epoch.
            order = rng.permutation(labels.size)[: labels.size // BATCH * BATCH]
            batches = order.reshape(-1, BATCH)
            values = [
                train_step(net, optimizer, xs[:, batch], labels[batch], loss=loss)
                for batch in batches
            ]
            losses.append(float(np.mean(values)))
            accuracies.append(float(score(net, *validation)))
            if accuracies[-1] == max(accuracies):
                best = jax.tree.map(lambda leaf: leaf, nnx.state(net))
        nnx.update(net, best)
        return float(score(net, *test)), accuracies, losses

    return Workload(
        run=run,
        quality=lambda out: {"test accuracy": out[0], "validation": max(out[1])},
        curves=lambda out: {"validation accuracy": out[1], "training loss": out[2]},
        repeats=1,
    )


@digits.contender(
    "logistic regression on spike counts",
    requires=("sklearn", "jax", "spike_core"),
    install="pip install spike-core scikit-learn",
)
def _(hidden):
    from sklearn.linear_model import LogisticRegression

    del hidden  # there are none
    (xs, labels), _, (test_xs, test_labels) = spikes_and_labels()

    def run():
        model = LogisticRegression(max_iter=2000).fit(xs.mean(0), labels)
        return model.score(test_xs.mean(0), test_labels)

    return Workload(run=run, quality=lambda out: {"test accuracy": float(out)})


@digits.contender(
    "LIF", requires=("jax", "spike_core", "sklearn"), install="pip install spike-core"
)
def _(hidden):
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential

    def network(rngs):
        return Sequential(
            nnx.Linear(64, hidden, rngs=rngs),
            LIF(hidden, tau=5.0, input_gain="unit", trainable=("tau", "threshold")),
            nnx.Linear(hidden, 10, rngs=rngs),
            LeakyIntegrator(10),
        )

    return train(network)


@digits.contender(
    "LIF without reset",
    requires=("jax", "spike_core", "sklearn"),
    install="pip install spike-core",
)
def _(hidden):
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential

    def network(rngs):
        return Sequential(
            nnx.Linear(64, hidden, rngs=rngs),
            LIF(
                hidden,
                tau=5.0,
                input_gain="unit",
                reset="none",
                trainable=("tau", "threshold"),
            ),
            nnx.Linear(hidden, 10, rngs=rngs),
            LeakyIntegrator(10),
        )

    return train(network)
