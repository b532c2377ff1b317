"""The compiled backend: `amica_native`'s kernels on all samples at once."""

from typing import Literal

import amica_native
import joblib
import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from .._check import check_choice, check_integer
from .._statistics import Options, Parameters, Statistics
from .protocol import SampleSource

# Samples that are sphered and turned at a time.
_CHUNK = 4096


class Samples:
    """Sphered samples as the kernels read them, `(n, samples)`."""

    def __init__(self, x: NDArray[np.floating]):
        self.x = x

    def __len__(self) -> int:
        return self.x.shape[1]


class Backend:
    """Statistics with `amica_native`.

    Parameters
    ----------
    dtype
        Arithmetic within a block of a few hundred samples; blocks are added in
        float64. float32 is two to three times as fast. Its log-likelihood is right to
        about 1e-7, but the course of a fit differs from that in float64, and it ignores
        `Options.fortran`.
    n_jobs
        Threads; -1 for all processors that this process may use, None for as many of
        them as BLAS may use, so that `threadpoolctl.threadpool_limits` and variables
        such as `OMP_NUM_THREADS` hold here too. The result does not depend on it.

    Raises
    ------
    ValueError, TypeError
        If an argument cannot be used.
    """

    def __init__(
        self,
        dtype: Literal["float32", "float64"] = "float64",
        n_jobs: int | None = None,
    ):
        check_choice("dtype", dtype, ("float32", "float64"))
        if n_jobs is not None and n_jobs != -1:
            check_integer("n_jobs", n_jobs, minimum=1)
        self.dtype = np.dtype(dtype)
        self.n_jobs = n_jobs
        self.n_threads = _n_threads(n_jobs)

    def place(self, samples: SampleSource) -> list[Samples]:
        """Return all samples as one block of the chosen type."""
        x = np.empty((samples.n_components, samples.n_samples), self.dtype)
        for start in range(0, samples.n_samples, _CHUNK):
            stop = min(start + _CHUNK, samples.n_samples)
            x[:, start:stop] = samples.block(start, stop).T
        return [Samples(x)]

    def statistics(
        self,
        x: Samples | NDArray[np.float64],
        parameters: Parameters,
        options: Options,
        kept: NDArray[np.bool_] | None = None,
    ) -> Statistics:
        """Return the sums over one block; see `amica_core._backend.protocol`."""
        if not isinstance(x, Samples):
            x = Samples(np.ascontiguousarray(x.T, self.dtype))
        sums = amica_native.statistics(
            x.x,
            parameters,
            newton=options.newton,
            kurtosis=options.kurtosis,
            joint=options.joint,
            # float32 puts samples on a centre that are not there in the data.
            fortran=options.fortran and self.dtype == np.float64,
            kept=kept,
            n_threads=self.n_threads,
        )
        return Statistics(**sums._asdict())


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs is not None:
        return joblib.effective_n_jobs(n_jobs)
    limits = [
        library["num_threads"]
        for library in threadpoolctl.threadpool_info()
        if library["user_api"] == "blas"
    ]
    return min([joblib.effective_n_jobs(-1), *limits])
