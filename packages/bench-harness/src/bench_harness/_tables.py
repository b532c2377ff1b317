"""The tables of a report: columns once, then CSV and Markdown."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._records import Record
from ._summary import CaseSummary, Row, summarise
from ._text import (
    DASH,
    grown,
    interval,
    number,
    quality_title,
    seconds,
    size,
    times,
)

Cell = tuple[str, str]  # the figure, and a detail in smaller print


@dataclass(frozen=True)
class Column:
    """A column of figures; `kind` lets a renderer treat some of them specially."""

    title: str
    kind: str
    cell: Callable[[Row], Cell]


def columns(case: CaseSummary) -> list[Column]:
    """Return the columns that have something to show for a case."""
    every = [
        Column("time", "time", _time),
        Column("speed", "speed", _speed),
        *(_quality_column(case, name) for name in case.quality_names),
        Column("first call", "first", _first),
        Column("scratch", "memory", lambda row: _memory(row, "scratch_bytes")),
        Column("device peak", "memory", lambda row: _memory(row, "device_peak_bytes")),
        Column("resident peak", "memory", _resident),
    ]
    rows = case.rows("ok")
    return [c for c in every if any(c.cell(row)[0] != DASH for row in rows)]


def status_line(row: Row) -> str:
    """Say why a row has no figures."""
    record = row.record
    reason = record.reason or "no reason given"
    if record.status == "missing" and record.install:
        return f"{reason} (to install: {record.install})"
    return reason


def markdown(records: Sequence[Record], pictures: dict[str, list[str]]) -> str:
    """Return a Markdown page; `pictures` are paths by case."""
    lines = ["# Benchmarks", "", *_markdown_origin(records)]
    for case in summarise(records):
        lines += ["", f"## {case.name}", "", _markdown_case(case)]
        for path in pictures.get(case.name, []):
            lines += ["", f"![{case.name}]({path})"]
    return "\n".join(lines) + "\n"


def markdown_tables(records: Sequence[Record]) -> dict[str, str]:
    """Return each case's claim, table and notes, for a document that quotes them.

    Parameters
    ----------
    records : sequence of Record
        As `read_results` gives them.

    Returns
    -------
    dict of str to str
        Markdown by the name of the case, in the order of the records.
    """
    return {case.name: _markdown_case(case) for case in summarise(records)}


def origin(records: Sequence[Record]) -> list[str]:
    """Return what all records have in common: machine, versions, commit, time."""
    machines = dict.fromkeys(_machine(r) for r in records if r.machine)
    commits = dict.fromkeys(_commit(r) for r in records if r.git.get("commit"))
    days = sorted(r.started for r in records if r.started)
    profiles = dict.fromkeys(r.profile for r in records)
    lines = [f"profile {', '.join(profiles)}"] if profiles else []
    lines += list(machines)
    if days:
        first, last = days[0][:16], days[-1][:16]
        span = first if first == last else f"{first} to {last}"
        lines.append(span.replace("T", " ") + " UTC")
    return lines + [f"commit {commit}" for commit in commits]


def devices(record: Record) -> list[str]:
    """Return the accelerators that a record was measured on."""
    kinds = (d["kind"] for d in record.devices if d.get("platform") != "cpu")
    return list(dict.fromkeys(kinds))


def csv_text(records: Sequence[Record]) -> str:
    """Return one line a record, in seconds and bytes, with a header."""
    rows = [r for c in summarise(records) for g in c.groups for r in g.rows]
    table = [_csv_row(row) for row in rows]
    stream = io.StringIO()
    names = list(table[0]) if table else ["case"]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def _time(row: Row) -> Cell:
    if row.time is None:
        return DASH, ""
    return seconds(row.time.median), interval(row.time, seconds)


def _speed(row: Row) -> Cell:
    if row.is_baseline:
        return "1", "baseline"
    if row.speed is None:
        return DASH, ""
    return times(row.speed.median), interval(row.speed, times)


def _first(row: Row) -> Cell:
    return seconds(row.record.first_s), ""


def _memory(row: Row, key: str) -> Cell:
    return size(row.record.memory.get(key)), ""


def _resident(row: Row) -> Cell:
    more = grown(row.record)
    before = row.record.memory.get("rss_before_bytes")
    if more is None:
        return size(row.record.memory.get("rss_peak_bytes")), ""
    return f"+{size(more)}", f"over {size(before)}"


def _quality_column(case: CaseSummary, name: str) -> Column:
    kind = "headline" if name == case.quality_name else "quality"
    return Column(name, kind, lambda row: (number(row.record.quality.get(name)), ""))


def _markdown_origin(records: Sequence[Record]) -> list[str]:
    speed = "*speed* is the baseline's time over the contender's, round by round"
    return [
        " · ".join(origin(records)) + ".",
        "",
        f"Medians, with quartiles in brackets; {speed}: below 1 is slower.",
    ]


def _markdown_case(case: CaseSummary) -> str:
    return "\n".join([case.claim, "", *_markdown_table(case), *_markdown_notes(case)])


def _markdown_table(case: CaseSummary) -> list[str]:
    shown = columns(case)
    titles = [quality_title(case) if c.kind == "headline" else c.title for c in shown]
    titles = titles or ["result"]
    names = [*case.param_names, "contender"]
    lines = [
        _pipe([*names, *titles]),
        _pipe(["---"] * len(names) + ["---:"] * len(titles)),
    ]
    for group in case.groups:
        for row in group.rows:
            left = [str(group.params.get(name, "")) for name in case.param_names]
            lines.append(_pipe([*left, row.record.contender, *_figures(row, shown)]))
    return lines


def _figures(row: Row, shown: list[Column]) -> list[str]:
    if row.record.status != "ok":
        return [f"*{row.record.status}*"] + [""] * (len(shown) - 1)
    cells = (column.cell(row) for column in shown)
    return [f"{figure} ({detail})" if detail else figure for figure, detail in cells]


def _markdown_notes(case: CaseSummary) -> list[str]:
    lines = []
    for status, title in (("missing", "Not measured"), ("failed", "Failed")):
        notes = dict.fromkeys(
            f"- {row.record.contender}: {' '.join(status_line(row).split())}"
            for row in case.rows(status)
        )
        if notes:
            lines += ["", f"{title}:", "", *notes]
    return lines


def _pipe(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _machine(record: Record) -> str:
    machine = record.machine
    parts = [str(machine.get("cpu")), f"{machine.get('usable_cores')} cores"]
    if memory := machine.get("memory_bytes"):
        parts.append(size(memory))
    return ", ".join([*parts, *devices(record)])


def _commit(record: Record) -> str:
    return record.git["commit"][:10] + (
        " (with changes)" if record.git["dirty"] else ""
    )


def _csv_row(row: Row) -> dict[str, object]:
    record, memory = row.record, row.record.memory
    return {
        "case": record.case,
        "params": json.dumps(dict(record.params)),
        "profile": record.profile,
        "contender": record.contender,
        "status": record.status,
        "median_s": row.time and row.time.median,
        "lower_quartile_s": row.time and row.time.lower,
        "upper_quartile_s": row.time and row.time.upper,
        "speed": row.speed and row.speed.median,
        "speed_lower_quartile": row.speed and row.speed.lower,
        "speed_upper_quartile": row.speed and row.speed.upper,
        "rounds": len(record.times_s),
        "calls": record.calls,
        "first_s": record.first_s,
        "setup_s": record.setup_s,
        "scratch_bytes": memory.get("scratch_bytes"),
        "rss_before_bytes": memory.get("rss_before_bytes"),
        "rss_peak_bytes": memory.get("rss_peak_bytes"),
        "device_peak_bytes": memory.get("device_peak_bytes"),
        "quality_name": record.quality_name,
        "quality": record.score,
        "qualities": json.dumps(record.quality),
        "reason": record.reason,
        "version": record.version,
        "started": record.started,
    }
