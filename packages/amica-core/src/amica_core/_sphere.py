r"""Centring, sphering and rank: from channels to the space in which AMICA works.

$x = S (X - m)$, with $S$ of shape `(n, channels)` and $n$ the number of components.
"""

import warnings
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._check import check_choice, check_integer, check_samples
from ._group import Alone, Group

Array = NDArray[np.float64]
SpheringKind = Literal["symmetric", "principal", "diagonal"]
SPHERING_KINDS = ("symmetric", "principal", "diagonal")

# Rounding to float32 leaves about 1e-15 of the variance in a direction that average
# referencing or interpolation has emptied; recorded EEG keeps more than 1e-9.
RELATIVE_RANK_TOLERANCE = 1e-12
# The Fortran program's `mineig`: an absolute bound, in squared units of the data.
FORTRAN_RANK_TOLERANCE = 1e-15

# Samples that the moments are summed over at a time.
BLOCK = 8192


class Sphering(NamedTuple):
    """An affine map to white components and back."""

    mean: Array
    """Channel means, shape `(channels,)`."""
    matrix: Array
    """$S$, shape `(n, channels)`."""
    inverse: Array
    """Pseudo-inverse of $S$, shape `(channels, n)`."""
    log_det: float
    """Log of the volume that $S$ scales by, added to every log-likelihood."""
    variances: Array
    """Eigenvalues of the covariance, descending, shape `(channels,)`."""

    def apply(self, data: NDArray) -> Array:
        """Return samples, shape `(samples, channels)`, sphered: `(samples, n)`."""
        return np.ascontiguousarray((data - self.mean) @ self.matrix.T)


class Recording:
    """Samples that are centred and sphered when a block of them is asked for.

    Parameters
    ----------
    data
        Real samples, shape `(samples, channels)`; may be a memory map.
    sphering
        The map to apply.
    """

    def __init__(self, data: NDArray, sphering: Sphering):
        self.data = data
        self.sphering = sphering
        self.n_samples = len(data)
        self.n_components = len(sphering.matrix)

    def block(self, start: int, stop: int) -> Array:
        """Return sphered samples `start` to `stop`, shape `(stop - start, n)`."""
        return self.sphering.apply(self.data[start:stop])


def moments(data: NDArray, group: Group, center: bool = True) -> tuple[Array, Array]:
    """Return the mean and the covariance (divided by T), block by block.

    Raises
    ------
    ValueError
        If `data` holds a NaN or an infinity.
    """
    n_channels = data.shape[1]
    starts = range(0, len(data), BLOCK)
    total = np.zeros(n_channels + 1)
    total[-1] = len(data)
    for start in starts:
        block = np.asarray(data[start : start + BLOCK], dtype=np.float64)
        _check_finite(block, start)
        total[:-1] += block.sum(axis=0)
    total = group.sum(total)
    n_samples = total[-1]
    mean = total[:-1] / n_samples if center else np.zeros(n_channels)
    scatter = np.zeros((n_channels, n_channels))
    for start in starts:
        block = np.asarray(data[start : start + BLOCK], dtype=np.float64) - mean
        scatter += block.T @ block
    return mean, group.sum(scatter) / n_samples


def sphere(
    X: ArrayLike,
    n_components: int | None = None,
    *,
    kind: SpheringKind = "symmetric",
    center: bool = True,
) -> Sphering:
    r"""Return the sphering that `fit` begins with.

    With eigenvalues $d_1 \ge d_2 \ge \dots$ of the covariance and eigenvectors as the
    rows of $E$, the rank is the number of $d_i > 10^{-12} d_1$, and $B$ holds the
    first $n$ rows $e_i / \sqrt{d_i}$.

    Parameters
    ----------
    X
        Real, finite samples, shape `(samples, channels)`.
    n_components
        Components to keep; None keeps the rank, with a warning where it is below the
        number of channels.
    kind
        `"symmetric"`: $R'B$ with the rotation $R$ that makes component $i$ look like
        channel $i$ ($C^{-1/2}$ at full rank). `"principal"`: $B$ itself.
        `"diagonal"`: every channel divided by its standard deviation.
    center
        Whether channel means are subtracted.

    Raises
    ------
    ValueError
        If `X` cannot be used, `n_components` exceeds the rank, or a channel is
        constant where `kind` is `"diagonal"`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * [1, 2, 3]
    >>> x = sphere(X).apply(X)
    >>> bool(np.allclose(np.cov(x.T, bias=True), np.eye(3)))
    True
    """
    check_choice("kind", kind, SPHERING_KINDS)
    mean, covariance = moments(check_samples(X), Alone(), center)
    return fit_sphering(mean, covariance, kind, n_components)


