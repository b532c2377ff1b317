"""The memory that a fit is said to take, and what it takes."""

import subprocess
import sys

import amica_core as ac
import numpy as np
import pytest

_SCRIPT = """
import sys
import numpy as np
import amica_core as ac
path, solver, backend, dtype = sys.argv[1:]
arguments = dict(n_models=2, max_iter=2, newton=True, solver=solver, backend=backend)
if backend == "native":
    arguments["backend_options"] = {"dtype": dtype, "n_jobs": 1}
ac.fit(np.random.default_rng(0).normal(size=(500, 16)), **arguments)
def anonymous(name):
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith(name))
before = anonymous("RssAnon")
seen = []
X = np.load(path, mmap_mode="r")
from amica_core import _em
iterate = _em._iterate
def watched(*a):
    iterate(*a)
    seen.append(anonymous("RssAnon") - before)
_em._iterate = watched
ac.fit(X, **arguments)
print(max(seen))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("solver", "backend", "dtype"),
    [
        ("em", "native", "float32"),
        ("quasi_newton", "native", "float32"),
        ("em", "numpy", "float64"),
    ],
)
def test_a_fit_takes_no_more_than_was_said(tmp_path, solver, backend, dtype):
    if backend == "native":
        pytest.importorskip("amica_native")
    shape = (300_000 if backend == "native" else 40_000, 16)
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.save(tmp_path / "data.npy", X)
    arguments = [str(tmp_path / "data.npy"), solver, backend, dtype]
    shown = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    said = ac.fit_memory(
        *shape, n_models=2, solver=solver, backend=backend, dtype=dtype
    )
    taken = int(shown.stdout)
    assert taken < said
    if backend == "native":  # and the samples are most of it
        assert taken > X.nbytes
        assert said < 4 * X.nbytes


def test_what_adds_to_memory():
    plain = ac.fit_memory(10**6, 64, backend="native", dtype="float32")
    assert plain > 4 * 64 * 10**6
    assert ac.fit_memory(10**6, 64, backend="native") - plain == 4 * 64 * 10**6
    fewer = ac.fit_memory(10**6, 64, 20, backend="native", dtype="float32")
    assert plain - fewer == 4 * 44 * 10**6
    streamed = ac.fit_memory(10**6, 64, backend="numpy")
    assert streamed < 0.2 * plain
    rejecting = ac.fit_memory(10**6, 64, n_models=2, backend="numpy", rejection=True)
    assert rejecting - streamed > 16 * 10**6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "`n_samples` must be at least 1"),
        ({"n_components": 0}, "`n_components` must be at least 1"),
        ({"solver": "adam"}, "`solver` must be one of"),
        ({"dtype": "float16"}, "`dtype` must be one of"),
        ({"n_jobs": 0, "backend": "native"}, "`n_jobs` must be at least 1"),
        ({"backend": "torch"}, "`backend` must be one of"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ac.fit_memory(**({"n_samples": 100, "n_channels": 2} | arguments))
