"""The example scripts, at a size that shows that they run."""

import importlib.util
import pathlib

import jax
import numpy as np
import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
DIGITS = PACKAGE.parents[2] / "shared" / "data" / "spoken_digits"
TINY = ["--iterations", "2", "--hidden", "4", "--steps", "15"]


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    """Turn off what the other tests are strict about."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def load(name):
    path = PACKAGE / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pattern_generation():
    found = load("pattern_generation").main(TINY)
    assert 0 < found["normalised error"] < 10


def test_cued_decisions():
    example = load("cued_decisions")
    assert 0 <= example.main(["match", *TINY, "--batch", "2"])["accuracy"] <= 1
    for draw_batch, _ in example.TASKS.values():
        spikes, answers, mask = draw_batch(np.random.default_rng(0), 500, 60)
        assert spikes.shape == (60, 500, 40) and spikes.dtype == bool
        # Either answer is as likely, and asked for at the end alone.
        assert 0.4 < answers[0].mean() < 0.6
        assert mask[-1].all() and not mask[:40].any()


def test_spoken_digits():
    pytest.importorskip("h5py")
    if not DIGITS.exists():
        pytest.skip("the spoken digits are not beside the checkout")
    example = load("spoken_digits")
    spikes, labels = example.load(DIGITS / "fsdd_spikes_140ch_test.h5", 140, 20)
    assert spikes.shape == (len(labels), 20, 140) and spikes.any((1, 2)).all()
    batch, targets, _ = example.batch_of(spikes, labels, np.arange(3))
    assert batch.shape == (20, 3, 140) and (targets == labels[:3]).all()
    found = example.main(
        [str(DIGITS), "--prefix", "fsdd_spikes_140ch_", *TINY, "--batch", "2"]
    )
    assert 0 <= found["accuracy"] <= 1
