r"""What one E-step takes and what it gives: the border between the loop and a backend.

Shape letters used throughout the package: `n` components of a model, `M` models
(index `h`), `J` mixture terms of a source (index `j`), `K` component slots.

A backend sees `M` unmixing matrices and `M * n` source densities and knows nothing of
learning rates, of sphering or of slots that models share. It returns sums over
samples, so that records of different blocks, threads, processes or machines may be
added in any grouping.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Density(IntEnum):
    r"""Density of a mixture term; $y$ is the scaled distance from its centre.

    The numbers are the Fortran program's `pdftype`. Unnormalised log-densities:

    * `GENERALIZED_GAUSSIAN` $-|y|^\rho$
    * `SUPER_GAUSSIAN` $-y^2/2 - \log\cosh y$
    * `GAUSSIAN` $-y^2/2$
    * `LOGISTIC` $-2 \log\cosh(y/2)$
    * `SUB_GAUSSIAN` $-y^2/2 + \log\cosh y$
    """

    GENERALIZED_GAUSSIAN = 0
    SUPER_GAUSSIAN = 1
    GAUSSIAN = 2
    LOGISTIC = 3
    SUB_GAUSSIAN = 4


class Parameters(NamedTuple):
    r"""Parameters of one E-step, all float64 and C-contiguous.

    With $y_{hij} = \beta_{hij} (b_{hi} - \mu_{hij})$ and $b_h = W_h x - W_h c_h$, the
    joint log-likelihood of model $h$ and sample $x$ is
    $P_h = w_h + \sum_i \log \sum_j \exp(s_{hij} + \log \tilde p(y_{hij}))$.
    """

    unmixing: NDArray[np.float64]
    """$W_h$, shape `(M, n, n)`; acts on sphered samples."""
    offset: NDArray[np.float64]
    """$W_h c_h$, shape `(M, n)`; zero where the centres are left out."""
    log_weight: NDArray[np.float64]
    r"""$w_h = \log|\det W_h| + \log|\det S| + \log \gamma_h$, shape `(M,)`."""
    log_scale: NDArray[np.float64]
    r"""$s_{hij} = \log\alpha + \log\beta - \log Z(\rho)$, shape `(M, n, J)`."""
    mu: NDArray[np.float64]
    """Centres of the mixture terms, shape `(M, n, J)`."""
    beta: NDArray[np.float64]
    """Inverse scales, positive, shape `(M, n, J)`."""
    rho: NDArray[np.float64]
    """Shapes, shape `(M, n, J)`; read only where the density is of type 0."""
    density: NDArray[np.int64]
    """A `Density` code for each source, shape `(M, n)`."""


class Options(NamedTuple):
    """What an E-step is asked for."""

    newton: bool = False
    """Fill the sums of the Newton step."""
    kurtosis: bool = False
    """Fill `fourth` (and `square`), which density switching reads."""
    joint: bool = False
    """Return the joint log-likelihood of every sample and model."""
    fortran: bool = False
    """Leave 0/0 in `score_over_y` a NaN where a sample lies exactly on a centre."""


@dataclass(frozen=True)
class Statistics:
    r"""Additive record of an E-step, float64 whatever the backend computed in.

    $v_h$ is the posterior of model $h$, $r_{hij}$ the responsibility of term $j$,
    $u = v r$, and $f(y) = -\mathrm{d} \log p / \mathrm{d} y$ the score. Sums run over
    the samples in use. Fields that were not asked for are None.
    """

    count: float
    """Number of samples in use."""
    log_likelihood: float
    r"""$\sum P$ with $P = \log \sum_h \exp P_h$."""
    log_likelihood_square: float
    r"""$\sum P^2$, from which rejection takes the spread."""
    posterior: NDArray[np.float64]
    r"""$\sum v_h$, shape `(M,)`."""
    weighted_x: NDArray[np.float64]
    r"""$\sum v_h x$, shape `(M, n)`."""
    phi: NDArray[np.float64]
    r"""$\sum g b'$ with $g_i = \sum_j \beta u f$, shape `(M, n, n)`; rows are $g$."""
    mass: NDArray[np.float64]
    r"""$\sum u$, shape `(M, n, J)`."""
    score: NDArray[np.float64]
    r"""$\sum u f$, shape `(M, n, J)`."""
    score_over_y: NDArray[np.float64]
    r"""$\sum u f / y$, or $\sum u f^2$ where $\rho > 2$; shape `(M, n, J)`.

    A sample with $y = 0$ counts with the limit of $f / y$; where that is infinite
    (type 0, $\rho < 2$) it is left out, unless `Options.fortran`.
    """
    score_times_y: NDArray[np.float64]
    r"""$\sum u f y$, or $\sum u |y|^\rho$ where $\rho > 2$; shape `(M, n, J)`."""
    power_log_power: NDArray[np.float64]
    r"""$\sum u q \log q$, $q = |y|^\rho$; shape `(M, n, J)`; 0 for types 1 to 4.

    A term with $q < 10^{-16}$ counts as 0.
    """
    square: NDArray[np.float64] | None = None
    r"""$\sum v b^2$, shape `(M, n)`; with `newton` or `kurtosis`."""
    score_square: NDArray[np.float64] | None = None
    r"""$\sum u f^2$, shape `(M, n, J)`; with `newton`."""
    score_deviation: NDArray[np.float64] | None = None
    r"""$\sum u (f y - 1)^2$, shape `(M, n, J)`; with `newton`."""
    fourth: NDArray[np.float64] | None = None
    r"""$\sum v b^4$, shape `(M, n)`; with `kurtosis`."""
    joint: NDArray[np.float64] | None = None
    """$P_h$ of every sample, shape `(samples, M)`; 0 where a sample was rejected."""

    def __add__(self, other: "Statistics") -> "Statistics":
        """Join the records of two disjoint sets of samples, `self` coming first."""
        joined: dict[str, Any] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine is None or theirs is None:
                joined[field.name] = None
            elif field.name == "joint":
                joined[field.name] = np.concatenate([mine, theirs])
            else:
                joined[field.name] = mine + theirs
        return Statistics(**joined)
