"""A cheap start of a quasi-Newton fit: the same search on a few samples first.

Far from the solution, a part of the samples shows the way as well as all of them do.
The first part has a few samples for each entry of the unmixing matrix, every further
one four times as many.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._backend.protocol import Backend
from ._em import LoopState, Plan, run
from ._group import Group
from ._model import Model
from ._quasi_newton import Search
from ._schedule import Schedule, StopReason
from ._settings import LearningRate, Stopping
from ._sphere import Recording, Sphering

_PER_ENTRY = 6
_LEAST = 2000
_GROWTH = 4
# A part is worth its copy where it is at most this share of all samples.
_LARGEST_SHARE = 0.3
_MAX_ITER = 60
# The optimum of a part is not that of the whole: there is no point in reaching it.
_STOPPING = Stopping(min_change=1e-5, patience=2, min_gradient=None)


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
    for share in shares(n_all, model.n_components, model.n_models):
        size = max(1, int(share * len(data)))
        # Evenly spaced samples would be at the mercy of rhythms in the recording.
        chosen = np.random.default_rng(0).choice(len(data), size, replace=False)
        part = Recording(np.asarray(data[np.sort(chosen)]), sphering)
        state = LoopState(
            model=model,
            schedule=Schedule.start(LearningRate(), None, _STOPPING),
            kept=np.ones(size, bool),
            best=model,
            search=Search(),
        )
        run(state, part, backend, plan, group, lambda _: None)
        model = state.best
        if state.stop_reason == "interrupted":
            return model, "interrupted"
    return model, None


def shares(n_samples: float, n_components: int, n_models: int) -> list[float]:
    """Return the shares of all samples that are searched before the whole."""
    size, found = max(_PER_ENTRY * n_components**2, _LEAST) * n_models, []
    while size <= _LARGEST_SHARE * n_samples:
        found.append(size / n_samples)
        size *= _GROWTH
    return found
