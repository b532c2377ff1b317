"""How good a decomposition is, and how like another one."""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import differential_entropy

from ._check import check_integer, check_matrix


def amari_distance(unmixing: ArrayLike, mixing: ArrayLike) -> float:
    r"""Return how far `unmixing @ mixing` is from a scaled permutation, 0 to 1.

    $$\frac{1}{2n(n-1)} \left(\sum_i \Big(\frac{\sum_k |P_{ik}|}{\max_k |P_{ik}|} - 1
    \Big) + \sum_k \Big(\frac{\sum_i |P_{ik}|}{\max_i |P_{ik}|} - 1\Big)\right),
    \quad P = WA$$

    Parameters
    ----------
    unmixing
        $W$, shape `(n, channels)`.
    mixing
        $A$, the true mixing matrix, shape `(channels, n)`.

    Returns
    -------
    float
        0 where every source is found; does not depend on order, sign and scale.

    Raises
    ------
    ValueError
        If the matrices do not fit, or a row or column of their product is zero.

    References
    ----------
    S. Amari, A. Cichocki and H. Yang, *A new learning algorithm for blind signal
    separation*, NIPS 1995, equation 17; scaled to 1 at the worst.
    """
    W, A = check_matrix("unmixing", unmixing), check_matrix("mixing", mixing)
    if W.shape != A.shape[::-1]:
        raise ValueError(
            f"`mixing` must have the shape {W.shape[::-1]} of the transposed "
            f"`unmixing`, got {A.shape}"
        )
    P = np.abs(W @ A)
    n = len(P)
    if n == 1:
        return 0.0
    largest = P.max(axis=1), P.max(axis=0)
    if not all(np.all(m > 0) for m in largest):
        raise ValueError(
            "`unmixing` and `mixing` must have a product without zero rows or columns"
        )
    rows = (P.sum(axis=1) / largest[0] - 1).sum()
    columns = (P.sum(axis=0) / largest[1] - 1).sum()
    return float((rows + columns) / (2 * n * (n - 1)))


class Matching(NamedTuple):
    """Columns of one matrix paired with columns of another."""

    order: NDArray[np.int64]
    """Column of the other matrix that goes with each column of the first."""
    sign: NDArray[np.float64]
    """1 or -1: the sign that makes the pair agree."""
    similarity: NDArray[np.float64]
    """Absolute cosine of each pair."""


def match_components(maps: ArrayLike, other: ArrayLike) -> Matching:
    """Pair the columns of two matrices so that their similarities sum to the most.

    Parameters
    ----------
    maps, other
        Maps of components (`result.mixing()`), shape `(channels, n)`, or centred
        sources, shape `(samples, n)`; `other` may have more columns.

    Returns
    -------
    Matching
        `other[:, order] * sign` goes with `maps`.

    Raises
    ------
    ValueError
        If the numbers of rows differ, or `other` has fewer columns.

    Examples
    --------
    >>> A = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]])
    >>> found = match_components(A, -3 * A[:, ::-1])
    >>> found.order.tolist(), found.sign.tolist()
    ([1, 0], [-1.0, -1.0])
    """
    a, b = check_matrix("maps", maps), check_matrix("other", other)
    if len(a) != len(b) or a.shape[1] > b.shape[1]:
        raise ValueError(
            f"`other` must have {len(a)} rows and at least {a.shape[1]} columns, got "
            f"{b.shape}"
        )
    lengths = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    cosine = np.divide(a.T @ b, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    rows, order = linear_sum_assignment(-np.abs(cosine))
    pairs = cosine[rows, order]
    return Matching(order, np.where(pairs < 0, -1.0, 1.0), np.abs(pairs))


def mutual_information_reduction(X: ArrayLike, unmixing: ArrayLike) -> float:
    r"""Return by how much unmixing lowers the mutual information of the signals.

    $$I(x) - I(Wx) = \sum_i H(x_i) - \sum_i H(y_i) + \log |\det W|, \quad y = Wx$$

    Parameters
    ----------
    X
        Samples, shape `(samples, n)`. Where the data have fewer components than
        channels, pass sphered samples (`result.sphering.apply(X)`).
    unmixing
        $W$ for these samples, shape `(n, n)`; for sphered ones
        `result.model.unmixing(0)`.

    Returns
    -------
    float
        Nats per sample. Entropies are estimated from spacings of the sorted samples,
        by `scipy.stats.differential_entropy`.

    Raises
    ------
    ValueError
        If `unmixing` is not square, not of this size, or singular.

    References
    ----------
    A. Delorme et al., *Independent EEG sources are dipolar*, PLoS ONE 7(2), 2012,
    equation 3.
    """
    x, W = check_matrix("X", X), check_matrix("unmixing", unmixing)
    n = x.shape[1]
    if W.shape != (n, n):
        raise ValueError(f"`unmixing` must have shape {(n, n)}, got {W.shape}")
    sign, log_det = np.linalg.slogdet(W)
    if sign == 0:
        raise ValueError("`unmixing` must not be singular")
    before = differential_entropy(x, axis=0).sum()
    after = differential_entropy(x @ W.T, axis=0).sum()
    return float(before - after + log_det)


def pairwise_mutual_information(
    sources: ArrayLike, *, n_bins: int = 16
) -> NDArray[np.float64]:
    r"""Return the mutual information of each pair of signals, in nats.

    Signals are cut into bins of equal numbers of samples, so that the result does not
    depend on their scales and densities; $(B - 1)^2 / 2T$ is taken off, what
    independent signals show on average (Miller and Madow).

    Parameters
    ----------
    sources
        Signals, shape `(samples, n)`.
    n_bins
        Bins of each signal, $B$; at most the number of samples.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, with zeros on the diagonal. At most $\log B$; scatters around 0 for
        independent signals.

    Raises
    ------
    ValueError
        If there are fewer samples than bins.
    """
    S = check_matrix("sources", sources)
    T, n = S.shape
    B = check_integer("n_bins", n_bins, 2)
    if B > T:
        raise ValueError(f"`n_bins` must be at most {T} (samples), got {B}")
    ranks = S.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    cells = ranks * B // T + np.arange(n) * B
    # One row a sample, one column a bin of a signal; its Gram matrix counts pairs.
    chosen = scipy.sparse.csr_array(
        (np.ones(T * n), cells.ravel(), np.arange(T + 1) * n), shape=(T, n * B)
    )
    joint = (chosen.T @ chosen).toarray().reshape(n, B, n, B) / T
    marginal = np.einsum("ibib->ib", joint)
    independent = marginal[:, :, None, None] * marginal
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / independent), 0.0)
    information = terms.sum(axis=(1, 3)) - (B - 1) ** 2 / (2 * T)
    information = (information + information.T) / 2  # rounding differs by order
    np.fill_diagonal(information, 0.0)
    return information
