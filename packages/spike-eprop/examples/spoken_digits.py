"""Tell spoken digits apart by the spikes of a cochlea, speakers never heard included.

Any data set in the format of the Spiking Heidelberg Digits will do: a folder with two
HDF5 files, `train.h5` and `test.h5` (after a `--prefix`, if they have one), each with
`spikes/times` in seconds, `spikes/units` and `labels`. Needs h5py.

    python spoken_digits.py FOLDER --channels 140 --classes 10
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from spike_core import ALIF, LeakyIntegrator, Recurrent, Sequential, unroll
from spike_eprop import eprop, value_and_grad

loss = optax.softmax_cross_entropy_with_integer_labels


def load(path, channels, steps):
    """Bin the spikes of one second: ``[examples, steps, channels]``, and the labels."""
    import h5py  # pyrefly: ignore [missing-import]

    with h5py.File(path) as file:
        labels = file["labels"][:].astype(int)
        spikes = np.zeros((len(labels), steps, channels), bool)
        for row, times, units in zip(
            spikes, file["spikes/times"], file["spikes/units"], strict=True
        ):
            # In float64: the file's float16 would move spikes to other bins.
            bins = np.floor(times.astype("float64") * steps).astype(int)
            inside = bins < steps
            row[bins[inside], units[inside]] = True
    return spikes, labels


def batch_of(spikes, labels, rows):
    """Return a batch in the order of time, its labels and the weight of each step."""
    steps = spikes.shape[1]
    targets = np.broadcast_to(labels[rows], (steps, len(rows)))
    return spikes[rows].swapaxes(0, 1), targets, np.ones(targets.shape)


def make_network(channels, hidden, classes):
    """Return a recurrent layer of adaptive neurons under a leaky readout."""
    rngs = nnx.Rngs(1)
    neuron = ALIF(hidden, threshold=0.05, tau_adaptation=100.0, beta=0.05)
    within = nnx.Linear(hidden, hidden, use_bias=False, rngs=rngs)
    return Sequential(
        nnx.Linear(channels, hidden, rngs=rngs),
        Recurrent(neuron, within),
        nnx.Linear(hidden, classes, rngs=rngs),
        LeakyIntegrator(classes),
    )


def score(ys, targets, mask):
    """Return how often the weighted vote of the steps is the label."""
    votes = (mask[..., None] * jax.nn.log_softmax(ys)).sum(0).argmax(-1)
    return {"accuracy": float((votes == targets[0]).mean())}


def main(arguments=None):
    """Learn, and return the score on the test file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prefix", default="", help="of the files, where many are")
    parser.add_argument("--channels", type=int, default=140)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=64)
    settings = parser.parse_args(arguments)
    (train, labels), test = (
        load(
            settings.folder / f"{settings.prefix}{split}.h5",
            settings.channels,
            settings.steps,
        )
        for split in ("train", "test")
    )
    net = make_network(settings.channels, settings.hidden, settings.classes)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))
    optimizer = nnx.Optimizer(net, clipped, wrt=nnx.Param)

    @nnx.jit
    def learn(net, optimizer, spikes, targets, mask):
        value, gradients = value_and_grad(
            net, spikes, targets, loss, rule=eprop(), mask=mask
        )
        optimizer.update(net, gradients)
        return value

    for iteration in range(settings.iterations):
        rows = np.random.default_rng(iteration).integers(0, len(labels), settings.batch)
        batch = batch_of(train, labels, rows)
        value = learn(net, optimizer, *map(jnp.asarray, batch))
        if iteration % 20 == 0:
            print(f"{iteration:5d} loss {float(value):.3f}", flush=True)
    spikes, targets, mask = map(jnp.asarray, batch_of(*test, np.arange(len(test[1]))))
    _, ys = unroll(net, spikes.astype(jnp.float32))
    found = score(ys, targets, mask.astype(ys.dtype))
    print(found)
    return found


if __name__ == "__main__":
    main()
