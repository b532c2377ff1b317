"""The function that fits: checks, sphering, first values, loop, result."""

import os
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from ._backend.protocol import default_backend, load_backend
from ._check import check_choice, check_instance, check_integer, check_samples
from ._checkpoint import Checkpoint
from ._em import LoopState, Plan, run
from ._group import Alone, Group
from ._history import History
from ._model import Model, initial_model
from ._progress import Progress
from ._quasi_newton import Search
from ._rejection import Rejection
from ._result import Result
from ._schedule import Schedule
from ._settings import Bounds, LearningRate, Newton, Stopping
from ._sharing import Sharing
from ._sphere import (
    SPHERING_KINDS,
    Recording,
    Sphering,
    SpheringKind,
    fit_sphering,
    moments,
)
from ._statistics import Density
from ._switching import Switching
from ._warm_start import warm_start

DensityName = Literal[
    "generalized_gaussian",
    "super_gaussian",
    "gaussian",
    "logistic",
    "sub_gaussian",
    "switching",
]
Solver = Literal["em", "quasi_newton"]
_SOLVERS = ("em", "quasi_newton")
# A step of EM that gains little says little of what is left; one of L-BFGS does.
_STOPPING = {"em": Stopping(), "quasi_newton": Stopping(min_change=1e-7)}
_DENSITIES = (*(d.name.lower() for d in Density), "switching")
_LEARNABLE = ("A", "c", "gm", "alpha", "mu", "beta", "rho")


