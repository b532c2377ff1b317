"""The EM loop, written once over the backends: statistics, judgement, update."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ._backend.protocol import Backend
from ._group import Group, sum_statistics
from ._history import Record
from ._interrupt import deferred_interrupt
from ._model import Model, expectation_parameters
from ._quasi_newton import Search
from ._rejection import Rejection, reject
from ._schedule import Schedule, StopReason
from ._settings import Bounds
from ._sharing import Sharing, share
from ._sphere import Recording
from ._statistics import Options, Statistics
from ._switching import Switching, switch
from ._update import in_standard_form, maximize, mixing_direction

# Steps that ended in a log-likelihood that is not finite are taken back this often.
_MAX_RECOVERIES = 3


@dataclass(frozen=True)
class Plan:
    """What the loop does besides following its schedule."""

    max_iter: int
    rejection: Rejection | None
    sharing: Sharing | None
    switching: Switching | None
    bounds: Bounds
    fixed: frozenset[str]
    rescale: bool
    fortran: bool
    # The Fortran program holds `A` still around each comparison, sharing or not.
    freeze: Sharing | None

    def freezes_mixing(self, iteration: int) -> bool:
        """Tell whether `A` stays in this iteration."""
        return (
            self.freeze is not None
            and iteration >= self.freeze.start
            and iteration % self.freeze.interval <= 5
        )


@dataclass
class LoopState:
    """Everything that changes between iterations, and that a checkpoint holds."""

    model: Model
    schedule: Schedule
    kept: NDArray[np.bool_]
    best: Model
    best_log_likelihood: float = -np.inf
    best_iteration: int = 0
    """The one whose log-likelihood is that of `best`; 0 where none is."""
    records: list[Record] = field(default_factory=list)
    previous: float | None = None
    rejections_done: int = 0
    recoveries: int = 0
    stop_reason: StopReason | None = None
    search: Search | None = None
    """That of the quasi-Newton solver; None for steps of EM."""

    @property
    def iteration(self) -> int:
        """Number of finished iterations."""
        return len(self.records)

    def resume(self, plan: Plan) -> None:
        """Take up a fit that was interrupted, or whose `max_iter` has been raised."""
        if self.stop_reason == "interrupted":
            self.stop_reason = None
        elif self.stop_reason == "max_iter" and self.iteration < plan.max_iter:
            self.stop_reason = None
            if not plan.fortran:
                self.records.pop()  # this iteration had no update yet
        if self.stop_reason is None and self.iteration >= plan.max_iter:
            self.stop_reason = "max_iter"

    def forget_best(self) -> None:
        """Start to look for the best model anew: log-likelihoods do not compare."""
        self.best, self.best_log_likelihood = self.model, -np.inf
        self.best_iteration = 0
        if self.search is not None:
            self.search.reset()


def run(
    state: LoopState,
    recording: Recording,
    backend: Backend,
    plan: Plan,
    group: Group,
    after_iteration: Callable[[LoopState], None],
) -> None:
    """Iterate until a rule stops the fit; Ctrl-C stops it too.

    `state` is changed in place and is whole whenever `after_iteration` is called. A
    first Ctrl-C waits for the end of the iteration, a second one does not.
    """
    blocks = backend.place(recording)
    try:
        with deferred_interrupt() as interrupt:
            while state.stop_reason is None:
                _iterate(state, blocks, recording, backend, plan, group)
                # All processes of a group stop together.
                asked = group.sum(np.array([float(interrupt.requested)]))
                if asked[0] > 0 and state.stop_reason is None:
                    state.stop_reason = "interrupted"
                after_iteration(state)
    except KeyboardInterrupt:
        state.stop_reason = "interrupted"


def expectation(
    blocks: Iterable[Any],
    model: Model,
    recording: Recording,
    backend: Backend,
    options: Options,
    kept: NDArray[np.bool_] | None,
    centred: bool = True,
) -> Statistics:
    """Sum the statistics of the blocks of this process."""
    parameters = expectation_parameters(
        model, recording.sphering.log_det, centred=centred, fortran=options.fortran
    )
    total: Statistics | None = None
    start = 0
    for block in blocks:
        stop = start + len(block)
        part = None if kept is None else kept[start:stop]
        sums = backend.statistics(block, parameters, options, part)
        total = sums if total is None else total + sums
        start = stop
    assert total is not None
    return total


def _iterate(
    state: LoopState,
    blocks: Iterable[Any],
    recording: Recording,
    backend: Backend,
    plan: Plan,
    group: Group,
) -> None:
    iteration, model, schedule = state.iteration + 1, state.model, state.schedule
    rejects = plan.rejection is not None and plan.rejection.is_due(
        iteration, state.rejections_done, plan.fortran
    )
    switches = plan.switching is not None and plan.switching.is_due(iteration)
    newton = state.search is not None or schedule.uses_newton(iteration)
    options = Options(
        newton=newton, kurtosis=switches, joint=rejects, fortran=plan.fortran
    )
    # The Fortran program forgets the centres when it does not update them.
    centred = not (plan.fortran and plan.fixed & {"A", "c"})
    kept = None if state.kept.all() else state.kept
    try:
        with np.errstate(all="ignore"):
            sums = expectation(
                blocks, model, recording, backend, options, kept, centred
            )
            joint, sums = sums.joint, sum_statistics(sums, group)
        log_likelihood = sums.log_likelihood / (sums.count * model.n_components)
    except np.linalg.LinAlgError:  # a mixing matrix is singular
        joint, sums, log_likelihood = None, None, np.nan
    found = sums is not None and bool(np.isfinite(log_likelihood))
    if state.search is not None and (found or state.search.base is not None):
        _climb(state, sums if found else None, log_likelihood, iteration, plan)
        if state.stop_reason is not None:
            return  # what is returned has been seen as it is
        if sums is not None and switches:
            _switch(state, sums)
        if plan.rejection is not None and joint is not None:
            _reject(state, joint, plan.rejection, group)
        return
    if sums is None or not found:
        _recover(state, iteration, plan)
        return

    with np.errstate(all="ignore"):
        direction = mixing_direction(model, sums, newton)
    change = None if state.previous is None else log_likelihood - state.previous
    last = iteration >= plan.max_iter
    if last and not plan.fortran:
        # Without an update, the model that is returned has this log-likelihood.
        reason: StopReason | None = "max_iter"
    else:
        reason = schedule.judge(iteration, change, direction.norm)
    if log_likelihood > state.best_log_likelihood:
        state.best, state.best_log_likelihood = model, log_likelihood
        state.best_iteration = iteration
    rate = 0.0
    if reason is None:
        state.previous = log_likelihood
        moves = "A" not in plan.fixed and not plan.freezes_mixing(iteration)
        if moves:
            rate = schedule.mixing_rate(direction.newton)
        with np.errstate(all="ignore"):
            state.model = maximize(
                model,
                sums,
                mixing_step=rate * direction.dA if moves else None,
                shape_rate=schedule.shape_rate,
                fixed=plan.fixed,
                bounds=plan.bounds,
                rescale=plan.rescale,
            )
        if plan.sharing is not None and plan.sharing.is_due(iteration):
            _share(state, recording, plan.sharing)
        if switches:
            _switch(state, sums)
        if plan.rejection is not None and joint is not None:
            _reject(state, joint, plan.rejection, group)
    state.records.append(
        Record(
            log_likelihood, direction.norm, rate, direction.newton, round(sums.count)
        )
    )
    state.stop_reason = "max_iter" if reason is None and last else reason


def _climb(
    state: LoopState,
    sums: Statistics | None,
    log_likelihood: float,
    iteration: int,
    plan: Plan,
) -> None:
    """Judge a trial of the quasi-Newton search and put the next in its place."""
    search, model = state.search, state.model
    assert search is not None
    accepted = sums is not None and search.improves(log_likelihood)
    last = iteration >= plan.max_iter
    reason: StopReason | None = "max_iter" if last else None
    norm, length = np.nan, 0.0
    with np.errstate(all="ignore"):
        if sums is not None:
            norm = mixing_direction(model, sums, newton=False).norm
        if sums is not None and accepted:
            state.best = in_standard_form(model, sums, plan.fixed, plan.rescale)
            state.best_log_likelihood = log_likelihood
            state.best_iteration = iteration
        if not last:
            if sums is not None and accepted:
                change = None
                if search.base is not None:
                    change = log_likelihood - search.log_likelihood
                reason = state.schedule.judge(iteration, change, norm)
                search.accept(model, sums, log_likelihood, plan.fixed, plan.bounds)
            if reason is None:
                trial = search.propose(accepted, log_likelihood, plan.bounds)
                if trial is None:
                    reason = "min_rate"
                else:
                    state.model, length = trial, search.length
    n_kept = int(np.count_nonzero(state.kept)) if sums is None else round(sums.count)
    state.records.append(Record(log_likelihood, norm, length, False, n_kept))
    state.stop_reason = reason


def _share(state: LoopState, recording: Recording, sharing: Sharing) -> None:
    shared = share(state.model, recording.sphering.inverse, sharing.threshold)
    if np.any(shared.slots != state.model.slots):
        state.model = shared
        state.forget_best()


def _switch(state: LoopState, sums: Statistics) -> None:
    switched = switch(state.model, sums)
    if np.any(switched.density != state.model.density):
        state.model = switched
        state.forget_best()


def _reject(
    state: LoopState, joint: NDArray[np.float64], rejection: Rejection, group: Group
) -> None:
    log_likelihood = logsumexp(joint, axis=1)
    state.kept = reject(log_likelihood, state.kept, rejection.threshold, group)
    state.rejections_done += 1
    state.forget_best()


def _recover(state: LoopState, iteration: int, plan: Plan) -> None:
    """Go back to the best model with smaller steps, or give up."""
    if not state.records:
        raise FloatingPointError(
            "the log-likelihood of the initial values is not finite; check `init` and "
            "the scale of `X`"
        )
    state.records.append(
        Record(np.nan, np.nan, 0.0, False, int(np.count_nonzero(state.kept)))
    )
    state.recoveries += 1
    if plan.fortran or state.recoveries > _MAX_RECOVERIES:
        state.stop_reason = "not_finite"
    elif iteration >= plan.max_iter:
        state.stop_reason = "max_iter"
    else:
        state.model, state.previous = state.best, None
        state.schedule.rate *= state.schedule.learning_rate.factor
        state.schedule.cut_ceilings(iteration)
