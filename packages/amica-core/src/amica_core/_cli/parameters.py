"""From a parameter file to what the loop works on: settings, samples, first values."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._check import check_integer
from .._em import Plan
from .._group import Alone
from .._io.parameters import ParameterFile
from .._model import Model, initial_model
from .._rejection import Rejection
from .._schedule import Schedule
from .._settings import Bounds, LearningRate, Newton, Stopping
from .._sharing import Sharing
from .._sphere import RELATIVE_RANK_TOLERANCE, Sphering, fit_sphering, moments
from .._statistics import Density

_SEED = 0
_UPDATES = {
    "update_A": "A",
    "update_c": "c",
    "update_gm": "gm",
    "update_alpha": "alpha",
    "update_mu": "mu",
    "update_beta": "beta",
    "do_rho": "rho",
}


def settings(p: ParameterFile) -> tuple[Plan, Schedule]:
    """Return what the loop and its schedule are told."""
    for key in ("max_iter", "num_models", "num_mix_comps", "data_dim"):
        check_integer(f"{p.path}: {key}", p[key], 1)
    code = p["pdftype"]
    if code not in list(Density):
        raise ValueError(f"{p.path}: `pdftype` must be 0 to 4, got {code}")
    if code in (Density.SUPER_GAUSSIAN, Density.SUB_GAUSSIAN):
        if p["num_mix_comps"] > 1:
            raise ValueError(
                f"{p.path}: `num_mix_comps` must be 1 with `pdftype {code}`, where the "
                "Fortran program reads memory that it never wrote"
            )
    n_slots = p["num_models"] * (p["pcakeep"] or p["data_dim"])
    if p["num_comps"] not in (-1, n_slots):
        raise ValueError(
            f"{p.path}: `num_comps` must be -1 or models times components, {n_slots}, "
            f"got {p['num_comps']}"
        )
    fixed = {field for key, field in _UPDATES.items() if not p[key]}
    rates = LearningRate(
        rate=p["lrate"],
        minimum=_positive(p["minlrate"]),
        factor=p["lratefact"],
        ramp=p["newt_ramp"],
        max_decreases=p["max_decs"],
        shape_rate=_positive(p["rholrate"]),
        shape_factor=p["rholratefact"],
    )
    newton = Newton(p["newt_start"], p["newtrate"]) if p["do_newton"] else None
    stopping = Stopping(
        min_change=_positive(p["min_dll"]) if p["use_min_dll"] else None,
        min_gradient=_positive(p["min_grad_norm"]) if p["use_grad_norm"] else None,
    )
    rejects = p["do_reject"] and p["numrej"] > 0
    freeze = Sharing(max(1, p["share_start"]), p["share_iter"])
    plan = Plan(
        max_iter=p["max_iter"],
        rejection=Rejection(p["rejstart"], p["rejint"], p["numrej"], p["rejsig"])
        if rejects
        else None,
        sharing=replace(freeze, threshold=p["comp_thresh"])
        if p["share_comps"]
        else None,
        switching=None,
        bounds=Bounds(
            beta=(_positive(p["invsigmin"]), p["invsigmax"]),
            rho=(p["minrho"], p["maxrho"]),
        ),
        fixed=frozenset(fixed),
        rescale=p["doscaling"],
        fortran=True,
        freeze=freeze,
    )
    return plan, Schedule.start(rates, newton, stopping)


def _positive(value: float) -> float:
    """Return the smallest positive number for 0: EEGLAB writes 1e-8 as `0.000000`."""
    return float(np.finfo(np.float64).tiny) if value == 0 else value


def load_samples(p: ParameterFile) -> NDArray:
    """Return the samples of all files, `(samples, channels)`; one file is mapped."""
    channels = p["data_dim"]
    kind = np.dtype("<f8" if p["dble_data"] else "<f4")
    parts = []
    for file in p.files:
        if not file.path.is_file():
            raise FileNotFoundError(f"{p.path}: `files`: there is no file {file.path}")
        wanted = file.n_epochs * file.n_times
        seen = file.path.stat().st_size / (kind.itemsize * channels)
        if seen < wanted:
            raise ValueError(
                f"{file.path} must hold {file.n_epochs} x {file.n_times} samples of "
                f"{channels} {'double' if p['dble_data'] else 'single'} precision "
                f"channels, got {seen:g}; check `data_dim`, `field_dim`, `dble_data`"
            )
        parts.append(np.memmap(file.path, kind, "r", shape=(wanted, channels)))
    data = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if len(data) <= channels:
        raise ValueError(
            f"{p.path}: there must be more samples than channels, got {len(data)} and "
            f"{channels}"
        )
    return data


def make_sphere(p: ParameterFile, data: NDArray) -> Sphering:
    """Return the sphering that the parameters ask for, computed or loaded."""
    channels = data.shape[1]
    mean, covariance = moments(data, Alone(), p["do_mean"])
    variances = np.asarray(np.linalg.eigvalsh(covariance)[::-1], dtype=np.float64)
    keep = channels if p["pcakeep"] is None else p["pcakeep"]
    if not 1 <= keep <= channels:
        raise ValueError(f"{p.path}: `pcakeep` must lie in 1 to {channels}, got {keep}")
    n = min(keep, int(np.count_nonzero(variances > p["mineig"])))
    if n == 0:
        raise ValueError(
            f"{p.path}: no eigenvalue of the covariance is above `mineig` "
            f"{p['mineig']:g}; are the samples in volts?"
        )
    rank = int(np.count_nonzero(variances > RELATIVE_RANK_TOLERANCE * variances[0]))
    if rank < n:
        warnings.warn(
            f"{n} components are kept, as `mineig` and `pcakeep` ask, of data of rank "
            f"{rank} (average reference, interpolation?): the log-likelihood means "
            f"nothing then; set `pcakeep {rank}`",
            RuntimeWarning,
            stacklevel=3,
        )
    if p["load_mean"] or p["load_all_param"]:
        mean = _load(p, "mean", (channels,))
    if p["load_sphere"] or p["load_all_param"]:
        matrix = _load(p, "S", (channels, channels))[:n]
        log_det = 0.5 * float(np.linalg.slogdet(matrix @ matrix.T)[1])
        return Sphering(
            mean,
            matrix,
            np.asarray(np.linalg.pinv(matrix), np.float64),
            log_det,
            variances,
        )
    if not p["do_sphere"]:
        return fit_sphering(mean, covariance, "diagonal", None, True)
    kind = "symmetric" if p["do_approx_sphere"] else "principal"
    return fit_sphering(mean, covariance, kind, n, True)._replace(mean=mean)


def first_model(p: ParameterFile, n: int) -> Model:
    """Return the first values: even, jittered from a fixed seed, or loaded."""
    M, J = p["num_models"], p["num_mix_comps"]
    seed = None if p["fix_init"] else _SEED
    model = initial_model(
        n, M, J, density=Density(p["pdftype"]), rho=p["rho0"], random_state=seed
    )
    if seed is None and M > 1 and not p["load_A"]:
        raise ValueError(
            f"{p.path}: `fix_init 1` makes all models equal, and they would stay so; "
            "load different ones with `load_A`"
        )
    loaded: dict[str, Any] = {}
    for field in ("A", "c", "gm", "alpha", "mu", "beta", "rho"):
        everything = p["load_all_param"] and field != "A"
        if p[f"load_{field}"] or everything:
            name = "sbeta" if field == "beta" else field
            loaded[field] = _load(p, name, getattr(model, field).shape)
    if p["load_comp_list"]:
        path = _init_file(p, "comp_list")
        slots = np.fromfile(path, "<i4", count=n * M)
        if len(slots) < n * M or slots.min() < 1 or slots.max() > n * M:
            raise ValueError(f"{path} must hold {n * M} integers from 1 to {n * M}")
        loaded["slots"] = slots.reshape((n, M), order="F").astype(np.int64) - 1
    return model._replace(**loaded)


def first_kept(p: ParameterFile, n_samples: int) -> NDArray[np.bool_]:
    """Return which samples are in use from the start."""
    if not p["load_rej"]:
        return np.ones(n_samples, dtype=bool)
    rows = p["num_models"] + 1
    return _load(p, "LLt", (rows, n_samples))[:-1].sum(axis=0) != 0


def _load(p: ParameterFile, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    path, count = _init_file(p, name), int(np.prod(shape))
    values = np.fromfile(path, "<f8", count=count)
    if len(values) < count:
        raise ValueError(f"{path} must hold {shape} numbers, got {len(values)}")
    return values.reshape(shape, order="F")


def _init_file(p: ParameterFile, name: str) -> Path:
    if not p["indir"]:
        raise ValueError(f"{p.path}: `indir` must say where first values are")
    path = Path(p["indir"]) / name
    if not path.is_file():
        raise FileNotFoundError(f"{p.path}: there is no file {path} of first values")
    return path
