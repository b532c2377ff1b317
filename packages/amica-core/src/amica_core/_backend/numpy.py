"""The reference backend: float64 NumPy, one block of samples at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._density import Terms, evaluate
from .._statistics import Density, Options, Parameters, Statistics
from .protocol import SampleSource


class _Blocks(NamedTuple):
    """The recording as blocks that are sphered when they are needed."""

    samples: SampleSource
    size: int

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        for start in range(0, self.samples.n_samples, self.size):
            stop = min(start + self.size, self.samples.n_samples)
            yield self.samples.block(start, stop)


class Backend:
    """Statistics with NumPy.

    Parameters
    ----------
    block_size
        Samples of a block. The working memory is about
        `10 * 8 * block_size * M * n * J` bytes.
    """

    def __init__(self, block_size: int = 256):
        self.block_size = block_size

    def place(self, samples: SampleSource) -> _Blocks:
        """Return the recording in blocks of `block_size`; nothing is copied."""
        return _Blocks(samples, self.block_size)

    def statistics(
        self,
        x: NDArray[np.float64],
        parameters: Parameters,
        options: Options,
        kept: NDArray[np.bool_] | None = None,
    ) -> Statistics:
        """Return the sums over one block; see `amica_core._backend.protocol`."""
        n_all = len(x)
        if kept is not None:
            x = x[kept]
        models = [
            _expectation(x, parameters, h, options)
            for h in range(len(parameters.unmixing))
        ]
        joint = np.stack([m.joint for m in models], axis=1)
        largest = joint.max(axis=1, keepdims=True)
        posterior = np.exp(joint - largest)
        evidence = posterior.sum(axis=1, keepdims=True)
        posterior /= evidence
        total = (largest + np.log(evidence))[:, 0]
        sums = [
            _sums(x, m, posterior[:, h], parameters.beta[h], options)
            for h, m in enumerate(models)
        ]
        record: dict[str, Any] = {
            name: np.stack([s[name] for s in sums]) for name in sums[0]
        }
        if options.joint and kept is not None:
            scattered = np.zeros((n_all, joint.shape[1]))
            scattered[kept] = joint
            joint = scattered
        return Statistics(
            count=float(len(x)),
            log_likelihood=float(total.sum()),
            log_likelihood_square=float(total @ total),
            joint=joint if options.joint else None,
            **record,
        )


class _Expectation(NamedTuple):
    """One model's view of a block of `B` samples."""

    b: NDArray[np.float64]  # (n, B) sources
    y: NDArray[np.float64]  # (n, J, B) scaled distances from the centres
    terms: Terms  # of arrays (n, J, B)
    responsibility: NDArray[np.float64]  # (n, J, B)
    joint: NDArray[np.float64]  # (B,) P_h


def _expectation(
    x: NDArray[np.float64], parameters: Parameters, h: int, options: Options
) -> _Expectation:
    mu, beta, rho = (
        p[h, :, :, None] for p in (parameters.mu, parameters.beta, parameters.rho)
    )
    b = parameters.unmixing[h] @ x.T - parameters.offset[h, :, None]
    y = beta * (b[:, None, :] - mu)
    terms = _evaluate_sources(parameters.density[h], y, rho, options.fortran)
    z = terms.log_kernel + parameters.log_scale[h, :, :, None]
    largest = z.max(axis=1, keepdims=True)
    responsibility = np.exp(z - largest)
    total = responsibility.sum(axis=1, keepdims=True)
    responsibility /= total
    log_density = largest + np.log(total)
    joint = parameters.log_weight[h] + log_density.sum(axis=(0, 1))
    return _Expectation(b, y, terms, responsibility, joint)


def _evaluate_sources(
    density: NDArray[np.int64],
    y: NDArray[np.float64],
    rho: NDArray[np.float64],
    fortran: bool,
) -> Terms:
    """Evaluate sources whose densities may be of several types."""
    codes = np.unique(density)
    if len(codes) == 1:
        return evaluate(Density(codes[0]), y, rho, fortran)
    merged = Terms(*(np.zeros_like(y) for _ in Terms._fields))
    for code in codes:
        rows = density == code
        part = evaluate(Density(code), y[rows], rho[rows], fortran)
        for whole, values in zip(merged, part, strict=True):
            if values is not None and whole is not None:
                whole[rows] = values
    return merged


def _sums(
    x: NDArray[np.float64],
    model: _Expectation,
    v: NDArray[np.float64],
    beta: NDArray[np.float64],
    options: Options,
) -> dict[str, NDArray[np.float64]]:
    """Return one model's sums, by the names of `Statistics`."""
    b, terms, u = model.b, model.terms, model.responsibility * v

    def weighted(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.einsum("ijt,ijt->ij", u, values)

    uf = u * terms.score
    g = np.einsum("ij,ijt->it", beta, uf)
    sums = {
        "posterior": v.sum(),
        "weighted_x": v @ x,
        "phi": g @ b.T,
        "mass": u.sum(axis=2),
        "score": uf.sum(axis=2),
        "score_over_y": weighted(terms.score_over_y),
        "score_times_y": weighted(terms.score_times_y),
        "power_log_power": np.zeros(beta.shape)
        if terms.power_log_power is None
        else weighted(terms.power_log_power),
    }
    if options.newton or options.kurtosis:
        sums["square"] = b**2 @ v
    if options.newton:
        fy = terms.score * model.y
        sums["score_square"] = np.einsum("ijt,ijt->ij", uf, terms.score)
        sums["score_deviation"] = weighted((fy - 1) ** 2)
    if options.kurtosis:
        sums["fourth"] = b**4 @ v
    return sums
