"""How much memory a fit will take, before it is begun."""

import os

import numpy as np

from ._backend.protocol import default_backend
from ._check import check_choice, check_integer
from ._sphere import BLOCK
from ._warm_start import shares

# Blocks, per thread, that the compiled kernels keep in the cache; the rest of Python.
_THREAD = 8 * 2**20
_REST = 16 * 2**20


def fit_memory(
    n_samples: int,
    n_channels: int,
    n_components: int | None = None,
    *,
    n_models: int = 1,
    n_mixtures: int = 3,
    solver: str = "em",
    rejection: bool = False,
    backend: str | None = None,
    dtype: str = "float64",
    n_jobs: int | None = None,
) -> int:
    """Return the bytes that `fit` allocates at most, besides the samples it is given.

    Samples in a memory map take none: their pages are the file's, and the system drops
    them where memory is short. Samples that are neither float32 nor float64 are
    converted first, which takes 8 bytes each on top.

    Parameters
    ----------
    n_samples, n_channels
        Shape of the samples.
    n_components
        Components to keep; None for `n_channels`.
    n_models, n_mixtures, solver
        As for `fit`.
    rejection
        Whether samples are rejected.
    backend
        `"native"` (holds the sphered samples) or `"numpy"` (streams them); None for
        what `fit` takes.
    dtype
        `"float64"` or `"float32"`: the arithmetic of `"native"`.
    n_jobs
        Threads of `"native"`; None for one a processor.

    Examples
    --------
    A million samples of 128 channels and two models, in float32:

    >>> said = fit_memory(
    ...     10**6, 128, n_models=2, backend="native", dtype="float32", n_jobs=2
    ... )
    >>> said // 10**6  # megabytes
    571

    Such a fit, of a memory map of 512 MB, took 535 MB.
    """
    for name, value in (
        ("n_samples", n_samples),
        ("n_channels", n_channels),
        ("n_models", n_models),
        ("n_mixtures", n_mixtures),
    ):
        check_integer(name, value, 1)
    n = n_channels if n_components is None else n_components
    check_integer("n_components", n, 1)
    check_choice("solver", solver, ("em", "quasi_newton"))
    check_choice("dtype", dtype, ("float32", "float64"))
    backend = default_backend() if backend is None else backend
    check_choice("backend", backend, ("native", "numpy"))
    moments = 3 * 8 * BLOCK * n_channels
    kept = n_samples
    joint = 3 * 8 * n_samples * n_models if rejection else 0
    sphered, working = 0, 10 * 8 * 2 * 256 * n_models * n * n_mixtures
    if backend == "native":
        sphered = n_samples * n * np.dtype(dtype).itemsize
        threads = (os.cpu_count() or 1) if n_jobs is None else n_jobs
        working = check_integer("n_jobs", threads, 1) * _THREAD
    part = 0
    if solver == "quasi_newton":
        largest = max(shares(n_samples, n, n_models), default=0.0)
        # The chosen samples, as given and sphered, and a permutation of all indices.
        part = int(largest * (8 * n_samples * n_channels + sphered)) + 16 * n_samples
    # The part is gone before the whole is sphered.
    return moments + kept + joint + max(sphered, part) + working + _REST
