r"""The E-step's sums over all samples."""

import ctypes
import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._library import Problem, library

_Doubles = NDArray[np.float64]


class _HasParameters(Protocol):
    """Anything with the fields of `Parameters`."""

    @property
    def unmixing(self) -> ArrayLike: ...
    @property
    def offset(self) -> ArrayLike: ...
    @property
    def log_weight(self) -> ArrayLike: ...
    @property
    def log_scale(self) -> ArrayLike: ...
    @property
    def mu(self) -> ArrayLike: ...
    @property
    def beta(self) -> ArrayLike: ...
    @property
    def rho(self) -> ArrayLike: ...
    @property
    def density(self) -> ArrayLike: ...


class Parameters(NamedTuple):
    r"""Parameters of `M` models with `n` sources and `J` mixture terms a source.

    With $y_{hij} = \beta_{hij} (b_{hi} - \mu_{hij})$ and $b_h = W_h x - o_h$, the joint
    log-likelihood of model $h$ and sample $x$ is
    $P_h = w_h + \sum_i \log \sum_j \exp(s_{hij} + \log \tilde p(y_{hij}))$.
    Any object with these attributes serves as well.
    """

    unmixing: ArrayLike
    """$W_h$, shape `(M, n, n)`."""
    offset: ArrayLike
    """$o_h$, shape `(M, n)`."""
    log_weight: ArrayLike
    """$w_h$, log-determinant and log prior, shape `(M,)`."""
    log_scale: ArrayLike
    r"""$s_{hij} = \log\alpha + \log\beta - \log Z(\rho)$, shape `(M, n, J)`."""
    mu: ArrayLike
    """Centres, shape `(M, n, J)`."""
    beta: ArrayLike
    """Inverse scales, positive, shape `(M, n, J)`."""
    rho: ArrayLike
    """Exponents of type 0, positive, shape `(M, n, J)`; other types ignore them."""
    density: ArrayLike
    r"""Type of each source, shape `(M, n)`, with $\log \tilde p$ =

    0: $-|y|^\rho$; 1: $-y^2/2 - \log\cosh y$; 2: $-y^2/2$; 3: $-2\log\cosh(y/2)$;
    4: $-y^2/2 + \log\cosh y$.
    """


class Statistics(NamedTuple):
    r"""Sums over the samples in use.

    $v_h$ is the posterior probability of model $h$, $r_{hij}$ the responsibility of
    term $j$, $u = v r$ and $f = -\mathrm{d} \log p / \mathrm{d} y$.
    """

    count: float
    """Number of samples."""
    log_likelihood: float
    r"""$\sum P$, $P = \log \sum_h \exp P_h$."""
    log_likelihood_square: float
    r"""$\sum P^2$."""
    posterior: _Doubles
    r"""$\sum v_h$, shape `(M,)`."""
    weighted_x: _Doubles
    r"""$\sum v_h x$, shape `(M, n)`."""
    phi: _Doubles
    r"""$\sum g b'$, $g_i = \sum_j \beta u f$, shape `(M, n, n)`."""
    mass: _Doubles
    r"""$\sum u$, shape `(M, n, J)`, as all that follow unless they say otherwise."""
    score: _Doubles
    r"""$\sum u f$."""
    score_over_y: _Doubles
    r"""$\sum u f / y$; $\sum u f^2$ where $\rho > 2$."""
    score_times_y: _Doubles
    r"""$\sum u f y$; $\sum u |y|^\rho$ where $\rho > 2$."""
    power_log_power: _Doubles
    r"""$\sum u q \log q$ with $q = |y|^\rho$ for type 0, else 0."""
    square: _Doubles | None
    r"""$\sum v b^2$, shape `(M, n)`; with `newton` or `kurtosis`."""
    score_square: _Doubles | None
    r"""$\sum u f^2$; with `newton`."""
    score_deviation: _Doubles | None
    r"""$\sum u (f y - 1)^2$; with `newton`."""
    fourth: _Doubles | None
    r"""$\sum v b^4$, shape `(M, n)`; with `kurtosis`."""
    joint: _Doubles | None
    """$P_h$ of every sample, shape `(samples, M)`; 0 where not in use."""


