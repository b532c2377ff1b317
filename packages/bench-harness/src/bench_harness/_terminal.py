"""What the terminal shows: the table of a case, and two runs held side by side."""

import textwrap
from collections.abc import Iterable
from itertools import groupby, zip_longest

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ._compare import Compared, Comparison, label, show_change
from ._records import Key
from ._summary import CaseSummary, Row, Spread
from ._tables import Column, columns
from ._text import number, parameters, quality_title, verdict


def case_table(case: CaseSummary, width: int) -> Group:
    """Return a heading and one table a parameter set, at most `width` columns wide."""
    lines: list[RenderableType] = [Text(case.name, style="bold"), Text(case.claim)]
    titles, rows = _fitting(case, width)
    widths = _widths(titles, rows.values())
    for group in case.groups:
        if group.params:
            lines += ["", Text(parameters(group.params), style="cyan")]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title, least in zip(titles, widths, strict=True):
            justify = "left" if title == titles[0] else "right"
            table.add_column(title, justify=justify, min_width=least, no_wrap=True)
        for row in group.rows:
            table.add_row(*rows[row.record.key])
        lines.append(table)
    return Group(*lines)


def _fitting(case: CaseSummary, width: int) -> tuple[list[str], dict[Key, list[Text]]]:
    """Leave columns to the report, from the right, until the rest fits."""
    every = columns(case)
    by_kind = {column.kind: column for column in reversed(every)}
    wanted = ("time", "speed", "headline", "memory", "first")
    shown = [by_kind[kind] for kind in wanted if kind in by_kind]
    while True:
        rows = {
            row.record.key: _cells(row, shown) for g in case.groups for row in g.rows
        }
        titles = ["contender", *([_title(case, c) for c in shown] or ["result"])]
        widths = _widths(titles, rows.values())
        if sum(widths) + 3 * len(widths) <= width or len(shown) <= 2:
            return titles, rows
        shown = shown[:-1]


def _widths(titles: list[str], rows: Iterable[list[Text]]) -> list[int]:
    lines = [[max(map(len, title.splitlines())) for title in titles]]
    lines += [[len(cell) for cell in row] for row in rows]
    return [max(column) for column in zip_longest(*lines, fillvalue=0)]


def _title(case: CaseSummary, column: Column) -> str:
    title = quality_title(case) if column.kind == "headline" else column.title
    return textwrap.fill(title, 14, break_long_words=False)


def _cells(row: Row, shown: list[Column]) -> list[Text]:
    name = Text(row.record.contender)
    if row.record.status != "ok":
        style = "red" if row.record.status == "failed" else "yellow"
        return [name, Text(row.record.status, style=style)]
    colour = {"faster": "green", "slower": "red"}.get(verdict(row), "")
    cells = [name]
    for column in shown:
        figure, _ = column.cell(row)
        text = Text(figure, style=colour if column.kind == "speed" else "")
        if column.kind in ("time", "speed"):
            spread = row.time if column.kind == "time" else row.speed
            text.append(_give_or_take(spread), style="dim")
        cells.append(text)
    return cells


def _give_or_take(spread: Spread | None) -> str:
    """Return half the distance between the quartiles in per cent."""
    if spread is None or spread.lower == spread.upper:
        return ""
    return f" ±{50 * (spread.upper - spread.lower) / spread.median:.0f}%"


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison."""
    for _, pairs in groupby(comparison.compared, lambda pair: pair.new.group):
        console.print(_compared_table(list(pairs)))
    for record in comparison.gained:
        console.print(Text(f"new: {label(record)}", style="green"))
    for pair in comparison.compared:
        for remark in pair.remarks:
            console.print(Text(f"note: {label(pair.new)}: {remark}", style="dim"))
    for note in comparison.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    for line in comparison.regressions:
        console.print(Text(f"REGRESSION {line}", style="bold red"))
    if not comparison.regressions:
        console.print(Text("No regression.", style="green"))


def _compared_table(pairs: list[Compared]) -> Group:
    record = pairs[0].new
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("contender", overflow="fold")
    for title in ("relative time", "time", "quality"):
        table.add_column(title, justify="right", no_wrap=True)
    for pair in pairs:
        table.add_row(
            Text(pair.new.contender),
            Text(show_change(pair.relative)),
            Text(show_change(pair.absolute)),
            Text(_show_quality(pair)),
            style="red" if pair.complaints else "",
        )
    heading = Text(record.case, style="bold")
    heading.append(f"  {parameters(record.params)}", style="not bold cyan")
    return Group(heading, table)


def _show_quality(pair: Compared) -> str:
    if pair.old.score == pair.new.score:
        return number(pair.new.score)
    return f"{number(pair.old.score)}, now {number(pair.new.score)}"
