"""Binning against exact arithmetic, data on the host, batches, splits."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spike_core.data import (
    Events,
    SpikeData,
    batches,
    bin_events,
    bin_recordings,
    split_by_group,
    train_validation_split,
)

RNG = np.random.default_rng(0)


def exact_steps(seconds, duration_ms, n_steps):
    """Return the step of each float16 time by whole numbers; -1 where it is outside."""
    steps = [
        Fraction(float(t)) * 1000 * n_steps // Fraction(duration_ms) for t in seconds
    ]
    return np.array([k if 0 <= k < n_steps else -1 for k in steps], int)


def occupied(steps, channels, n_steps, n_channels):
    cells = np.zeros((n_steps, n_channels), bool)
    cells[steps, channels] = True
    return cells


@pytest.mark.parametrize("n_steps", [250, 1000, 4000])
def test_float16_times_end_where_exact_arithmetic_puts_them(n_steps):
    rng = np.random.default_rng(n_steps)
    seconds = rng.uniform(0, 1.5, 3000).astype(np.float16)
    channels = rng.integers(0, 700, 3000)
    want = exact_steps(seconds, 1400, n_steps)
    inside = want >= 0
    cells = occupied(want[inside], channels[inside], n_steps, 700)

    events = Events(seconds.astype(np.float64) * 1000, channels)
    counts, outside = bin_events(
        events, duration=1400.0, n_steps=n_steps, n_channels=700
    )
    np.testing.assert_array_equal(counts > 0, cells)
    assert outside == (~inside).sum() > 0
    assert counts.sum() == inside.sum()

    # What a loader gets that stays in float16, with a last step that takes the rest.
    narrow = (seconds / np.float16(1.4) * np.float16(n_steps)).astype(int)
    clipped = np.clip(narrow, 0, n_steps - 1)
    misplaced = cells & ~occupied(clipped, channels, n_steps, 700)
    assert misplaced.sum() > 0.01 * cells.sum()
    assert (clipped == n_steps - 1).sum() > 10 * counts[-1].sum()


@settings(deadline=None, max_examples=60)
@given(
    microseconds=st.lists(st.integers(-10, 2_000_000), max_size=20),
    duration=st.integers(1, 1_500),
    n_steps=st.integers(1, 3_000),
)
def test_whole_microseconds_end_where_exact_arithmetic_puts_them(
    microseconds, duration, n_steps
):
    # Borders of steps, too: the nearest microsecond below, at and above each.
    edges = [k * duration * 1000 // n_steps for k in range(0, n_steps + 1, 37)]
    ticks = np.array([*microseconds, *(e + d for e in edges for d in (-1, 0, 1))])
    steps = ticks * n_steps // (duration * 1000)
    inside = (ticks >= 0) & (steps < n_steps)
    counts, outside = bin_events(
        Events(ticks / 1000, np.zeros(ticks.size, int)),
        duration=float(duration),
        n_steps=n_steps,
        n_channels=1,
    )
    want = np.bincount(steps[inside], minlength=n_steps)
    np.testing.assert_array_equal(counts[:, 0], want)
    assert outside == (~inside).sum()


def test_steps_are_half_open_and_nothing_piles_up():
    events = Events(
        [-1e-9, 0.0, 4.999, 5.0, 9.999, 10.0, 1e30, 5.0, 5.0], [0] * 7 + [1, -1]
    )
    counts, outside = bin_events(events, duration=10.0, n_steps=2, n_channels=1)
    assert counts.tolist() == [[2], [2]] and outside == 5
    counts, outside = bin_events(Events([], []), duration=1.0, n_steps=1, n_channels=1)
    assert counts.tolist() == [[0]] and outside == 0


def test_channels_may_have_axes():
    events = Events(np.array([0, 1, 1], np.int32), np.array([0, 5, 6], np.uint64))
    counts, outside = bin_events(events, duration=2, n_steps=2, n_channels=(3, 2))
    assert counts.shape == (2, 3, 2) and counts.dtype == np.uint8
    assert counts[0, 0, 0] == counts[1, 2, 1] == 1 and outside == 1


GRID = {"duration": 1.0, "n_steps": 1, "n_channels": 1}


@pytest.mark.parametrize(
    ("events", "grid", "error", "message"),
    [
        (Events([np.nan], [0]), {}, ValueError, "`events.times` must be finite"),
        (None, {}, TypeError, "`events` must be a pair"),
        (np.zeros((2, 3)), {}, TypeError, "`events` must be a pair"),
        (Events([1j], [0]), {}, TypeError, "`events.times` must be real"),
        (Events(["a"], [0]), {}, TypeError, "`events.times` must be real"),
        (Events([0.5], [0.0]), {}, TypeError, "`events.channels` must be integers"),
        (Events([0.5], [0, 0]), {}, ValueError, "of the same length"),
        (Events([[0.5]], [[0]]), {}, ValueError, "must be one row"),
        (Events([0.5] * 256, [0] * 256), {}, ValueError, "256 events"),
        (Events([], []), {"duration": 0.0}, ValueError, "`duration`"),
        (Events([], []), {"duration": np.inf}, ValueError, "`duration`"),
        (Events([], []), {"duration": [1.0, 2.0]}, ValueError, "`duration`"),
        (Events([], []), {"duration": "1"}, ValueError, "`duration`"),
        (Events([], []), {"n_steps": 2.0}, ValueError, "`n_steps`"),
        (Events([], []), {"n_channels": 0}, ValueError, "`n_channels`"),
    ],
)
def test_refuses_bad_events(events, grid, error, message):
    with pytest.raises(error, match=message):
        bin_events(events, **{**GRID, **grid})
    if not grid:
        with pytest.raises(error, match=f"recording 1: .*{message}"):
            good = Events([0.5], [0])
            bin_recordings([(good, 0), (events, 0)], **GRID, counts=True)


def random_recordings(n=7, channels=21):
    recordings = []
    for label in range(n):
        size = RNG.integers(1, 40)
        times, units = RNG.uniform(0, 110, size), RNG.integers(0, channels, size)
        recordings.append((Events(times, units), label))
    return recordings


@pytest.mark.parametrize("n_channels", [21, (7, 3)])
def test_bits_and_counts_are_those_of_each_recording(n_channels):
    recordings = random_recordings()
    grid = {"duration": 100.0, "n_steps": 10, "n_channels": n_channels}
    bits = bin_recordings(recordings, **grid)
    counts = bin_recordings(recordings, **grid, counts=True)
    assert bits.values.shape == (7, 10, 3) and bits.dt == 10.0
    for i, (events, label) in enumerate(recordings):
        want, outside = bin_events(events, **grid)
        np.testing.assert_array_equal(counts.dense()[i], want)
        np.testing.assert_array_equal(bits.dense()[i], want > 0)
        assert bits.labels[i] == label and bits.n_outside[i] == outside
        assert bits.n_events[i] == events.times.size
        active = want.reshape(10, -1).any(1)
        assert bits.lengths[i] == max([k + 1 for k in range(10) if active[k]])
    repacked = SpikeData.from_dense(bits.dense(), bits.labels, dt=10.0)
    np.testing.assert_array_equal(repacked.values, bits.values)
    np.testing.assert_array_equal(repacked.lengths, bits.lengths)


def test_tells_what_lies_outside():
    recordings = [(Events([1.0, 2.0, 3.0], [0, 0, 9]), 0), (Events([0.5], [0]), 1)]
    with pytest.warns(UserWarning, match=r"3 of 4; `duration` is in milliseconds"):
        data = bin_recordings(recordings, **GRID)
    assert data.n_outside.tolist() == [3, 0]
    assert "3 of 4 events outside" in repr(data)
    assert data.lengths.tolist() == [1, 1]  # silent, yet readouts need a step
    with pytest.raises(ValueError, match="at least one, got none"):
        bin_recordings([], **GRID)
    with pytest.raises(TypeError, match="`labels` must be integers"):
        bin_recordings([(Events([0.5], [0]), 0.5)], **GRID)
    with pytest.raises(TypeError, match="`recordings` must have a length"):
        bin_recordings(iter(recordings), **GRID)
    with pytest.raises(TypeError, match="recording 1: cannot unpack"):
        bin_recordings([recordings[0], 7], **GRID)


def test_selects_samples():
    data = bin_recordings(
        random_recordings(), duration=110.0, n_steps=11, n_channels=21
    )
    for index in (slice(1, 5, 2), [3, 1], np.arange(7) > 4, []):
        part = data[index]
        rows = np.arange(7)[index]
        np.testing.assert_array_equal(part.labels, rows)
        np.testing.assert_array_equal(part.dense(), data.dense()[rows])
        assert len(part) == len(part.lengths) == len(part.n_outside) == rows.size
    with pytest.raises(TypeError, match=r"data\[i : i \+ 1\]"):
        data[3]
    with pytest.raises(TypeError, match="a row of integers"):
        data[[[0, 1]]]


@pytest.mark.parametrize(
    ("spikes", "labels", "error", "message"),
    [
        (np.full((1, 2, 3), 2), [0], ValueError, "zeros and ones"),
        (np.full((1, 2, 3), np.nan), [0], ValueError, "zeros and ones"),
        (np.zeros((1, 2)), [0], ValueError, "samples, steps and channels"),
        (np.zeros((0, 2, 3)), [], ValueError, "at least one of each"),
        (np.zeros((1, 2, 3)), [0.0], TypeError, "`labels` must be integers"),
        (np.zeros((1, 2, 3)), [0, 1], ValueError, "one row of 1"),
    ],
)
def test_refuses_bad_arrays(spikes, labels, error, message):
    with pytest.raises(error, match=message):
        SpikeData.from_dense(spikes, labels)


def numbered(n=11, counts=False):
    """Return samples whose label says which they are."""
    spikes = np.random.default_rng(1).integers(0, 2, (n, 6, 5, 2))
    data = SpikeData.from_dense(spikes[..., ::-1], np.arange(n))
    if not counts:
        return data
    recordings = [
        (Events(np.repeat(k, c + 1), np.repeat(c, c + 1)), i)
        for i, (k, c) in enumerate(
            zip(np.arange(n) % 6, np.arange(n) % 10, strict=True)
        )
    ]
    return bin_recordings(
        recordings, duration=6.0, n_steps=6, n_channels=(5, 2), counts=True
    )


@pytest.mark.parametrize("counts", [False, True])
def test_batches_are_the_samples_time_first(counts):
    data = numbered(counts=counts)
    seen = []
    for xs, labels, lengths in batches(data, 4, seed=3):
        assert isinstance(xs, jax.Array) and xs.dtype == jnp.float32
        np.testing.assert_array_equal(
            xs, np.swapaxes(data.dense()[np.asarray(labels)], 0, 1)
        )
        np.testing.assert_array_equal(lengths, data.lengths[np.asarray(labels)])
        seen += labels.tolist()
    assert sorted(seen) == list(range(11)) and seen != list(range(11))


def order(**settings):
    return [b.labels.tolist() for b in batches(numbered(), 3, **settings)]


def test_order_is_that_of_seed_and_epoch_and_can_be_resumed():
    assert order() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    assert order(drop_last=True) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    whole = order(seed=1, epoch=2)
    assert whole == order(seed=1, epoch=2)
    assert whole != order(seed=1, epoch=3) and whole != order(seed=2, epoch=2)
    for k in range(6):
        assert order(seed=1, epoch=2, start=k) == whole[k:]


def test_one_batch_is_under_way_and_no_more(monkeypatch):
    sent, send = [], jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda x: sent.append(1) or send(x))
    iterator = batches(numbered(), 3)
    assert len(sent) == 0
    for k in range(4):
        next(iterator)
        assert len(sent) == min(k + 2, 4)


def test_batches_of_any_dtype_and_size():
    (batch,) = batches(numbered(), 100, dtype=jnp.bfloat16)
    assert batch.xs.shape == (6, 11, 5, 2) and batch.xs.dtype == jnp.bfloat16
    assert list(batches(numbered(), 100, drop_last=True)) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "`batch_size`"),
        ({"batch_size": 2, "seed": -1}, ValueError, "`seed`"),
        ({"batch_size": 2, "epoch": 0.5}, ValueError, "`epoch`"),
        ({"batch_size": 2, "start": -1}, ValueError, "`start`"),
        ({"batch_size": 2, "data": np.zeros((2, 2, 2))}, TypeError, "`data`"),
    ],
)
def test_refuses_bad_batches_at_the_call(arguments, error, message):
    with pytest.raises(error, match=message):
        batches(**{"data": numbered(), **arguments})


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_holds_out_a_fraction_of_each_class(sizes, fraction, seed):
    labels = np.random.default_rng(seed).permutation(
        np.repeat(np.arange(len(sizes)) * 3, sizes)
    )
    train, validation = train_validation_split(labels, fraction=fraction, seed=seed)
    both = np.concatenate([train, validation])
    np.testing.assert_array_equal(np.sort(both), np.arange(labels.size))
    for label, size in zip(np.unique(labels), sizes, strict=True):
        held_out = (labels[validation] == label).sum()
        assert held_out == np.clip(round(fraction * size), 1, size - 1)
    again = train_validation_split(labels, fraction=fraction, seed=seed)
    np.testing.assert_array_equal(again[1], validation)


def test_the_held_out_samples_change_with_the_seed():
    labels = np.zeros(1000, int)
    first, second = (train_validation_split(labels, seed=s)[1] for s in (0, 1))
    assert first.size == second.size == 100 and (first != second).any()


def test_holds_out_whole_groups():
    groups = RNG.integers(0, 5, 50)
    train, test = split_by_group(groups, [1, 4])
    assert set(groups[test]) == {1, 4} and set(groups[train]) == {0, 2, 3}
    assert train.size + test.size == 50


def halved(**settings):
    train_validation_split([0, 0], **{"seed": 0, **settings})


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        (lambda: train_validation_split([0.0, 1.0], seed=0), TypeError, "`labels`"),
        (lambda: train_validation_split([], seed=0), ValueError, "at least one long"),
        (lambda: train_validation_split(None, seed=0), ValueError, "`labels` must be"),
        (lambda: halved(fraction=[0.1, 0.2]), ValueError, "must be a number"),
        (lambda: train_validation_split([[0, 0]], seed=0), ValueError, "one row"),
        (lambda: train_validation_split([0, 0, 1], seed=0), ValueError, "class 1"),
        (
            lambda: train_validation_split([0, 0], fraction=1.0, seed=0),
            ValueError,
            "1.0",
        ),
        (lambda: train_validation_split([0, 0], fraction=0, seed=0), ValueError, "`fr"),
        (lambda: split_by_group([0, 1], 2), ValueError, r"among \[0, 1\], got \[2\]"),
        (lambda: split_by_group([0, 1], [0, 1]), ValueError, "all of them"),
        (lambda: split_by_group([0, 1], []), ValueError, "`held_out` must be one row"),
        (lambda: split_by_group([0, 1], 1.0), TypeError, "`held_out` must be integers"),
    ],
)
def test_refuses_bad_splits(split, error, message):
    with pytest.raises(error, match=message):
        split()
