"""One self-contained HTML page."""

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from ._plots import DARK, LIGHT
from ._records import Record
from ._summary import CaseSummary, Row, summarise
from ._tables import Column, columns, origin
from ._text import DASH, number, parameters, quality_title, times, verdict

# A picture in the light and in the dark.
Drawn = tuple[str, bytes, bytes]

_HOW = (
    "Each contender ran in a process of its own, in turns with the others. Times are "
    "medians of a single call with quartiles below; <em>speed</em> is the baseline's "
    "time over the contender's in the same round, so that 2&times; is twice as fast "
    "and 0.5&times; half as fast. The first call, where compilers work, stands apart."
)


def page(
    records: Sequence[Record], pictures: Mapping[str, Sequence[Drawn]] | None
) -> str:
    """Return the page; `pictures` by case, None where nothing can draw them."""
    cases = summarise(records)
    css = resources.files("bench_harness").joinpath("report.css").read_text("utf-8")
    body = [
        "<h1>Benchmarks</h1>",
        f'<p class="origin">{_spans(origin(records))}</p>',
        f'<p class="how">{_HOW}</p>',
    ]
    if pictures is None:
        body.append(
            '<p class="how">No pictures: matplotlib is not installed '
            "(<code>pip install 'bench-harness[plot]'</code>, then "
            "<code>bench report</code> draws them from the same results).</p>"
        )
    if len(cases) > 1:
        body.append(_overview(cases))
    body += [_card(case, (pictures or {}).get(case.name, ())) for case in cases]
    body.append(_software(records))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Benchmarks</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _overview(cases: Sequence[CaseSummary]) -> str:
    rows = "".join(
        f'<tr><td class="what"><a href="#{escape(case.name)}">{escape(case.name)}</a>'
        f"<small>{escape(case.claim)}</small></td>"
        f"<td>{_best_quality(case)}</td>"
        f"<td>{_span_of_speeds(case, best=True)}</td>"
        f"<td>{_span_of_speeds(case, best=False)}</td>"
        f"<td>{_unmeasured(case)}</td></tr>"
        for case in cases
    )
    return (
        '<section class="card"><div class="scroll"><table class="overview"><thead><tr>'
        "<th>case</th><th>best quality</th><th>fastest</th><th>slowest</th>"
        "<th>not measured</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _best_quality(case: CaseSummary) -> str:
    rows = [r for r in case.rows("ok") if not math.isnan(r.record.score or 0.0)]
    scores = [r.record.score for r in rows if r.record.score is not None]
    if not scores:
        return DASH
    best = min(scores) if case.better == "lower" else max(scores)
    names = dict.fromkeys(r.record.contender for r in rows if r.record.score == best)
    who = next(iter(names)) if len(names) == 1 else f"{len(names)} contenders"
    return (
        f"{number(best)}<small>{escape(quality_title(case))}</small>"
        f"<small>{escape(who)}</small>"
    )


def _span_of_speeds(case: CaseSummary, *, best: bool) -> str:
    rows = [r for r in case.rows("ok") if r.speed is not None and not r.is_baseline]
    if not rows:
        return DASH
    choose = max if best else min
    row = choose(rows, key=lambda r: r.speed.median if r.speed else 0.0)
    assert row.speed is not None
    where = parameters(row.record.params) if len(case.groups) > 1 else ""
    return (
        f'<span class="{verdict(row)}">{times(row.speed.median)}</span>'
        f"<small>{escape(row.record.contender)}</small>"
        + (f"<small>{escape(where)}</small>" if where else "")
    )


def _unmeasured(case: CaseSummary) -> str:
    failed, missing = (
        len({row.record.contender for row in case.rows(status)})
        for status in ("failed", "missing")
    )
    parts = [f'<span class="slower">{failed} failed</span>'] if failed else []
    parts += [f"{missing} missing"] if missing else []
    return "<br>".join(parts) or DASH


def _card(case: CaseSummary, pictures: Sequence[Drawn]) -> str:
    shown = columns(case)
    titles = [_title(case, column) for column in shown] or ["result"]
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = []
    for group in case.groups:
        if group.params:
            span = len(shown) + 1
            label = escape(parameters(group.params))
            body.append(f'<tr class="group"><td colspan="{span}">{label}</td></tr>')
        body += [_row(case, row, shown) for row in group.rows]
    return (
        f'<section class="card" id="{escape(case.name)}"><h2>{escape(case.name)}</h2>'
        f'<p class="claim">{escape(case.claim)}</p>'
        f'<div class="scroll"><table><thead><tr><th>contender</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>{_notes(case)}"
        f"{_figures(case, pictures)}</section>"
    )


def _title(case: CaseSummary, column: Column) -> str:
    return escape(quality_title(case) if column.kind == "headline" else column.title)


def _row(case: CaseSummary, row: Row, shown: Sequence[Column]) -> str:
    name = row.record.contender
    light, dark = LIGHT.colour(case, name), DARK.colour(case, name)
    dot = f'<span class="dot" style="--light:{light};--dark:{dark}"></span>'
    first = f'<td class="name">{dot}{escape(name)}</td>'
    if row.record.status != "ok":
        reason = (row.record.reason or "").split("\n")[0]
        return (
            f'<tr class="{row.record.status}">{first}'
            f'<td class="why" colspan="{max(len(shown), 1)}">'
            f"<b>{row.record.status}</b> {escape(reason)}</td></tr>"
        )
    cells = "".join(_cell(row, column) for column in shown)
    return f"<tr>{first}{cells}</tr>"


def _cell(row: Row, column: Column) -> str:
    figure, detail = column.cell(row)
    tone = verdict(row) if column.kind == "speed" else column.kind
    small = f"<small>{escape(detail)}</small>" if detail else ""
    return f'<td><span class="{escape(tone)}">{escape(figure)}</span>{small}</td>'


def _notes(case: CaseSummary) -> str:
    """How to install what is missing, and the whole text of what failed."""
    notes = [
        f"<b>{escape(row.record.contender)}</b> is missing. To measure it: "
        f"<code>{escape(row.record.install)}</code>"
        for row in case.rows("missing")
        if row.record.install
    ]
    notes += [
        f"<b>{escape(row.record.contender)}</b> failed"
        + (f" at {escape(parameters(row.record.params))}" if row.record.params else "")
        + f"<pre>{escape(row.record.reason or '')}</pre>"
        for row in case.rows("failed")
    ]
    items = "".join(f"<li>{note}</li>" for note in dict.fromkeys(notes))
    return f'<ul class="notes">{items}</ul>' if items else ""


def _figures(case: CaseSummary, pictures: Sequence[Drawn]) -> str:
    figures = "".join(
        '<picture><source media="(prefers-color-scheme: dark)" '
        f'srcset="{_data(dark)}"><img alt="{escape(case.name)}: {escape(title)}" '
        f'src="{_data(light)}"></picture>'
        for title, light, dark in pictures
    )
    return f'<div class="pictures">{figures}</div>' if figures else ""


def _software(records: Sequence[Record]) -> str:
    versions: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in record.software.items():
            versions.setdefault(name, {})[version] = None
    if not versions:
        return ""
    loads = [r.machine.get("load_1min") for r in records]
    known = [load for load in loads if load is not None]
    busy = (
        f" The load average was {number(min(known))} to {number(max(known))}."
        if known
        else ""
    )
    items = "".join(
        f"<li>{escape(name)} {escape(', '.join(versions[name]))}</li>"
        for name in sorted(versions, key=str.lower)
    )
    return (
        f"<details><summary>Software and machine</summary><p>{_spans(origin(records))}."
        f'{busy}</p><ul class="versions">{items}</ul></details>'
    )


def _spans(parts: Sequence[str]) -> str:
    return "".join(f"<span>{escape(part)}</span>" for part in parts)


def _data(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
