"""Running cases: one process a contender, all contenders of a case in turns."""

import importlib.util
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ._case import Contender, Params
from ._discover import Found
from ._machine import git_state, load_average, machine_facts, usable_cores
from ._process import WorkerFailed, WorkerProcess
from ._profiles import Profile, profile_named
from ._records import Key, Record, Writer, _decode, read_results

# Thread pools of the worker that ran last may still spin when the next one begins.
_SETTLE_S = 0.01

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Group:
    """A case with one set of parameters: what is measured in turns."""

    found: Found
    params: Params
    profile: str

    @property
    def label(self) -> str:
        """Return the case and its parameters in a few words."""
        params = " ".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.found.case.name} {params}".strip()

    def blank(self, contender: str, status: str) -> Record:
        """Return the part of a record that does not depend on measuring."""
        case = self.found.case
        return Record(
            case=case.name,
            contender=contender,
            params=dict(self.params),
            profile=self.profile,
            status=status,
            claim=case.claim,
            baseline=case.baseline,
            quality_name=case.quality,
            better=case.better,
            tolerance=case.tolerance,
            version=self.found.version,
            install=case.contenders[contender].install,
        )


def plan(cases: Iterable[Found], profile: str) -> list[Group]:
    """Return what a profile measures of the given cases, in order."""
    return [
        Group(found, params, profile)
        for found in cases
        for params in found.case.profiles.get(profile, ())
    ]


def run_cases(
    cases: Sequence[Found],
    profile: str,
    output: str | Path,
    *,
    progress: Callable[[int, int, float, str], None] | None = None,
) -> list[Record]:
    """Measure cases and append their records to the results file in a folder.

    Groups whose records are there already, of the same version of the case and without
    a failure, are not measured again: calling it twice continues.

    Parameters
    ----------
    cases : sequence of Found
        From `load_cases`.
    profile : {"smoke", "laptop", "gpu"}
        Which parameters, and how thoroughly.
    output : path
        The folder of the run.
    progress : callable, optional
        Called with the groups done, the number of groups, the fraction of the present
        group that is done, and what is going on.

    Returns
    -------
    list of Record
        All records of the folder, those of earlier calls included.

    Raises
    ------
    UsageError
        For an unknown profile, or a folder that cannot be written to.
    """
    settings = profile_named(profile)
    groups = plan(cases, profile)
    output = Path(output)
    writer = Writer(output)
    known = {record.key: record for record in read_results(output)}
    for number, group in enumerate(groups):
        if is_finished(group, known):
            continue

        def step(fraction: float, text: str, number: int = number) -> None:
            if progress is not None:
                progress(number, len(groups), fraction, text)

        writer.append(measure(group, settings, step))
    return read_results(output)


def is_finished(group: Group, known: dict[Key, Record]) -> bool:
    """Tell whether every contender of the group has a record that still holds.

    Contenders are only comparable within the rounds they shared, so a group is measured
    as a whole or not at all. A failure is tried again, and so is a contender that was
    not installed then and is now.
    """
    for name, contender in group.found.case.contenders.items():
        record = known.get(group.blank(name, "missing").key)
        if record is None or record.version != group.found.version:
            return False
        if record.profile != group.profile or record.status == "failed":
            return False
        absent = bool(_absent_modules(contender))
        if absent != (record.status == "missing" and _was_absent(record)):
            return False
    return True


def measure(group: Group, settings: Profile, progress: Progress) -> list[Record]:
    """Measure all contenders of one group, interleaved, and return their records."""
    case = group.found.case
    machine, git = machine_facts(), git_state(group.found.path.parent)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    records: dict[str, Record] = {}
    with ExitStack() as stack:
        runners: list[_Runner] = []
        for name, contender in case.contenders.items():
            if absent := _absent_modules(contender):
                records[name] = replace(
                    group.blank(name, "missing"), reason=_absence(absent)
                )
                continue
            runner = _Runner(group, name, settings)
            stack.callback(runner.kill)
            runners.append(runner)
        _interleave(group, runners, settings, progress)
        for runner in runners:
            records[runner.name] = runner.record()
    machine["load_1min_end"] = load_average()
    return [
        replace(records[name], machine=machine, git=git, started=started)
        for name in case.contenders
    ]


