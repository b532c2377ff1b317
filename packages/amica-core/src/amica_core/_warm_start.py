"""A cheap start of a quasi-Newton fit: a simpler model, on a part of the samples.

Far from the solution, a part of the samples shows the way as well as all of them do,
and densities that still change with every step only bend the way to the mixing matrix.
The first part is therefore turned by ICA with one super- or sub-Gaussian density a
source, as kurtosis says (extended infomax: Lee, Girolami and Sejnowski, *Neural
Computation* 11, 1999); then the densities are fitted to the sources that it found. The
search over all parameters begins there, on parts that grow where there are many more
samples, and then on all of them.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._backend.protocol import Backend
from ._density import unit_variance
from ._em import LoopState, Plan, run
from ._group import Group
from ._model import Model, initial_model
from ._quasi_newton import Search
from ._schedule import Schedule, StopReason
from ._settings import LearningRate, Stopping
from ._sphere import Recording, Sphering
from ._statistics import Density
from ._switching import Switching

# Samples of the first part: for each entry of the unmixing matrices, and at least.
_PER_ENTRY = 6
_LEAST = 2000
# Where that is more than this share of all samples, a part of this share will do,
_LARGEST_SHARE = 0.25
# but a part that is smaller than wanted by more than this says too little.
_SCARCE = 1 / 3
_GROWTH = 4
_MAX_ITER = 60
# Densities settle in a few steps; the search over all parameters goes on with them.
_MAX_ITER_DENSITIES = 12
# The optimum of a part is not that of the whole: there is no point in reaching it.
_STOPPING = Stopping(min_change=1e-4, patience=2, min_gradient=None)
_SWITCHING = Switching(start=3, interval=10, rounds=4)
_DENSITIES = frozenset({"alpha", "mu", "beta", "rho"})


def warm_start(
    model: Model,
    data: NDArray,
    sphering: Sphering,
    backend: Backend,
    plan: Plan,
    group: Group,
) -> tuple[Model, StopReason | None]:
    """Return a better first model, and `"interrupted"` where Ctrl-C ended the search.

    Parameters
    ----------
    model
        First values.
    data
        All samples of this process, shape `(samples, channels)`.
    sphering
        From channels to sphered space.
    backend
        Computes the E-steps.
    plan
        Of the fit that follows; nothing is rejected or switched here.
    group
        Processes that share the samples; each takes a part of its own.
    """
    n_all = float(group.sum(np.array([float(len(data))]))[0])
    plan = replace(
        plan,
        max_iter=min(_MAX_ITER, plan.max_iter),
        rejection=None,
        switching=None,
    )
    reason: StopReason | None = None
    for i, share in enumerate(shares(n_all, model.n_components, model.n_models)):
        part = _part(data, share, sphering)
        search = _search if i > 0 else _first_search
        model, reason = search(model, part, backend, plan, group)
        if reason is not None:
            break
    return model, reason


def shares(n_samples: float, n_components: int, n_models: int) -> list[float]:
    """Return the shares of all samples that are searched before the whole."""
    wanted = max(_PER_ENTRY * n_components**2, _LEAST) * n_models
    largest = _LARGEST_SHARE * n_samples
    if largest < _SCARCE * wanted:
        return []
    found = [min(wanted, largest) / n_samples]
    while _GROWTH * found[-1] <= _LARGEST_SHARE:
        found.append(_GROWTH * found[-1])
    return found


def _part(data: NDArray, share: float, sphering: Sphering) -> Recording:
    size = max(1, int(share * len(data)))
    # Evenly spaced samples would be at the mercy of rhythms in the recording.
    chosen = np.random.default_rng(0).choice(len(data), size, replace=False)
    return Recording(np.asarray(data[np.sort(chosen)]), sphering)


def _search(
    model: Model, part: Recording, backend: Backend, plan: Plan, group: Group
) -> tuple[Model, StopReason | None]:
    """Return the best model of a search on a part, and whether Ctrl-C ended it."""
    state = LoopState(
        model=model,
        schedule=Schedule.start(LearningRate(), None, _STOPPING),
        kept=np.ones(part.n_samples, bool),
        best=model,
        search=Search(),
    )
    run(state, part, backend, plan, group, lambda _: None)
    return state.best, "interrupted" if state.stop_reason == "interrupted" else None


def _first_search(
    model: Model, part: Recording, backend: Backend, plan: Plan, group: Group
) -> tuple[Model, StopReason | None]:
    """Like `_search`, for the mixing matrices and then for the densities."""
    if "A" not in plan.fixed:
        turning = replace(
            plan,
            switching=_SWITCHING,
            fixed=plan.fixed | _DENSITIES | {"c"},
            rescale=False,  # a density that is fixed gives A its scale
        )
        simple, reason = _search(_simple(model), part, backend, turning, group)
        model = model._replace(A=_of_unit_variance(simple), gm=simple.gm)
        if reason is not None:
            return model, reason
    plan = replace(
        plan,
        max_iter=min(_MAX_ITER_DENSITIES, plan.max_iter),
        fixed=plan.fixed | {"A"},
    )
    return _search(model, part, backend, plan, group)


def _simple(model: Model) -> Model:
    """Return a model with the same mixing and one super-Gaussian density a source."""
    simple = initial_model(
        model.n_components, model.n_models, 1, density=Density.SUPER_GAUSSIAN
    )
    return simple._replace(A=model.A, slots=model.slots, gm=model.gm)


def _of_unit_variance(simple: Model) -> NDArray[np.float64]:
    """Return mixing columns for which the sources have a variance of about 1."""
    variance = [
        unit_variance(Density(code), shape[:1])[0]
        for code, shape in zip(simple.density, simple.rho.T, strict=True)
    ]
    return np.asarray(simple.A * np.sqrt(variance))
