"""Long runs: checkpoints, Ctrl-C, memory, memory maps, progress."""

import io
import os
import signal
import subprocess
import sys
import threading

import amica_core as ac
import numpy as np
import pytest
from amica_core import _em

ARGUMENTS = {
    "n_models": 2,
    "newton": ac.Newton(8),
    "rejection": ac.Rejection(start=5, interval=7),
    "random_state": 0,
}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(600, 3)) @ rng.normal(size=(3, 3))


def assert_same(a: ac.Result, b: ac.Result):
    for x, y in zip(a.history, b.history, strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(a.model, b.model, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(a.kept, b.kept)
    assert a.stop_reason == b.stop_reason


def test_the_same_seed_gives_the_same_fit(X):
    first = ac.fit(X, max_iter=25, **ARGUMENTS)
    assert_same(ac.fit(X, max_iter=25, **ARGUMENTS), first)
    other = ac.fit(X, max_iter=25, **(ARGUMENTS | {"random_state": 1}))
    assert np.any(other.model.A != first.model.A)


@pytest.mark.parametrize("compatibility", [None, "fortran"])
def test_a_killed_fit_goes_on_to_the_same_numbers(
    X, tmp_path, monkeypatch, compatibility
):
    arguments = ARGUMENTS | {"compatibility": compatibility, "max_iter": 30}
    whole = ac.fit(X, **arguments)
    path = tmp_path / "state.npz"
    iterate, calls = _em._iterate, []

    def killed(*args):
        calls.append(1)
        if len(calls) == 18:
            raise MemoryError("killed")
        iterate(*args)

    monkeypatch.setattr(_em, "_iterate", killed)
    with pytest.raises(MemoryError):
        ac.fit(X, **arguments, checkpoint=path, checkpoint_interval=5)
    monkeypatch.undo()
    resumed = ac.fit(X, **arguments, checkpoint=path, checkpoint_interval=5)
    assert_same(resumed, whole)
    # Once it has ended there is nothing left to do.
    assert_same(ac.fit(X, **arguments, checkpoint=path), whole)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


@pytest.mark.parametrize("compatibility", [None, "fortran"])
def test_more_iterations_later(X, tmp_path, compatibility):
    arguments = ARGUMENTS | {"compatibility": compatibility}
    path = tmp_path / "state.npz"
    ac.fit(X, max_iter=12, **arguments, checkpoint=path)
    resumed = ac.fit(X, max_iter=30, **arguments, checkpoint=path)
    assert_same(resumed, ac.fit(X, max_iter=30, **arguments))


def test_checkpoints_of_another_fit(X, tmp_path):
    path = tmp_path / "state.npz"
    ac.fit(X, max_iter=3, **ARGUMENTS, checkpoint=path)
    with pytest.raises(ValueError, match="other samples"):
        ac.fit(2 * X, max_iter=3, **ARGUMENTS, checkpoint=path)
    with pytest.raises(ValueError, match="written with `newton`"):
        ac.fit(X, max_iter=3, **(ARGUMENTS | {"newton": False}), checkpoint=path)
    with pytest.raises(ValueError, match="random_state"):
        ac.fit(X, max_iter=3, **(ARGUMENTS | {"random_state": 5}), checkpoint=path)
    with pytest.raises(FileNotFoundError, match="`checkpoint`"):
        ac.fit(X, max_iter=3, checkpoint=tmp_path / "no" / "state.npz")
    with pytest.raises(ValueError, match="`checkpoint_interval`"):
        ac.fit(X, max_iter=3, checkpoint=tmp_path / "new.npz", checkpoint_interval=0)


def test_interrupt_keeps_the_best_model_and_the_checkpoint(X, tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    iterate = _em._iterate

    def with_interrupt(state, *args):
        if state.iteration == 9:
            signal.raise_signal(signal.SIGINT)
        iterate(state, *args)

    monkeypatch.setattr(_em, "_iterate", with_interrupt)
    before = signal.getsignal(signal.SIGINT)
    result = ac.fit(X, max_iter=30, **ARGUMENTS, checkpoint=path)
    assert signal.getsignal(signal.SIGINT) is before
    assert result.stop_reason == "interrupted"
    assert result.n_iter == 10
    joint = result.joint_log_likelihood(X)[result.kept]
    total = np.logaddexp.reduce(joint, axis=1).mean() / 3
    assert total == pytest.approx(result.log_likelihood, abs=1e-10)
    monkeypatch.undo()
    resumed = ac.fit(X, max_iter=30, **ARGUMENTS, checkpoint=path)
    assert_same(resumed, ac.fit(X, max_iter=30, **ARGUMENTS))


def test_a_second_interrupt_does_not_wait(X, monkeypatch):
    iterate = _em._iterate

    def with_interrupts(state, *args):
        if state.iteration == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        iterate(state, *args)

    monkeypatch.setattr(_em, "_iterate", with_interrupts)
    result = ac.fit(X, max_iter=30, **ARGUMENTS)
    assert result.stop_reason == "interrupted"
    assert result.n_iter == 5


def test_fits_outside_the_main_thread(X):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(ac.fit(X, max_iter=3, random_state=0))
    )
    thread.start()
    thread.join()
    assert results[0].n_iter == 3


def test_memory_map_equals_memory(X, tmp_path):
    np.save(tmp_path / "data.npy", X)
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r")
    assert_same(
        ac.fit(mapped, max_iter=5, random_state=0),
        ac.fit(X, max_iter=5, random_state=0),
    )


_MEMORY = """
import resource, sys
import numpy as np
import amica_core as ac
noise = np.random.default_rng(0).normal(size=(2000, 64))
ac.fit(noise, max_iter=2, newton=ac.Newton(2), backend=sys.argv[2])
rows = np.load(sys.argv[1], mmap_mode="r")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
ac.fit(rows, max_iter=2, newton=ac.Newton(2), backend=sys.argv[2])
print(peak() - before, rows.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units")
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_memory_is_bounded_by_the_data(tmp_path, backend):
    pytest.importorskip(backend)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "data.npy", rng.normal(size=(100_000, 64)).astype(np.float32))
    shown = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(tmp_path / "data.npy"), backend],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    grown, size = map(int, shown.stdout.split())
    # The pages of the map itself count, and a block's working memory.
    assert grown < 1.5 * size


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress_line(X, stream, monkeypatch):
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    ac.fit(X, max_iter=5, random_state=0, verbose=True)
    text = shown.getvalue()
    assert ("\r" in text) == shown.isatty()
    for part in ("5/5", "LL ", "change ", "gradient ", "ended at `max_iter` after 5"):
        assert part in text