class _Runner:
    """One contender on its way from set-up to record; a failure ends it early."""

    def __init__(self, group: Group, name: str, settings: Profile) -> None:
        self.group, self.name, self.settings = group, name, settings
        self.process = WorkerProcess(group.found.case.env, settings.timeout_s)
        self.failure: WorkerFailed | None = None
        self.repeats, self.own_repeats, self.calls = settings.repeats, False, 1
        self.facts: dict[str, Any] = {}
        self.times: list[float] = []
        self.spent_s = 0.0

    def set_up(self) -> None:
        """Let the contender import and prepare what it needs."""
        found = self.group.found
        answer = self._ask(
            "setup",
            path=str(found.path.resolve()),
            case=found.case.name,
            contender=self.name,
            params=dict(self.group.params),
        )
        if answer:
            self.facts["setup_s"] = answer["setup_s"]
            self.own_repeats = answer["repeats"] is not None
            if answer["repeats"] is not None:
                self.repeats = answer["repeats"]

    def warm_up(self) -> None:
        """Run for the first time and find how many calls a repetition needs."""
        if answer := self._ask("first"):
            self.facts["first_s"] = answer["seconds"]
            if self.repeats == 0:
                self.times.append(answer["seconds"])
        # Where the workload sets the number of its repetitions, an extra one for
        # warming up may cost minutes: the first call has to do.
        if not self.own_repeats and (
            answer := self._ask("calibrate", least_s=self.settings.least_s)
        ):
            self.calls = answer["calls"]

    def repeat(self) -> None:
        """Time one repetition."""
        if answer := self._ask("timed", calls=self.calls):
            self.times.append(answer["seconds"])
            self.spent_s += answer["seconds"] * self.calls

    def finish(self) -> None:
        """Let the worker judge its last output."""
        if answer := self._ask("finish"):
            del answer["ok"]
            self.facts.update(_decode(answer))
            self.process.close()

    def kill(self) -> None:
        """End the worker, whatever it is doing."""
        self.process.kill()

    def record(self) -> Record:
        """Return what there is to say about the contender."""
        if self.failure is not None:
            blank = self.group.blank(self.name, self.failure.status)
            return replace(blank, reason=self.failure.reason)
        blank = self.group.blank(self.name, "ok")
        return replace(blank, calls=self.calls, times_s=self.times, **self.facts)

    def _ask(self, operation: str, **arguments: Any) -> dict[str, Any] | None:
        if self.failure is not None:
            return None
        try:
            return self.process.ask(operation, **arguments)
        except WorkerFailed as failure:
            self.failure = failure
            self.process.kill()
            return None


def _interleave(
    group: Group, runners: list[_Runner], settings: Profile, progress: Progress
) -> None:
    total = len(runners) * (settings.repeats + 4)
    done = 0

    def tell(doing: str, runner: _Runner, steps: int) -> None:
        nonlocal done
        progress(min(done / total, 1.0), f"{group.label}: {runner.name} {doing}")
        done += steps

    _set_up(group, runners, progress)
    for runner in runners:
        tell("runs for the first time", runner, 3)
        runner.warm_up()
    for number, active in enumerate(_rounds(group, runners, settings), start=1):
        for runner in active:
            tell(f"round {number}", runner, 1)
            time.sleep(_SETTLE_S)
            runner.repeat()
    for runner in runners:
        tell("is judged", runner, 1)
        runner.finish()


def _set_up(group: Group, runners: list[_Runner], progress: Progress) -> None:
    """Set up as many at a time as there are cores: this is not timed."""
    progress(0.0, f"{group.label}: all contenders set up")
    pool = ThreadPoolExecutor(usable_cores() or 1)
    try:
        for _ in pool.map(_Runner.set_up, runners):
            pass
    finally:
        # On an interrupt the workers are killed next, which ends the threads.
        pool.shutdown(wait=False, cancel_futures=True)


def _rounds(
    group: Group, runners: list[_Runner], settings: Profile
) -> Iterator[list[_Runner]]:
    """Yield who takes part in each round, in an order that differs from round to round.

    The order depends on the group and the round alone, so that a run can be repeated.
    """
    number = 0
    while True:
        spent = sum(runner.spent_s for runner in runners)
        is_over = number >= settings.least_rounds and spent > settings.budget_s
        active = [
            runner
            for runner in runners
            if runner.failure is None
            and number < runner.repeats
            and (runner.own_repeats or not is_over)
        ]
        if not active:
            return
        seed = json.dumps([group.found.case.name, dict(group.params), number])
        random.Random(seed).shuffle(active)
        yield active
        number += 1


def _absent_modules(contender: Contender) -> list[str]:
    return [name for name in contender.requires if not importlib.util.find_spec(name)]


_NOT_INSTALLED = "not installed: "


def _absence(modules: list[str]) -> str:
    return _NOT_INSTALLED + ", ".join(modules)


def _was_absent(record: Record) -> bool:
    return (record.reason or "").startswith(_NOT_INSTALLED)
