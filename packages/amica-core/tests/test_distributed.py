"""Fits whose samples are spread over processes."""

import socket
import subprocess
import sys

import amica_core as ac
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

_SCRIPT = """
import datetime, os, sys
import numpy as np
import torch.distributed as distributed
import amica_core as ac

rank, port, folder, dies = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
distributed.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
    timeout=datetime.timedelta(seconds=60),
)
group = ac.TorchGroup()
X = np.load(f"{folder}/X.npy")
mine = X[:400] if rank == 0 else X[400:]
if dies == "dies" and rank == 1:
    from amica_core import _em
    iterate = _em._iterate
    def dying(state, *args):
        if state.iteration == 6:
            os._exit(1)
        iterate(state, *args)
    _em._iterate = dying
result = ac.fit(
    mine, n_models=2, max_iter=20, newton=ac.Newton(8), fixed=("mu",),
    rejection=ac.Rejection(start=5), random_state=rank, group=group,
    checkpoint=f"{folder}/state.npz",
)
ac.save_result(result, f"{folder}/{rank}.npz")
"""


def _run(folder, dies="lives"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(port), str(folder), dies]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(rank), *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    errors = [process.communicate(timeout=240)[1] for process in processes]
    return [process.returncode for process in processes], errors


@pytest.fixture
def X(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(1000, 3)) @ rng.normal(size=(3, 3))
    X[::40] *= 4
    np.save(tmp_path / "X.npy", X)
    return X


def test_two_processes_equal_one(tmp_path, X):
    codes, errors = _run(tmp_path)
    assert codes == [0, 0], errors
    # Process 0 draws the first values for all.
    alone = ac.fit(
        X,
        n_models=2,
        max_iter=20,
        newton=ac.Newton(8),
        fixed=("mu",),
        rejection=ac.Rejection(start=5),
        random_state=0,
    )
    parts = [ac.load_result(tmp_path / f"{rank}.npz") for rank in (0, 1)]
    for part in parts:
        for seen, wanted in zip(part.model, alone.model, strict=True):
            np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            part.history.log_likelihood, alone.history.log_likelihood, atol=1e-9
        )
    for seen, wanted in zip(parts[0].model, parts[1].model, strict=True):
        np.testing.assert_array_equal(seen, wanted)
    kept = np.concatenate([part.kept for part in parts])
    np.testing.assert_array_equal(kept, alone.kept)
    assert not kept.all()
    assert {"state.npz", "state.npz.1"} <= {p.name for p in tmp_path.iterdir()}


def test_a_process_that_dies_ends_the_fit(tmp_path, X):
    codes, errors = _run(tmp_path, "dies")
    assert codes == [1, 1]
    assert "process 0 of 2 has lost the others" in errors[0]


def test_a_group_must_have_been_made():
    with pytest.raises(RuntimeError, match="init_process_group"):
        ac.TorchGroup()