def fit(
    X: ArrayLike,
    n_components: int | None = None,
    *,
    n_models: int = 1,
    n_mixtures: int = 3,
    density: DensityName | Switching = "generalized_gaussian",
    sphering: SpheringKind = "symmetric",
    center: bool = True,
    max_iter: int = 2000,
    solver: Solver = "em",
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
    compatibility: Literal["fortran"] | None = None,
    backend: str | None = None,
    backend_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_interval: int = 50,
    group: Group | None = None,
    verbose: bool = False,
) -> Result:
    r"""Fit a mixture of ICA models with adaptive source densities by EM.

    $$p(x) = \sum_h \gamma_h |\det W_h| \prod_i \sum_j \alpha_{hij} \beta_{hij}
    \, q(\beta_{hij} (b_{hi} - \mu_{hij}); \rho_{hij}), \qquad b_h = W_h (x - c_h)$$

    on centred and sphered samples $x$.

    Parameters
    ----------
    X
        Real, finite samples, shape `(samples, channels)`. float32 and float64 are
        read in place (memory maps too), other kinds are converted to float64. Needs
        more samples than channels.
    n_components
        Components to keep, at most the rank of the data; None keeps the rank, and
        warns where that is below the number of channels.
    n_models
        ICA models in the mixture.
    n_mixtures
        Terms in the density of each source.
    density
        Kind of these terms; `"switching"` (or a `Switching`) chooses the sub- or the
        super-Gaussian for each source by its kurtosis.
    sphering
        How channels are made white; the `kind` of `sphere`.
    center
        Whether channel means are subtracted first.
    max_iter
        Most iterations, each with one E-step.
    solver
        `"em"`: the steps of EM and of Newton, as the Fortran program takes them.
        `"quasi_newton"`: L-BFGS over all parameters, with EM's curvature as its first
        guess; it never lowers the log-likelihood and needs several times fewer
        iterations. Where there are many samples, and `init` gives no values, ICA with
        simple densities on a part of them finds its first values. Not for `sharing`;
        `learning_rate` and `newton` are settings of EM.
    learning_rate, stopping, bounds
        See `LearningRate`, `Stopping` and `Bounds`; None for their defaults, but for
        `min_change`, which is 1e-7 with the quasi-Newton solver.
    newton
        See `Newton`; True for its defaults, False for natural gradient only.
    rejection, sharing
        See `Rejection` and `Sharing`; None for neither.
    fixed
        Names of fields of `Model` that keep their first values, of
        `A c gm alpha mu beta rho`.
    rescale
        Give mixing columns unit norm after every update, and the densities the scale.
    init
        `"random"`: identity mixing and evenly spaced terms with a little jitter.
        `"fixed"`: without jitter (for one model). A `Model` gives all first values in
        sphered space. A `Result` is fitted further, with its sphering.
    random_state
        Seed of the jitter; the same seed gives the same fit.
    compatibility
        `"fortran"` computes what the Fortran program does where that is not what it
        should be; the documentation lists the differences.
    backend
        Engine of the E-step: `"native"` (compiled; holds the sphered samples in
        memory), `"numpy"` (streams them), `"torch"` (streams them on a CPU, holds them
        on a device). None for `"native"` where it is installed, else `"numpy"`.
        `"fortran"` hands the whole fit to the Fortran program; see `fit_fortran`.
    backend_options
        Settings of the engine, for example `{"device": "cuda", "dtype": "float32"}`,
        or `{"program": "/opt/amica15"}`.
    checkpoint
        File in which the state of the fit is kept. If it exists, the fit goes on from
        it to the numbers that it would have reached without a break; also when
        `max_iter` has been raised since.
    checkpoint_interval
        Iterations between two writings of `checkpoint`.
    group
        Processes that share the samples; see `TorchGroup`. `X` holds those of this
        process.
    verbose
        Show a progress line on the standard error stream.

    Returns
    -------
    Result
        The model with the highest log-likelihood met (with `compatibility="fortran"`
        the last one).

    Raises
    ------
    ValueError
        If the data or an argument cannot be used; the message says what was wanted.
    FloatingPointError
        If the initial values give no finite log-likelihood.

    References
    ----------
    J. A. Palmer, K. Kreutz-Delgado and S. Makeig, *AMICA: an adaptive mixture of
    independent component analyzers with shared components*, UCSD, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> import amica_core
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    >>> result = amica_core.fit(X, max_iter=30, random_state=0)
    >>> result.unmixing().shape
    (3, 3)
    """
    if backend == "fortran":
        # The program has a loop of its own; the adapter checks what it can run.
        from ._fortran.fit import fit_fortran

        if checkpoint is not None or group is not None:
            name = "group" if checkpoint is None else "checkpoint"
            raise ValueError(f'`{name}` must be None with `backend="fortran"`')
        check_choice("solver", solver, ("em",))
        return fit_fortran(
            X,
            n_components,
            n_models=n_models,
            n_mixtures=n_mixtures,
            density=density,
            sphering=sphering,
            center=center,
            max_iter=max_iter,
            learning_rate=learning_rate,
            newton=newton,
            stopping=stopping,
            rejection=rejection,
            sharing=sharing,
            bounds=bounds,
            fixed=fixed,
            rescale=rescale,
            init=init,
            random_state=random_state,
            verbose=verbose,
            **(backend_options or {}),
        )
    data = check_samples(X)
    check_choice("sphering", sphering, SPHERING_KINDS)
    if compatibility is not None:
        check_choice("compatibility", compatibility, ("fortran",))
    fortran = compatibility == "fortran"
    _check_solver(solver, learning_rate, newton, sharing, fortran, init)
    group = Alone() if group is None else group
    plan, schedule, code = _check_settings(
        max_iter=max_iter,
        learning_rate=LearningRate() if learning_rate is None else learning_rate,
        newton=newton,
        stopping=_STOPPING[solver] if stopping is None else stopping,
        rejection=rejection,
        sharing=sharing,
        density=density,
        n_mixtures=n_mixtures,
        bounds=Bounds() if bounds is None else bounds,
        fixed=fixed,
        rescale=rescale,
        fortran=fortran,
    )
    backend = default_backend() if backend is None else backend
    engine = load_backend(backend, **(backend_options or {}))

    if isinstance(init, Result):
        sphere = _check_sphering(init.sphering, data)
    else:
        mean, covariance = moments(data, group, center)
        sphere = fit_sphering(mean, covariance, sphering, n_components, fortran)
    model = _first_model(
        init, len(sphere.matrix), n_models, n_mixtures, code, random_state, group
    )
    state = LoopState(
        model=model, schedule=schedule, kept=np.ones(len(data), bool), best=model
    )
    if solver == "quasi_newton":
        state.search = Search()
    store = None
    found = None
    if checkpoint is not None:
        check_integer("checkpoint_interval", checkpoint_interval, 1)
        settings = {"solver": solver} | _what_decides(
            plan, schedule, backend, backend_options, model
        )
        store = Checkpoint(checkpoint, checkpoint_interval, settings, group)
        found = store.load(sphere, len(data), schedule)
        if found is not None:
            state, sphere = found
            state.resume(plan)
    progress = Progress(max_iter) if verbose and group.rank == 0 else None

    interrupted = False
    if solver == "quasi_newton" and found is None and isinstance(init, str):
        state.model, reason = warm_start(model, data, sphere, engine, plan, group)
        state.best, interrupted = state.model, reason == "interrupted"
        if interrupted:  # see how good the model is, and no more
            plan = replace(plan, max_iter=1)

    def after_iteration(state: LoopState) -> None:
        if progress:
            progress(state)
        if store and store.is_due(state):
            store.save(state, sphere)

    run(state, Recording(data, sphere), engine, plan, group, after_iteration)
    if progress:
        progress.close(state)
    return Result(
        model=state.model if fortran else state.best,
        sphering=sphere,
        history=History.of(state.records),
        kept=state.kept,
        stop_reason="interrupted"
        if interrupted
        else state.stop_reason or "interrupted",
        fortran=fortran,
        best_iteration=0 if fortran else state.best_iteration,
    )


