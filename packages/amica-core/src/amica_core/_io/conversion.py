"""Between a fitted `Result`, an output directory and EEGLAB's model structure."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import gamma, logsumexp

from .._history import History
from .._model import Array, Model
from .._result import Result
from .._schedule import StopReason
from .._sphere import Sphering
from .._statistics import Density
from .amicaout import AmicaOutput
from .log import Log, parse_log


def to_amicaout(
    result: Result, X: NDArray | None = None, *, max_iter: int | None = None
) -> AmicaOutput:
    """Return a fit as the content of an output directory.

    Parameters
    ----------
    result
        A fit.
    X
        The samples it was fitted to, shape `(samples, channels)`, for the
        log-likelihood of every sample (`LLt`); None leaves that file out.
    max_iter
        Length of `LL`, filled up with zeros; None for the iterations that were run.

    Raises
    ------
    ValueError
        If `max_iter` is below the iterations that were run, or `X` has another number
        of samples than the fit had.
    """
    model, sphering = result.model, result.sphering
    n, channels = sphering.matrix.shape
    length = result.n_iter if max_iter is None else max_iter
    if length < result.n_iter:
        raise ValueError(
            f"`max_iter` must be at least the {result.n_iter} iterations of `result`, "
            f"got {max_iter}"
        )
    S = np.zeros((channels, channels))
    S[:n] = sphering.matrix
    LL = np.zeros(length)
    LL[: result.n_iter] = result.history.log_likelihood
    return AmicaOutput(
        W=np.stack([model.unmixing(h) for h in range(model.n_models)], axis=-1),
        S=S,
        mean=sphering.mean,
        gm=model.gm,
        c=model.c,
        comp_list=(model.slots + 1).astype(np.int32),
        A=model.A,
        alpha=model.alpha,
        mu=model.mu,
        sbeta=model.beta,
        rho=model.rho,
        LL=LL,
        LLt=None if X is None else _sample_log_likelihoods(result, X),
    )


def from_amicaout(
    output: AmicaOutput,
    *,
    density: Density = Density.GENERALIZED_GAUSSIAN,
    fortran: bool = True,
    n_samples: int | None = None,
) -> Result:
    """Return the content of an output directory as a fit.

    Parameters
    ----------
    output
        What `read_amicaout` gave.
    density
        Density of the mixture terms, which no file tells.
    fortran
        Whether log-likelihoods are those of the Fortran program, with its constants.
    n_samples
        Samples of the recording where there is no `LLt`; without both, `kept` is empty.

    Notes
    -----
    The files do not hold everything. Learning rates are those of the log, else NaN; the
    eigenvalues of the covariance are those of the directions kept; whether an iteration
    was a Newton step is not known and False.
    """
    n, M = output.n_components, output.n_models
    matrix = output.S[:n]
    inverse = np.asarray(np.linalg.pinv(matrix), np.float64)
    log_det = 0.5 * float(np.linalg.slogdet(matrix @ matrix.T)[1])
    if fortran and np.count_nonzero(output.S) == n == output.n_channels:
        log_det /= 2  # the program's log-determinant of a diagonal sphering
    variances = np.asarray(np.linalg.eigvalsh(inverse @ inverse.T)[::-1], np.float64)
    slots = output.comp_list.astype(np.int64) - 1
    kept = np.ones(n_samples or 0, dtype=bool)
    if output.LLt is not None:
        kept = output.LLt[M] != 0
    log = parse_log(output.log or "")
    return Result(
        model=Model(
            A=output.A,
            slots=slots,
            c=output.c,
            gm=output.gm,
            alpha=output.alpha,
            mu=output.mu,
            beta=output.sbeta,
            rho=output.rho,
            density=np.full(output.A.shape[1], int(density)),
        ),
        sphering=Sphering(
            output.mean, matrix, inverse, log_det, np.maximum(variances, 0.0)
        ),
        history=_history(output, slots, log, len(kept)),
        kept=kept,
        stop_reason=_stop_reason(output, log),
        fortran=fortran,
    )


def eeglab_structure(output: AmicaOutput) -> dict[str, NDArray | float]:
    r"""Return what EEGLAB's `loadmodout15` makes of an output directory.

    Models come by prior and components by the variance
    $|a_i|^2 \sum_j \alpha_{ij} (\mu_{ij}^2 +
    \beta_{ij}^{-2}\, \Gamma(3/\rho_{ij}) / \Gamma(1/\rho_{ij}))$ that they explain,
    both descending; maps have norm 1 and `W`, `mu` and `sbeta` carry the scale. Signs
    stay.
    This is also what EEGLAB keeps as `EEG.etc.amica`.

    Parameters
    ----------
    output
        What `read_amicaout` gave.

    Returns
    -------
    dict
        By the names of the structure's fields: `num_models`, `num_pcs` and `data_dim`;
        `mod_prob` (1, M); `W` (n, n, M); `A` (channels, n, M); `S`; `data_mean`; `c`,
        `comp_list`, `svar` and `origord` (n, M), the last two counted from 1; `alpha`,
        `mu`, `sbeta`, `rho` (J, n, M); `LL`; `nd` (iterations, n, M); and with the
        log-likelihoods of samples `Lht`, `v` (M, T), the log10 odds, and `Lt` (1, T).
    """
    n, M = output.n_components, output.n_models
    by_prior = np.argsort(-output.gm, kind="stable")
    slots = output.comp_list[:, by_prior]
    alpha, mu, sbeta, rho = (
        values[:, slots - 1]
        for values in (output.alpha, output.mu, output.sbeta, output.rho)
    )
    W = output.W[:, :, by_prior]
    A = np.stack(
        [scipy.linalg.pinv(W[:, :, h] @ output.S[:n]) for h in range(M)], axis=-1
    )
    norm = np.linalg.norm(A, axis=0)
    spread = gamma(3 / rho) / gamma(1 / rho) / sbeta**2
    svar = np.sum(alpha * (mu**2 + spread), axis=0) * norm**2
    order = np.argsort(-svar, axis=0, kind="stable")
    W = np.take_along_axis(W, order[:, None, :], axis=0)
    A = np.take_along_axis(A, order[None], axis=1)
    norm, svar, slots = (
        np.take_along_axis(values, order, axis=0) for values in (norm, svar, slots)
    )
    alpha, mu, sbeta, rho = (
        np.take_along_axis(values, order[None], axis=1)
        for values in (alpha, mu, sbeta, rho)
    )
    structure: dict[str, NDArray | float] = {
        "num_models": float(M),
        "mod_prob": output.gm[by_prior][None],
        "W": W * norm[:, None, :],
        "num_pcs": float(n),
        "data_dim": float(output.n_channels),
        "data_mean": output.mean[:, None],
        "S": output.S,
        "comp_list": slots.astype(np.float64),
        "LL": np.zeros((1, 1)) if output.LL is None else output.LL[:, None],
        "c": output.c[:, by_prior],
        "alpha": alpha,
        "mu": mu * norm,
        "sbeta": sbeta / norm,
        "rho": rho,
        "nd": np.zeros((1, 1)),
        "svar": svar,
        "A": A / norm,
        "origord": order + 1.0,
    }
    if output.nd is not None and output.nd.shape[1] == n * M:
        # The loader takes the columns of a model for its own, shared or not.
        nd = output.nd.reshape((-1, n, M), order="F")[:, :, by_prior]
        structure["nd"] = np.take_along_axis(nd, order[None], axis=1)
    if output.LLt is not None:
        Lht, Lt = output.LLt[:M][by_prior], output.LLt[M:]
        structure |= {"Lht": Lht, "Lt": Lt, "v": 0.4343 * (Lht - Lt)}
    return structure


def _sample_log_likelihoods(result: Result, X: NDArray) -> Array:
    if len(X) != len(result.kept):
        raise ValueError(
            f"`X` must have the {len(result.kept)} samples of the fit, got {len(X)}"
        )
    joint = result.joint_log_likelihood(X)
    table = np.concatenate([joint, logsumexp(joint, axis=1, keepdims=True)], axis=1).T
    table[:, ~result.kept] = 0
    return table


def _history(
    output: AmicaOutput, slots: NDArray[np.int64], log: Log, n_samples: int
) -> History:
    LL = np.zeros(0) if output.LL is None else output.LL
    n_iter = int(np.flatnonzero(LL)[-1]) + 1 if np.any(LL) else 0
    norm = np.full(n_iter, np.nan)
    rate = np.full(n_iter, np.nan)
    if output.nd is not None and len(output.nd) >= n_iter:
        used = np.unique(slots)
        norm = np.sqrt(output.nd[:n_iter, used].mean(axis=1) / output.n_components)
    for record in log.records:
        # A line names the step of the update before it.
        if 2 <= record.iteration <= n_iter + 1:
            rate[record.iteration - 2] = record.learning_rate
        if record.iteration <= n_iter and output.nd is None:
            norm[record.iteration - 1] = record.gradient_norm
    n_kept = np.full(n_iter, n_samples)
    for iteration, n_rejected in log.n_rejected:
        n_kept[iteration:] = n_samples - n_rejected
    return History(LL[:n_iter], norm, rate, np.zeros(n_iter, dtype=bool), n_kept)


def _stop_reason(output: AmicaOutput, log: Log) -> StopReason:
    if log.stop_reason is not None:
        return log.stop_reason
    LL = np.zeros(0) if output.LL is None else output.LL
    if np.isnan(LL).any():
        return "not_finite"
    if LL.size and LL[-1] != 0:
        return "max_iter"
    return "min_rate" if log.finished else "interrupted"
