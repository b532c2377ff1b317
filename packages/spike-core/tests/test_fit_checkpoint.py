"""Trainings that are stopped and go on, to the same numbers."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from flax import nnx
from spike_core import (
    LIF,
    LeakyIntegrator,
    Scan,
    SequenceDropout,
    Sequential,
    cross_entropy,
    fit,
    time_mean,
)

pytest.importorskip("orbax.checkpoint", reason="needs orbax")
ADAM = optax.adam(0.05)


def loss(ys, labels):
    return cross_entropy(time_mean(ys), labels)


def batches(epoch):
    rng = np.random.default_rng([7, epoch])
    for _ in range(3):
        labels = rng.integers(0, 2, 8)
        rates = np.where(labels[:, None] == [0, 0, 1, 1], 0.6, 0.2)
        yield (rng.random((10, 8, 4)) < rates).astype(np.float32), labels


def network(hidden=8):
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(4, hidden, rngs=rngs),
        nnx.BatchNorm(hidden, rngs=rngs),
        LIF(hidden, tau=5.0, input_gain="unit", trainable=("tau",)),
        SequenceDropout(hidden, nnx.Dropout(0.3, rngs=rngs)),
        nnx.Linear(hidden, 2, rngs=rngs),
        LeakyIntegrator(2),
    )
    return net, nnx.Optimizer(net, ADAM, wrt=nnx.Param)


def train(folder, epochs, hidden=8, data=batches):
    net, optimizer = network(hidden)
    history = fit(
        net,
        data,
        optimizer,
        loss=loss,
        epochs=epochs,
        validation=lambda epoch: batches(1000),
        checkpoint=folder,
        progress=False,
        # One arithmetic, whether there are compiled kernels or not.
        strategy=Scan(),
    )
    return history, nnx.state(net), nnx.state(optimizer)


def same(got, want):
    """Bit for bit, random numbers included."""
    assert got[0] == want[0]
    for mine, its in zip(
        jax.tree.leaves(got[1:]), jax.tree.leaves(want[1:]), strict=True
    ):
        if jax.dtypes.issubdtype(mine.dtype, jax.dtypes.prng_key):
            mine, its = jax.random.key_data(mine), jax.random.key_data(its)
        assert mine.dtype == its.dtype
        np.testing.assert_array_equal(mine, its)


@pytest.fixture(scope="module")
def uninterrupted():
    return train(None, 6)


def test_goes_on_where_it_ended(tmp_path, uninterrupted):
    assert train(tmp_path, 2)[0].n_epochs == 2
    same(train(tmp_path, 6), uninterrupted)
    same(train(tmp_path, 6), uninterrupted)  # nothing left to do


def test_stopped_inside_an_epoch(tmp_path, uninterrupted):
    def breaks(epoch):
        for step, batch in enumerate(batches(epoch)):
            if (epoch, step) == (3, 2):
                raise RuntimeError("out of luck")
            yield batch

    with pytest.raises(RuntimeError, match="out of luck"):
        train(tmp_path, 6, data=breaks)
    # As if killed while writing: what is not complete does not count.
    (folder,) = (path for path in tmp_path.iterdir() if path.name == "3")
    shutil.copytree(folder, tmp_path / "4.orbax-checkpoint-tmp-1")
    same(train(tmp_path, 6), uninterrupted)


SLOWLY = """
import sys, time
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
sys.path.insert(0, sys.argv[1])
import test_fit_checkpoint as here
def slowly(epoch):
    for batch in here.batches(epoch):
        time.sleep(0.05)
        yield batch
here.train(sys.argv[2], 10**6, data=slowly)
"""


def test_killed(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    here = str(Path(__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, here, str(folder)])
    try:
        while not any(folder.glob("[1-4]")):
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    same(train(folder, 6), uninterrupted)


def test_refuses_what_is_not_its_own(tmp_path):
    train(tmp_path, 2)
    with pytest.raises(
        ValueError,
        match=r"another network or optimizer: best.layers.0.bias.value is "
        r"float32\[8\] there and float32\[9\] here; give another folder",
    ):
        train(tmp_path, 3, hidden=9)
    with pytest.raises(ValueError, match="`epochs` must be at least the 2 that"):
        train(tmp_path, 1)


def test_without_orbax_one_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(ImportError, match=r"pip install \"spike-core\[train\]\""):
        train(tmp_path, 1)