def _check_settings(
    *,
    max_iter: int,
    learning_rate: LearningRate,
    newton: Newton | bool,
    stopping: Stopping,
    rejection: Rejection | None,
    sharing: Sharing | None,
    density: DensityName | Switching,
    n_mixtures: int,
    bounds: Bounds,
    fixed: Collection[str],
    rescale: bool,
    fortran: bool,
) -> tuple[Plan, Schedule, Density]:
    check_integer("max_iter", max_iter, 1)
    check_integer("n_mixtures", n_mixtures, 1)
    check_instance("learning_rate", learning_rate, LearningRate)
    check_instance("stopping", stopping, Stopping)
    check_instance("bounds", bounds, Bounds)
    if not isinstance(newton, bool):
        check_instance("newton", newton, Newton)
    for name, value, kind in (
        ("rejection", rejection, Rejection),
        ("sharing", sharing, Sharing),
    ):
        if value is not None:
            check_instance(name, value, kind)
    if isinstance(fixed, str) or not set(fixed) <= set(_LEARNABLE):
        raise ValueError(f"`fixed` must hold names of {_LEARNABLE}, got {fixed!r}")
    switching = density if isinstance(density, Switching) else None
    if switching is None:
        check_choice("density", density, _DENSITIES)
        if density == "switching":
            switching = Switching()
    code = (
        Density.SUPER_GAUSSIAN
        if switching is not None
        else Density[str(density).upper()]
    )
    if fortran and switching is not None:
        raise ValueError(
            '`density="switching"` does not exist with `compatibility="fortran"`: the '
            "program parses its settings and ignores them"
        )
    if fortran and code in (1, 4) and n_mixtures > 1:
        raise ValueError(
            "`n_mixtures` must be 1 for the sub- and super-Gaussian densities with "
            '`compatibility="fortran"`: the program reads memory that it never wrote'
        )
    plan = Plan(
        max_iter=max_iter,
        rejection=rejection,
        sharing=sharing,
        switching=switching,
        bounds=bounds,
        fixed=frozenset(fixed),
        rescale=rescale,
        fortran=fortran,
        freeze=(sharing or Sharing()) if fortran else None,
    )
    steps = (Newton() if newton else None) if isinstance(newton, bool) else newton
    return plan, Schedule.start(learning_rate, steps, stopping), code


def _check_solver(
    solver: Solver,
    learning_rate: LearningRate | None,
    newton: Newton | bool,
    sharing: Sharing | None,
    fortran: bool,
    init: str | Model | Result,
) -> None:
    check_choice("solver", solver, _SOLVERS)
    if solver == "em":
        return
    for name, given, wanted in (
        ("learning_rate", learning_rate is not None, "None"),
        ("newton", newton is not True, "True"),
        ("sharing", sharing is not None, "None"),
        ("compatibility", fortran, "None"),
    ):
        if given:
            raise ValueError(
                f'`{name}` must be {wanted} with `solver="quasi_newton"`, which takes '
                'no steps of EM; use `solver="em"`'
            )
    model = init.model if isinstance(init, Result) else init
    if isinstance(model, Model) and len(np.unique(model.slots)) < model.slots.size:
        raise ValueError(
            '`init` must not share components with `solver="quasi_newton"`; use '
            '`solver="em"`'
        )


def _what_decides(
    plan: Plan,
    schedule: Schedule,
    backend: str,
    backend_options: Mapping[str, Any] | None,
    first: Model,
) -> dict[str, Any]:
    """Return what the course of a fit depends on besides the samples."""
    decides = {f.name: getattr(plan, f.name) for f in fields(plan)}
    del decides["max_iter"]
    decides["fixed"] = sorted(plan.fixed)
    return decides | {
        "learning_rate": schedule.learning_rate,
        "newton": schedule.newton,
        "stopping": schedule.stopping,
        "backend": backend,
        "backend_options": dict(backend_options or {}),
        "init and random_state": [float(np.sum(values)) for values in first],
    }


def _check_sphering(sphering: Sphering, data: NDArray) -> Sphering:
    expected = sphering.matrix.shape[1]
    if data.shape[1] != expected:
        raise ValueError(
            f"`X` must have the {expected} channels of `init`, got {data.shape[1]}"
        )
    return sphering


def _first_model(
    init: str | Model | Result,
    n: int,
    n_models: int,
    n_mixtures: int,
    density: Density,
    random_state: int | np.random.RandomState | None,
    group: Group,
) -> Model:
    check_integer("n_models", n_models, 1)
    if isinstance(init, Result | Model):
        model = init.model if isinstance(init, Result) else init
        wanted = (n, n_models, n_mixtures)
        seen = (model.n_components, model.n_models, model.n_mixtures)
        if seen != wanted:
            raise ValueError(
                f"`init` must have {wanted} components, models and mixture terms, "
                f"got {seen}"
            )
        return model
    check_choice("init", init, ("random", "fixed"))
    if init == "fixed":
        if n_models > 1:
            raise ValueError(
                '`init="fixed"` makes all models equal, and they would stay so; got '
                f"`n_models` {n_models}"
            )
        return initial_model(n, n_models, n_mixtures, density=density)
    seed = check_random_state(random_state).randint(2**31) if group.rank == 0 else 0
    seed = int(group.sum(np.array([seed], dtype=np.float64))[0])
    return initial_model(n, n_models, n_mixtures, density=density, random_state=seed)
