"""The command ``bench``."""

import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ._case import PROFILES
from ._compare import compare_results
from ._discover import Found, UsageError, load_cases, select
from ._profiles import profile_named
from ._records import RESULTS, Record, read_results
from ._report import write_report
from ._run import plan, run_cases
from ._summary import summarise
from ._tables import status_line
from ._terminal import case_table, print_comparison
from ._text import parameters

FINE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    help="Run benchmark cases side by side, compare runs and draw reports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Cases = Annotated[
    Path,
    typer.Option("--cases", help="The folder with the benchmark files."),
]


@app.command("list")
def list_cases(cases: Cases = Path("benchmarks")) -> None:
    """List the cases, what they claim, their contenders and their profiles."""
    console = Console()
    for found in load_cases(cases).values():
        case = found.case
        console.print(Text(case.name, style="bold"))
        console.print(Text(f"  {case.claim}"))
        for profile, sets in case.profiles.items():
            shown = "; ".join(parameters(params) for params in sets if params)
            console.print(Text(f"  {profile}: {shown or 'no parameters'}", style="dim"))
        names = [
            f"{name} (baseline)" if name == case.baseline else name
            for name in case.contenders
        ]
        console.print(Text(f"  contenders: {', '.join(names)}\n", style="dim"))


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="Which cases; all by default."),
    ] = None,
    profile: Annotated[
        str, typer.Option(help=f"How large and how thorough: {', '.join(PROFILES)}.")
    ] = "smoke",
    output: Annotated[
        Path | None,
        typer.Option(
            help="The folder for results and report. One that holds results already is "
            "continued: what is finished is not measured again.",
            show_default="bench-results/<time>-<profile>",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Continue the run in this folder, which must be there."
        ),
    ] = None,
    cases: Cases = Path("benchmarks"),
) -> None:
    """Measure cases and write a report.

    Every contender runs in its own process and takes turns with the others. Results
    are kept as they come: after Ctrl-C or a crash, `--resume` continues.

    Exit status: 0 fine, 1 a contender failed, 2 a mistake in the command,
    130 interrupted.
    """
    profile_named(profile)
    chosen = select(load_cases(cases), names or [])
    _say_what_is_left_out(chosen, profile)
    folder = _folder(output, resume, profile)
    console = Console()
    interrupted = False
    try:
        _measure(chosen, profile, folder, console)
    except KeyboardInterrupt:
        interrupted = True
    records = read_results(folder)
    if records:
        _conclude(console, records, write_report(records, folder))
    if interrupted:
        command = " ".join(["bench run", *(names or []), f"--profile {profile}"])
        console.print(
            Text(
                f"Interrupted; what is finished is kept. To continue:\n"
                f"  {command} --resume {folder}",
                style="yellow",
            )
        )
        raise typer.Exit(INTERRUPTED)
    measured = {found.case.name for found in chosen}
    if any(r.status == "failed" and r.case in measured for r in records):
        raise typer.Exit(FAILED)


@app.command()
def compare(
    old: Annotated[Path, typer.Argument(help="Folder or results file of a run.")],
    new: Annotated[Path, typer.Argument(help="Folder or results file of a later run.")],
    threshold: Annotated[
        float,
        typer.Option(
            help="Slower by more than this factor is a regression, once the spread "
            "between rounds is allowed for."
        ),
    ] = 1.25,
) -> None:
    """Hold two runs side by side; exit with 1 on a regression.

    Compared are each contender's time relative to the baseline of its own run and,
    on the same machine, its time itself; the headline quality; and whether it was
    measured at all.
    """
    comparison = compare_results(
        read_results(old), read_results(new), threshold=threshold
    )
    print_comparison(Console(), comparison)
    if comparison.regressions:
        raise typer.Exit(FAILED)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="Folder or results file of a run.")],
    output: Annotated[
        Path | None,
        typer.Option(help="The folder to write to.", show_default="beside the results"),
    ] = None,
) -> None:
    """Draw the report again from results: HTML, CSV, Markdown and pictures."""
    beside = results if results.is_dir() else results.parent
    records = read_results(results)
    _conclude(Console(), records, write_report(records, output or beside))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status."""
    # A scheduler's or CI's way to stop a run deserves the same care as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(args=None if arguments is None else list(arguments), prog_name="bench")
    except UsageError as error:
        Console(stderr=True).print(Text(f"bench: {error}", style="red"))
        raise SystemExit(USAGE) from None


def _measure(
    chosen: Sequence[Found], profile: str, folder: Path, console: Console
) -> None:
    columns: list[Any] = [
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    ]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starts", total=None, count="")

        def show(done: int, total: int, fraction: float, text: str) -> None:
            bar.update(
                task,
                total=total,
                completed=done + fraction,
                count=f"{done + 1}/{total}",
                description=text,
            )

        run_cases(chosen, profile, folder, progress=show)


def _folder(output: Path | None, resume: Path | None, profile: str) -> Path:
    if resume is None:
        now = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
        return output or Path("bench-results") / f"{now}-{profile}"
    if output is not None:
        raise UsageError("`--resume` continues in its folder; leave out `--output`.")
    if not (resume / RESULTS).is_file():
        raise UsageError(f"nothing to resume: no `{RESULTS}` in `{resume}`.")
    return resume


def _say_what_is_left_out(chosen: Sequence[Found], profile: str) -> None:
    if not plan(chosen, profile):
        names = ", ".join(found.case.name for found in chosen)
        raise UsageError(f"nothing to run: {names} has no profile {profile!r}.")
    without = [f.case.name for f in chosen if profile not in f.case.profiles]
    if without:
        text = f"Without a profile {profile!r}, left out: {', '.join(without)}."
        Console(stderr=True).print(Text(text, style="yellow"))


def _conclude(console: Console, records: Sequence[Record], html: Path) -> None:
    for case in summarise(records):
        console.print(case_table(case, console.width))
        for status, style in (("missing", "yellow"), ("failed", "red")):
            reasons = dict.fromkeys(
                (row.record.contender, status_line(row).splitlines()[0])
                for row in case.rows(status)
            )
            for contender, reason in reasons:
                console.print(Text(f"  {contender}: {status}: {reason}", style=style))
        console.print()
    console.print(Text(f"Report: {html}"), soft_wrap=True)


if __name__ == "__main__":
    main()
