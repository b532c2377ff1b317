"""What the terminal shows: the table of a case, and two runs held side by side."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._compare import Compared, Comparison, label, show_change
from ._summary import CaseSummary, Row, Spread
from ._tables import Column, columns
from ._text import number, parameters, quality_title, verdict


def rich_table(case: CaseSummary) -> Table:
    """Return the table of a case for the terminal."""
    table = Table(
        title=Text(case.name, style="bold"),
        caption=Text(case.claim, style="italic"),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    shown = _few(columns(case))
    table.add_column("contender", no_wrap=True)
    for column in shown:
        title = quality_title(case) if column.kind == "headline" else column.title
        table.add_column(title, justify="right", no_wrap=True)
    for group in case.groups:
        if len(case.groups) > 1 or group.params:
            table.add_section()
            table.add_row(Text(parameters(group.params), style="cyan"))
        for row in group.rows:
            table.add_row(*_rich_row(row, shown))
    return table


def _few(shown: list[Column]) -> list[Column]:
    """Leave the lesser columns to the report: a terminal is narrow."""
    memory = [column for column in shown if column.kind == "memory"][:1]
    main = ("time", "speed", "headline", "first")
    return [column for column in shown if column.kind in main] + memory


def _rich_row(row: Row, shown: list[Column]) -> list[Text]:
    name = Text("  " + row.record.contender)
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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", overflow="fold")
    table.add_column("contender", no_wrap=True)
    for title in ("relative time", "time", "quality"):
        table.add_column(title, justify="right", no_wrap=True)
    for pair in comparison.compared:
        case = " ".join([pair.new.case, parameters(pair.new.params)]).strip()
        table.add_row(
            Text(case),
            Text(pair.new.contender),
            Text(show_change(pair.relative)),
            Text(show_change(pair.absolute)),
            Text(_show_quality(pair)),
            style="red" if pair.complaints else "",
        )
    console.print(table)
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


def _show_quality(pair: Compared) -> str:
    if pair.old.score == pair.new.score:
        return number(pair.new.score)
    return f"{number(pair.old.score)}, now {number(pair.new.score)}"
