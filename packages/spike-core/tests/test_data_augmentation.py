"""Augmentation: what moves, what goes, and what must not come back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from spike_core.data import Batch, drop_spikes, shift_time

T, B, LENGTH = 12, 400, 6
XS = np.random.default_rng(0).integers(0, 3, (T, B, 2, 1)).astype(np.float32)
BATCH = Batch(
    jnp.asarray(XS), jnp.arange(B, dtype=jnp.int32), jnp.full(B, LENGTH, jnp.int32)
)


shift = jax.jit(shift_time, static_argnums=1)
drop = jax.jit(drop_spikes)


def moved(x, shift):
    """Return `x` later by `shift`, by plain slices."""
    out = np.zeros_like(x)
    if shift >= 0:
        out[shift:] = x[: T - shift]
    else:
        out[:shift] = x[-shift:]
    return out


@pytest.mark.parametrize("max_steps", [5, 20])
def test_shifts_fill_with_silence(max_steps):
    got = shift(BATCH, max_steps, key=jax.random.key(1))
    xs, lengths = np.asarray(got.xs), np.asarray(got.lengths)
    shifts = range(-max_steps, max_steps + 1)
    seen = set()
    for i in range(0, B, 8):
        found = [
            s
            for s in shifts
            if (xs[:, i] == moved(XS[:, i], np.clip(s, -T, T))).all()
            and lengths[i] == np.clip(LENGTH + s, 1, T)
        ]
        assert found  # several if nothing is left of the sample
        seen.add(found[0])
    assert min(seen) < 0 < max(seen) and len(seen) > 4
    np.testing.assert_array_equal(got.labels, BATCH.labels)
    assert got.xs.dtype == jnp.float32 and got.lengths.dtype == jnp.int32


def test_shifts_are_equally_likely():
    lengths = np.asarray(shift(BATCH, 5, key=jax.random.key(2)).lengths)
    counts = np.bincount(lengths - (LENGTH - 5), minlength=11)
    assert counts.size == 11 and counts.sum() == B
    assert np.abs(counts - B / 11).max() < 5 * np.sqrt(B / 11)


def test_drops_each_spike_with_the_probability():
    got = drop(BATCH, 0.3, key=jax.random.key(3))
    xs, before = np.asarray(got.xs), XS > 0
    assert ((xs == XS) | (xs == 0)).all()
    n, kept = before.sum(), (xs > 0).sum()
    assert abs(kept - 0.7 * n) < 5 * np.sqrt(0.21 * n)
    np.testing.assert_array_equal(got.lengths, BATCH.lengths)
    for probability, want in ((0.0, XS), (1.0, 0 * XS)):
        got = drop(BATCH, probability, key=jax.random.key(3))
        np.testing.assert_array_equal(got.xs, want)


def test_the_key_says_what_happens():
    def xs(change, amount, seed):
        return np.asarray(change(BATCH, amount, key=jax.random.key(seed)).xs)

    for change, amount in ((shift, 5), (drop, 0.3)):
        np.testing.assert_array_equal(xs(change, amount, 4), xs(change, amount, 4))
        assert (xs(change, amount, 4) != xs(change, amount, 5)).any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda key: shift_time(BATCH, -1, key=key), ValueError, "`max_steps`"),
        (lambda key: shift_time(BATCH, 1.5, key=key), ValueError, "`max_steps`"),
        (lambda key: shift_time(BATCH.xs, 1, key=key), TypeError, "`batch`"),
        (lambda key: drop_spikes(BATCH, 1.1, key=key), ValueError, "`probability`"),
        (lambda key: drop_spikes(BATCH, np.nan, key=key), ValueError, "`probability`"),
        (lambda key: drop_spikes(BATCH.xs, 0.1, key=key), TypeError, "`batch`"),
    ],
)
def test_refuses_bad_input(change, error, message):
    with pytest.raises(error, match=message):
        change(jax.random.key(0))
