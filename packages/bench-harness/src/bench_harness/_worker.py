"""The process in which one contender lives.

It is started as ``python -m bench_harness._worker`` and obeys one JSON object a line
from its standard input: set up, run once, run timed, finish. What the contender prints
goes to standard error, so that it cannot disturb the answers.
"""

import faulthandler
import gc
import json
import math
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._case import Unavailable, Workload
from ._discover import load_file
from ._machine import software_versions, telling_environment
from ._memory import (
    device_facts,
    peak_bytes,
    reset_device_peaks,
    reset_peak,
    resident_bytes,
)
from ._records import _encode


class Worker:
    """Holds the workload between two requests."""

    def __init__(self) -> None:
        self.work = Workload(run=lambda: None)
        self.headline: str | None = None
        self.memory: dict[str, Any] = {}
        self.out: Any = None

    def setup(self, path: str, case: str, contender: str, params: dict) -> dict:
        """Call the contender's function, which imports and prepares what it needs."""
        begin = time.perf_counter()
        declared = next(c for c in load_file(Path(path)) if c.name == case)
        work = declared.contenders[contender].setup(**params)
        if not isinstance(work, Workload):
            raise TypeError(
                f"the function of contender {contender!r} must return a `Workload`, "
                f"got {type(work).__name__}."
            )
        self.work, self.headline = work, declared.quality
        return {"repeats": work.repeats, "setup_s": time.perf_counter() - begin}

    def first(self) -> dict:
        """Run once, where a compiler compiles, and note the memory around it."""
        reset_device_peaks()
        reset_peak()
        self.memory["rss_before_bytes"] = resident_bytes()
        answer = self.timed(1)
        peak = peak_bytes()
        self.memory["rss_first_peak_bytes"] = peak
        if self.work.repeats == 0:
            self.memory |= {"rss_peak_bytes": peak, "rss_peak_of": "first call"}
            return answer
        # Without this a full collection walks all that the set-up imported, and takes
        # longer than many a repetition.
        gc.collect()
        gc.freeze()
        self.memory["rss_peak_of"] = "timed runs" if reset_peak() else "whole life"
        return answer

    def calibrate(self, least_s: float) -> dict:
        """Find how many calls fill `least_s`; one where a single call does."""
        calls = 1
        while (seconds := self.timed(calls)["seconds"] * calls) < least_s / 2:
            # A cold call is far slower than a warm one: approach by leaps.
            calls *= min(10, max(2, round(least_s / max(seconds, 1e-9))))
        return {"calls": max(1, round(calls * least_s / seconds)) if least_s else 1}

    def timed(self, calls: int) -> dict:
        """Run so many times and return the mean seconds of one call."""
        run, sync = self.work.run, self.work.sync
        self.out = None  # two outputs at once would count twice in the peak
        begin = time.perf_counter()
        for _ in range(calls):
            self.out = None
            self.out = run()
            sync(self.out)
        return {"seconds": (time.perf_counter() - begin) / calls}

    def finish(self) -> dict:
        """Judge the last output and collect what a record says of the process."""
        if self.work.repeats != 0:
            self.memory["rss_peak_bytes"] = peak_bytes()
        self.memory["scratch_bytes"] = _scratch(self.work)
        devices = device_facts()
        peaks = [d["peak_bytes"] for d in devices if d["peak_bytes"]]
        self.memory["device_peak_bytes"] = sum(peaks) if peaks else None
        return {
            "quality": _quality(self.work.quality, self.out, self.headline),
            "curves": _curves(self.work.curves, self.out),
            "memory": self.memory,
            "devices": devices,
            "environment": telling_environment(),
            "software": software_versions(),
        }


def _scratch(work: Workload) -> int | None:
    scratch = work.scratch_bytes
    if not callable(scratch):
        return scratch
    planned = scratch()
    if not isinstance(planned, int) or planned < 0:
        raise TypeError(
            f"`scratch_bytes` must return an integer of at least 0, got {planned!r}."
        )
    return planned


def _quality(
    judge: Callable[[Any], Mapping[str, float]] | None, out: Any, headline: str | None
) -> dict[str, float]:
    scores = {} if judge is None else judge(out)
    if not isinstance(scores, Mapping):
        raise TypeError(
            f"`quality` must return a mapping of scalars, got {type(scores).__name__}."
        )
    if headline is not None and headline not in scores:
        raise ValueError(
            f"`quality` must return {headline!r}, the quality that the case names, "
            f"got {list(scores)}."
        )
    return {str(key): _number(value, str(key)) for key, value in scores.items()}


def _curves(
    draw: Callable[[Any], Mapping[str, Sequence]] | None, out: Any
) -> dict[str, dict[str, list[float]]]:
    curves = {} if draw is None else draw(out)
    if not isinstance(curves, Mapping):
        raise TypeError(
            f"`curves` must return a mapping of curves, got {type(curves).__name__}."
        )
    return {str(name): _curve(str(name), curve) for name, curve in curves.items()}


def _curve(name: str, curve: Sequence) -> dict[str, list[float]]:
    if not hasattr(curve, "__len__"):
        raise TypeError(
            f"curve {name!r} must be a sequence of numbers or a pair of sequences, "
            f"got {curve!r}."
        )
    is_pair = (
        isinstance(curve, tuple) and len(curve) == 2 and hasattr(curve[0], "__len__")
    )
    xs, ys = curve if is_pair else (range(1, len(curve) + 1), curve)
    if len(xs) != len(ys):
        raise ValueError(
            f"curve {name!r} must have as many x as y, got {len(xs)} and {len(ys)}."
        )
    return {
        "x": [_number(value, name) for value in xs],
        "y": [_number(value, name) for value in ys],
    }


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name!r} must be a scalar number, got {value!r}.") from None
    # Counts stay integers, as long as they can be told from a rounded measurement.
    is_count = isinstance(value, int) and math.isfinite(number)
    return value if is_count and not isinstance(value, bool) else number


def _answer(worker: Worker, request: dict) -> dict:
    operation = request.pop("op")
    try:
        return {"ok": True, **getattr(worker, operation)(**request)}
    except Unavailable as reason:
        return {"ok": False, "status": "missing", "reason": str(reason)}
    except Exception as error:
        return {
            "ok": False,
            "status": "failed",
            "reason": f"{type(error).__name__}: {error}",
            "traceback": traceback.format_exc(),
        }


def main() -> None:
    """Obey until the requests end."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    faulthandler.enable()
    worker = Worker()
    for line in requests:
        answer = _answer(worker, json.loads(line))
        answers.write(json.dumps(_encode(answer)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