def fit_sphering(
    mean: Array,
    covariance: Array,
    kind: SpheringKind = "symmetric",
    n_components: int | None = None,
    fortran: bool = False,
) -> Sphering:
    """Return the sphering of data with these moments; see `sphere`.

    `fortran` uses the Fortran program's rank rule and halves the log-determinant of
    the diagonal kind.
    """
    if n_components is not None:
        check_integer("n_components", n_components, 1)
    n_channels = len(mean)
    variances, eigenvectors = np.linalg.eigh(covariance)
    variances, eigenvectors = variances[::-1], eigenvectors[:, ::-1].T
    if kind == "diagonal":
        return _diagonal(mean, covariance, variances, n_components, fortran)
    bound = (
        FORTRAN_RANK_TOLERANCE
        if fortran
        else (RELATIVE_RANK_TOLERANCE * max(variances[0], np.finfo(float).tiny))
    )
    rank = int(np.sum(variances > bound))
    if rank == 0:
        raise ValueError("`X` must vary, got channels that are all constant")
    n = rank if n_components is None else n_components
    if n > rank:
        if not fortran:
            raise ValueError(
                f"`n_components` must be at most the rank of the data, {rank} "
                f"({n_channels} channels), got {n}"
            )
        n = rank
    if rank < n_channels and n_components is None:
        warnings.warn(
            f"the {n_channels} channels have rank {rank} (average reference, "
            f"interpolated or constant channels?); {rank} components are fitted",
            RuntimeWarning,
            stacklevel=4,
        )
    whitening = eigenvectors[:n] / np.sqrt(variances[:n, None])
    matrix = whitening
    if kind == "symmetric":
        matrix = _nearest_rotation(eigenvectors[:n, :n]).T @ whitening
    log_det = -0.5 * float(np.sum(np.log(variances[:n])))
    inverse = np.asarray(np.linalg.pinv(matrix), np.float64)
    return Sphering(mean, matrix, inverse, log_det, variances)


def _diagonal(
    mean: Array,
    covariance: Array,
    variances: Array,
    n_components: int | None,
    fortran: bool,
) -> Sphering:
    n_channels = len(mean)
    deviations = np.sqrt(np.diag(covariance))
    if not np.all(deviations > 0):
        constant = np.flatnonzero(deviations == 0).tolist()
        raise ValueError(
            f'`sphering="diagonal"` needs channels that vary, got constant {constant}'
        )
    if n_components not in (None, n_channels):
        raise ValueError(
            f'`n_components` must be None or {n_channels} with `sphering="diagonal"`, '
            f"which keeps every channel, got {n_components}"
        )
    log_det = -float(np.sum(np.log(deviations)))
    if fortran:
        log_det /= 2
    return Sphering(
        mean, np.diag(1 / deviations), np.diag(deviations), log_det, variances
    )


def _nearest_rotation(matrix: Array) -> Array:
    """Return the orthogonal factor of the polar decomposition."""
    left, _, right = np.linalg.svd(matrix)
    return left @ right


def _check_finite(block: Array, start: int) -> None:
    if np.isfinite(block).all():
        return
    sample, channel = np.argwhere(~np.isfinite(block))[0]
    value = "NaN" if np.isnan(block[sample, channel]) else "infinity"
    raise ValueError(
        f"`X` must be finite, got {value} (NaN or inf) in sample {start + sample}, "
        f"channel {channel}; leave such samples out or interpolate them"
    )
