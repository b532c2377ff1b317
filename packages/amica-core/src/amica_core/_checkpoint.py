"""Checkpoints: a fit that was killed goes on to the numbers it would have reached."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ._coordinates import Curvature
from ._em import LoopState
from ._group import Group
from ._history import History
from ._model import Model
from ._quasi_newton import Search
from ._schedule import Schedule
from ._sphere import Sphering
from ._storage import pack, read_arrays, unpack, write_arrays

_FORMAT = "amica-core checkpoint 1"
_RATES = (
    "rate",
    "ceiling",
    "newton_ceiling",
    "shape_rate",
    "shape_ceiling",
    "n_decreases",
    "n_small_changes",
)
_SEARCH = ("log_likelihood", "slope", "direction", "length", "n_trials")
_MEMORY = ("steps", "changes")
_COUNTS = (
    "best_log_likelihood",
    "best_iteration",
    "rejections_done",
    "recoveries",
)


class Checkpoint:
    """A file with the state of a fit.

    Parameters
    ----------
    path
        The file. Each process of a group writes its own; those after the first add
        their number to the name.
    interval
        Iterations between two writings.
    settings
        What the course of the fit depends on, by name, for the check that a file
        belongs to this fit.
    group
        Processes that fit together.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        interval: int,
        settings: dict[str, Any],
        group: Group,
    ):
        path = Path(path)
        self.path = path.with_name(path.name + (f".{group.rank}" if group.rank else ""))
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"`checkpoint` must lie in a folder that exists, got {self.path}"
            )
        self.interval = interval
        self.settings = {name: repr(value) for name, value in settings.items()}
        self.group = group

    def is_due(self, state: LoopState) -> bool:
        """Tell whether the state is to be written after this iteration."""
        return state.stop_reason is not None or state.iteration % self.interval == 0

    def save(self, state: LoopState, sphering: Sphering) -> None:
        """Write the state; an older file is replaced only once the new one is whole."""
        previous = np.nan if state.previous is None else state.previous
        write_arrays(
            self.path,
            {
                "format": np.array(_FORMAT),
                **{f"settings/{k}": np.array(v) for k, v in self.settings.items()},
                **pack("sphering", sphering),
                **pack("model", state.model),
                **pack("best", state.best),
                **pack("history", History.of(state.records)),
                **{f"schedule/{k}": getattr(state.schedule, k) for k in _RATES},
                **{k: getattr(state, k) for k in _COUNTS},
                "previous": np.array(previous),
                "kept": state.kept,
                "stop_reason": np.array(state.stop_reason or ""),
                **_pack_search(state.search),
            },
        )

    def load(
        self, sphering: Sphering, n_samples: int, schedule: Schedule
    ) -> tuple[LoopState, Sphering] | None:
        """Return the state in the file with its sphering; None if there is no file.

        Raises
        ------
        ValueError
            If the file belongs to other data, settings, or iterations of the group.
        """
        found = self.path.exists()
        arrays = read_arrays(self.path, _FORMAT) if found else {}
        done = len(arrays["history/newton"]) if found else 0
        count, iterations = self.group.sum(np.array([1.0, float(done)]))
        if iterations != count * done:
            raise ValueError(
                f"`checkpoint` files of the processes are not of one iteration; "
                f"delete them to start again: {self.path}"
            )
        if not found:
            return None
        self._check(arrays, sphering, n_samples)
        model = unpack("model", Model, arrays)
        for name in _RATES:
            setattr(schedule, name, arrays[f"schedule/{name}"].item())
        previous = arrays["previous"].item()
        state = LoopState(
            model=model,
            schedule=schedule,
            kept=arrays["kept"],
            best=unpack("best", Model, arrays),
            records=unpack("history", History, arrays).records(),
            previous=None if np.isnan(previous) else previous,
            stop_reason=str(arrays["stop_reason"]) or None,  # type: ignore[arg-type]
            search=_unpack_search(arrays),
            **{name: arrays[name].item() for name in _COUNTS},
        )
        return state, unpack("sphering", Sphering, arrays)

    def _check(
        self, arrays: dict[str, np.ndarray], sphering: Sphering, n_samples: int
    ) -> None:
        for name, value in self.settings.items():
            seen = str(arrays.get(f"settings/{name}"))
            if seen != value:
                raise ValueError(
                    f"`checkpoint` was written with `{name}` {seen}, not {value}; "
                    f"delete {self.path} to start again"
                )
        stored = unpack("sphering", Sphering, arrays)
        same = len(arrays["kept"]) == n_samples and all(
            np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6)
            for a, b in zip(stored[:2], sphering[:2], strict=True)
        )
        if not same:
            raise ValueError(
                f"`checkpoint` was written for other samples; delete {self.path} to "
                "start again"
            )


def _pack_search(search: Search | None) -> dict[str, Any]:
    if search is None:
        return {}
    if search.base is None or search.bend is None:
        return {"search/begun": np.array(False)}
    return {
        "search/begun": np.array(True),
        **pack("search/base", search.base),
        **pack("search/bend", search.bend),
        **{f"search/{name}": getattr(search, name) for name in _SEARCH},
        **{f"search/{name}": np.array(getattr(search, name)) for name in _MEMORY},
    }


def _unpack_search(arrays: dict[str, np.ndarray]) -> Search | None:
    if "search/begun" not in arrays:
        return None
    if not arrays["search/begun"]:
        return Search()
    found = Search()
    found.base = unpack("search/base", Model, arrays)
    found.bend = unpack("search/bend", Curvature, arrays)
    for name in _SEARCH:
        values = arrays[f"search/{name}"]
        setattr(found, name, values if values.ndim else values.item())
    for name in _MEMORY:
        setattr(found, name, list(arrays[f"search/{name}"]))
    return found
