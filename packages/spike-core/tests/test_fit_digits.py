"""Training on real recordings: spoken digits, from the spikes of a model cochlea."""

from pathlib import Path

import numpy as np
import optax
import pytest
from flax import nnx
from spike_core import (
    LIF,
    LeakyIntegrator,
    Sequential,
    accuracy,
    cross_entropy,
    evaluate,
    fit,
    time_mean,
)
from spike_core.data import (
    Events,
    HDF5Recordings,
    batches,
    bin_recordings,
    train_validation_split,
)

pytest.importorskip("h5py", reason="needs h5py")
FILE = (
    Path(__file__).resolve().parents[4]
    / "shared/data/spoken_digits/fsdd_spikes_140ch_test.h5"
)


@pytest.mark.skipif(not FILE.exists(), reason=f"needs {FILE.name} in shared/data")
def test_learns_spoken_digits():
    every_second = list(HDF5Recordings(FILE))[::2]
    coarse = [(Events(e.times, e.channels // 4), label) for e, label in every_second]
    data = bin_recordings(
        coarse,
        duration=800.0,
        n_steps=20,
        n_channels=35,
        counts=True,
        progress=False,
    )
    rest, test = train_validation_split(data.labels, fraction=0.2, seed=0)
    chosen, validation = train_validation_split(data.labels[rest], seed=0)
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(35, 64, rngs=rngs),
        LIF(64, tau=40.0, dt=40.0, input_gain="unit"),
        nnx.Linear(64, 10, rngs=rngs),
        LeakyIntegrator(10, tau=100.0, dt=40.0),
    )

    def loss(ys, labels, lengths):
        return cross_entropy(5 * time_mean(ys, lengths), labels)

    def score(ys, labels, lengths):
        return accuracy(time_mean(ys, lengths), labels)

    train, held_out = data[rest][chosen], list(batches(data[rest][validation], 64))
    history = fit(
        net,
        lambda epoch: batches(train, 60, seed=0, epoch=epoch, drop_last=True),
        nnx.Optimizer(net, optax.adam(0.01), wrt=nnx.Param),
        loss=loss,
        epochs=8,
        validation=held_out,
        metrics={"accuracy": score},
        monitor="accuracy",
        progress=False,
    )
    assert history.columns["loss"][-1] < 0.8 * np.log(10)
    # 100 samples: chance is 10 %, and four standard errors of it are 12 %.
    unheard = evaluate(net, batches(data[test], 100), {"accuracy": score})
    assert unheard["accuracy"] > 0.4