def statistics(
    x: NDArray[Any],
    parameters: _HasParameters,
    *,
    newton: bool = False,
    kurtosis: bool = False,
    joint: bool = False,
    fortran: bool = False,
    kept: NDArray[np.bool_] | None = None,
    n_threads: int = 1,
    block_size: int | None = None,
) -> Statistics:
    r"""Return the sums of one E-step of AMICA over all samples.

    The arithmetic has the precision of `x`; blocks of samples are added in float64. The
    result does not depend on `n_threads`, to the last bit. Values that are not finite
    show as a log-likelihood that is not finite.

    Parameters
    ----------
    x
        Sphered samples, float32 or float64, shape `(n, samples)`, each row contiguous.
    parameters
        See `Parameters`.
    newton
        Also fill what the Newton step needs.
    kurtosis
        Also fill `fourth` and `square`.
    joint
        Also return the joint log-likelihood of every sample and model.
    fortran
        Let a sample exactly on a centre make `score_over_y` a NaN, as the Fortran
        program does. Otherwise it counts with the limit of `f / y`, or not at all where
        that is infinite.
    kept
        Samples in use, bool, shape `(samples,)`; None for all.
    n_threads
        Threads that share the work.
    block_size
        Samples that are worked on at a time; None for what fits the cache. Results
        for different block sizes differ by rounding.

    Returns
    -------
    Statistics
        In float64.

    Raises
    ------
    ValueError, TypeError
        If an argument has the wrong shape, type or range.
    MemoryError
        If the working memory, a few megabytes a thread, cannot be had.

    References
    ----------
    Palmer, Kreutz-Delgado and Makeig, *AMICA: an adaptive mixture of independent
    component analyzers with shared components* (2011), sections 3 and 4.
    """
    n, n_samples = _check_x(x)
    arrays = _check_parameters(parameters, n)
    models, _, terms = arrays["mu"].shape
    for name, value in (("n_threads", n_threads), ("block_size", block_size)):
        if value is None and name == "block_size":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"`{name}` must be an integer, got {value!r}")
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    if kept is not None:
        kept = _check_kept(kept, n_samples)
    record = np.empty(library.amica_record_size(n, models, terms))
    joint_values = np.empty((n_samples, models)) if joint else None
    problem = Problem(
        n_components=n,
        n_samples=n_samples,
        n_models=models,
        n_terms=terms,
        x_stride=x.strides[0] // x.itemsize,
        x=x.ctypes.data,
        kept=None if kept is None else kept.ctypes.data,
        **{name: array.ctypes.data for name, array in arrays.items()},
        single=x.dtype == np.float32,
        newton=newton,
        kurtosis=kurtosis,
        fortran=fortran,
        n_threads=n_threads,
        block=block_size or 0,
        record=record.ctypes.data,
        joint=None if joint_values is None else joint_values.ctypes.data,
    )
    if library.amica_statistics(ctypes.byref(problem)) != 0:
        raise MemoryError("no memory for the blocks of the E-step")
    return _unpack(record, n, models, terms, newton, kurtosis, joint_values)


def _unpack(
    record: _Doubles,
    n: int,
    models: int,
    terms: int,
    newton: bool,
    kurtosis: bool,
    joint: _Doubles | None,
) -> Statistics:
    """Cut a record into its parts, in the order of `Layout` in `cpp/task.h`."""
    position = 0

    def take(*shape: int) -> _Doubles:
        nonlocal position
        start, position = position, position + math.prod(shape)
        return record[start:position].reshape(shape)

    count, log_likelihood, log_likelihood_square = take(3).tolist()
    posterior, weighted_x = take(models), take(models, n)
    square, fourth = take(models, n), take(models, n)
    phi = take(models, n, n)
    mass, score, over_y, times_y, power_log_power, score_square, score_deviation = (
        take(models, n, terms) for _ in range(7)
    )
    return Statistics(
        count=count,
        log_likelihood=log_likelihood,
        log_likelihood_square=log_likelihood_square,
        posterior=posterior,
        weighted_x=weighted_x,
        phi=phi,
        mass=mass,
        score=score,
        score_over_y=over_y,
        score_times_y=times_y,
        power_log_power=power_log_power,
        square=square if newton or kurtosis else None,
        score_square=score_square if newton else None,
        score_deviation=score_deviation if newton else None,
        fourth=fourth if kurtosis else None,
        joint=joint,
    )


def _check_x(x: NDArray[Any]) -> tuple[int, int]:
    if not isinstance(x, np.ndarray) or x.dtype not in (np.float32, np.float64):
        seen = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(f"`x` must be a float32 or float64 array, got {seen}")
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"`x` must be (components, samples), got shape {x.shape}")
    if not x.flags.aligned:
        raise ValueError("`x` must be aligned; use numpy.ascontiguousarray")
    rows = x.strides[0]
    if (x.shape[1] > 1 and x.strides[1] != x.itemsize) or (
        x.shape[0] > 1 and (rows < x.shape[1] * x.itemsize or rows % x.itemsize)
    ):
        raise ValueError(
            "`x` must have contiguous rows, one a component, "
            f"got strides {x.strides}; use numpy.ascontiguousarray"
        )
    return x.shape


def _check_parameters(parameters: _HasParameters, n: int) -> dict[str, NDArray[Any]]:
    mu = np.asarray(parameters.mu)
    if mu.ndim != 3 or 0 in mu.shape or mu.shape[1] != n:
        raise ValueError(
            f"`parameters.mu` must be (models, {n}, terms) for `x` with {n} rows, "
            f"got shape {mu.shape}"
        )
    models = len(mu)
    shapes = {
        "unmixing": (models, n, n),
        "offset": (models, n),
        "log_weight": (models,),
        "log_scale": mu.shape,
        "mu": mu.shape,
        "beta": mu.shape,
        "rho": mu.shape,
        "density": (models, n),
    }
    arrays = {}
    for name, shape in shapes.items():
        array = np.asarray(getattr(parameters, name))
        if array.shape != shape:
            raise ValueError(
                f"`parameters.{name}` must have shape {shape}, got {array.shape}"
            )
        if array.dtype.kind not in ("iu" if name == "density" else "fiu"):
            wanted = "integers" if name == "density" else "real numbers"
            raise TypeError(f"`parameters.{name}` must be {wanted}, got {array.dtype}")
        dtype = np.int64 if name == "density" else np.float64
        arrays[name] = np.ascontiguousarray(array, dtype)
    codes = arrays["density"]
    if codes.min() < 0 or codes.max() > 4:
        raise ValueError(
            f"`parameters.density` must be 0 to 4, got {codes.min()} to {codes.max()}"
        )
    return arrays


def _check_kept(kept: NDArray[np.bool_], n_samples: int) -> NDArray[np.bool_]:
    kept = np.asarray(kept)
    if kept.dtype != np.bool_ or kept.shape != (n_samples,):
        raise ValueError(
            f"`kept` must be bool of shape ({n_samples},), "
            f"got {kept.dtype} of shape {kept.shape}"
        )
    return np.ascontiguousarray(kept)
