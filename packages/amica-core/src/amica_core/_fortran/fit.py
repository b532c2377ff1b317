"""Fit with the Fortran program (`amica15`, `amica17`; https://github.com/sccn/amica)."""

import os
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._check import check_choice, check_integer, check_samples
from .._group import Alone
from .._io.conversion import from_amicaout
from .._model import Model, initial_model
from .._rejection import Rejection
from .._result import Result
from .._settings import Bounds, LearningRate, Newton, Stopping
from .._sharing import Sharing
from .._sphere import SpheringKind, fit_sphering, moments
from .._statistics import Density
from .._switching import Switching
from .run import find_fortran_program, run_fortran

_FIELDS = {
    "update_A": "A",
    "update_c": "c",
    "update_gm": "gm",
    "update_alpha": "alpha",
    "update_mu": "mu",
    "update_beta": "beta",
    "do_rho": "rho",
}


def fit_fortran(
    X: ArrayLike,
    n_components: int | None = None,
    *,
    n_models: int = 1,
    n_mixtures: int = 3,
    density: str | Switching = "generalized_gaussian",
    sphering: SpheringKind = "symmetric",
    center: bool = True,
    max_iter: int = 2000,
    learning_rate: LearningRate | None = None,
    newton: Newton | bool = True,
    stopping: Stopping | None = None,
    rejection: Rejection | None = None,
    sharing: Sharing | None = None,
    bounds: Bounds | None = None,
    fixed: Collection[str] = (),
    rescale: bool = True,
    init: Literal["random", "fixed"] | Model | Result = "random",
    random_state: int | np.random.RandomState | None = None,
    program: str | os.PathLike[str] | None = None,
    n_threads: int | None = None,
    timeout: float | None = None,
    verbose: bool = False,
) -> Result:
    """Fit with the Fortran program.

    Samples, first values and settings are written to a private directory, which is
    removed in the end. Ctrl-C and `timeout` return what the program last wrote.

    Parameters
    ----------
    X
        Real, finite samples, shape `(samples, channels)`. float32 stays float32.
    n_components, n_models, n_mixtures, density, sphering, center, max_iter
        See `fit`.
    learning_rate, newton, stopping, rejection, sharing, bounds, fixed, rescale
        See `fit`. Sharing and the diagonal sphering end the published builds with a
        segmentation fault.
    init, random_state
        See `fit`. First values are drawn here, the same as in `fit`, and read by the
        program, so that runs can be repeated, which its own clock does not allow.
    program
        See `find_fortran_program`.
    n_threads
        Threads of the program; None for the processors this process may use.
    timeout
        Seconds after which the program is stopped; None for no limit.
    verbose
        Show the program's iteration lines on the standard error stream.

    Returns
    -------
    Result
        The model after the last iteration.

    Raises
    ------
    FortranProgramError
        If the program fails, or ends without a usable result.
    TimeoutError
        If `timeout` passes before the program wrote anything.
    ValueError
        If the data or a setting cannot be used.
    """
    path = find_fortran_program(program)
    data = check_samples(X)
    check_choice("sphering", sphering, ("symmetric", "principal", "diagonal"))
    check_choice("density", density, tuple(d.name.lower() for d in Density))
    code = Density[str(density).upper()]
    threads = joblib.effective_n_jobs(-1) if n_threads is None else n_threads
    check_integer("n_threads", threads, 1)
    if code in (Density.SUPER_GAUSSIAN, Density.SUB_GAUSSIAN) and n_mixtures > 1:
        raise ValueError(
            f'`n_mixtures` must be 1 with `density="{density}"`: the program reads '
            "memory that it never wrote"
        )
    mean, covariance = moments(data, Alone(), center)
    sphere = fit_sphering(mean, covariance, sphering, n_components, fortran=True)
    n = len(sphere.matrix)
    model = _first_values(init, n, n_models, n_mixtures, code, random_state)
    parameters = fortran_parameters(
        max_iter=max_iter,
        learning_rate=learning_rate or LearningRate(),
        newton=Newton() if newton is True else newton or None,
        stopping=stopping or Stopping(),
        rejection=rejection,
        sharing=sharing,
        bounds=bounds or Bounds(),
        fixed=fixed,
        rescale=rescale,
    )
    parameters |= {
        "num_models": n_models,
        "num_mix_comps": n_mixtures,
        "pdftype": int(code),
        "do_mean": center,
        "do_sphere": sphering != "diagonal",
        "do_approx_sphere": sphering == "symmetric",
        "pcakeep": n,
        "max_threads": threads,
        # A segment shorter than threads x block is left out in silence; rejection
        # shortens segments.
        "block_size": max(1, min(512, len(data) // (4 * threads))),
    }
    with tempfile.TemporaryDirectory(prefix="amica-") as folder:
        directory = Path(folder)
        _write_samples(data, directory / "samples.fdt")
        _write_model(model, directory)
        parameters |= {
            "files": "samples.fdt",
            "num_samples": (1,),
            "data_dim": data.shape[1],
            "field_dim": (len(data),),
            "dble_data": data.dtype == np.float64,
            "outdir": "out",
            "indir": ".",
        }
        run = run_fortran(
            parameters, directory, program=path, timeout=timeout, verbose=verbose
        )
    result = from_amicaout(run.output, density=code, n_samples=len(data))
    result = replace(
        result, sphering=result.sphering._replace(variances=sphere.variances)
    )
    return replace(result, stop_reason="interrupted") if run.interrupted else result


def fortran_parameters(
    *,
    max_iter: int,
    learning_rate: LearningRate,
    newton: Newton | None,
    stopping: Stopping,
    rejection: Rejection | None,
    sharing: Sharing | None,
    bounds: Bounds,
    fixed: Collection[str],
    rescale: bool,
) -> dict[str, Any]:
    """Return settings of a fit by the Fortran program's keys."""
    parameters: dict[str, Any] = {
        "files": "",  # must come before `num_samples`
        "max_iter": max_iter,
        "writestep": 50,
        "write_nd": True,
        "write_LLt": rejection is not None,
        "do_opt_block": False,
        "lrate": learning_rate.rate,
        "minlrate": learning_rate.minimum,
        "lratefact": learning_rate.factor,
        "newt_ramp": learning_rate.ramp,
        "max_decs": learning_rate.max_decreases,
        "rholrate": learning_rate.shape_rate,
        "rholratefact": learning_rate.shape_factor,
        "do_newton": newton is not None,
        "use_min_dll": stopping.min_change is not None,
        "use_grad_norm": stopping.min_gradient is not None,
        "invsigmin": bounds.beta[0],
        "invsigmax": bounds.beta[1],
        "minrho": bounds.rho[0],
        "maxrho": bounds.rho[1],
        "doscaling": rescale,
        "do_reject": rejection is not None,
        "share_comps": sharing is not None,
        "mineig": 1e-15,
        "fix_init": False,
        **{key: field not in fixed for key, field in _FIELDS.items()},
        **{f"load_{name}": True for name in _INITIAL},
    }
    if newton is not None:
        parameters |= {"newt_start": newton.start, "newtrate": newton.rate}
    if stopping.min_change is not None:
        parameters["min_dll"] = stopping.min_change
    if stopping.min_gradient is not None:
        parameters["min_grad_norm"] = stopping.min_gradient
    if rejection is not None:
        parameters |= {
            "rejstart": rejection.start,
            "rejint": rejection.interval,
            "numrej": rejection.rounds,
            "rejsig": rejection.threshold,
        }
    if sharing is not None:
        parameters |= {
            "share_start": sharing.start,
            "share_iter": sharing.interval,
            "comp_thresh": sharing.threshold,
        }
    return parameters


# Keys `load_*` with the field of the model and the name of the file.
_INITIAL = {
    "A": ("A", "A"),
    "c": ("c", "c"),
    "gm": ("gm", "gm"),
    "alpha": ("alpha", "alpha"),
    "mu": ("mu", "mu"),
    "beta": ("beta", "sbeta"),
    "rho": ("rho", "rho"),
}


def _first_values(
    init: str | Model | Result,
    n: int,
    n_models: int,
    n_mixtures: int,
    density: Density,
    random_state: int | np.random.RandomState | None,
) -> Model:
    if isinstance(init, Model):
        wanted, seen = (
            (n, n_models, n_mixtures),
            (init.n_components, init.n_models, init.n_mixtures),
        )
        if seen != wanted:
            raise ValueError(
                f"`init` must have {wanted} components, models and mixture terms, "
                f"got {seen}"
            )
        if len(np.unique(init.slots)) < init.slots.size:
            raise ValueError(
                "`init` must not share components: the program cannot read which"
            )
        # The program numbers slots in order.
        order = init.slots.T.ravel()
        names = ("A", "alpha", "mu", "beta", "rho")
        return init._replace(**{k: getattr(init, k)[:, order] for k in names})
    if isinstance(init, Result):
        raise ValueError(
            "`init` must not be a Result: the program makes its own sphering; give "
            "`init.model` where the data are the same"
        )
    check_choice("init", init, ("random", "fixed"))
    if init == "fixed" and n_models > 1:
        raise ValueError(
            '`init="fixed"` makes all models equal, and they would stay so; got '
            f"`n_models` {n_models}"
        )
    seed = None
    if init == "random":  # the jitter that `fit` would draw
        seed = check_random_state(random_state).randint(2**31)
    return initial_model(n, n_models, n_mixtures, density=density, random_state=seed)


def _write_samples(data: NDArray, path: Path) -> None:
    with open(path, "wb") as file:
        for start in range(0, len(data), 65536):
            block = data[start : start + 65536]
            file.write(np.ascontiguousarray(block, block.dtype.newbyteorder("<")).data)


def _write_model(model: Model, directory: Path) -> None:
    for field, name in _INITIAL.values():
        values = np.asarray(getattr(model, field), dtype="<f8")
        (directory / name).write_bytes(values.tobytes(order="F"))
