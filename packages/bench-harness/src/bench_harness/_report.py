"""Writing every form of a report into a folder."""

from collections.abc import Sequence
from pathlib import Path

from ._discover import UsageError
from ._page import Drawn, page
from ._plots import DARK, LIGHT, can_draw, pictures
from ._records import Record
from ._summary import summarise
from ._tables import csv_text, markdown

PAGE = "report.html"


def write_report(records: Sequence[Record], folder: str | Path) -> Path:
    """Write ``report.html``, ``results.csv``, ``results.md`` and ``plots/*.png``.

    Parameters
    ----------
    records : sequence of Record
        From `read_results` or `run_cases`.
    folder : path
        Where to write; made if it is not there.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    UsageError
        Without records, or where the folder cannot be written to.
    """
    if not records:
        raise UsageError("there are no results to report yet.")
    folder = Path(folder)
    try:
        return _write(records, folder)
    except OSError as error:
        raise UsageError(
            f"`{folder}` cannot be written to: {error.strerror}."
        ) from None


def _write(records: Sequence[Record], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, list[Drawn]] | None = None
    paths: dict[str, list[str]] = {}
    if can_draw():
        drawn = {}
        (folder / "plots").mkdir(exist_ok=True)
        for case in summarise(records):
            for picture in pictures(case):
                light = picture.png(LIGHT)
                path = f"plots/{case.name}-{picture.name}.png"
                (folder / path).write_bytes(light)
                paths.setdefault(case.name, []).append(path)
                drawn.setdefault(case.name, []).append(
                    (picture.title, light, picture.png(DARK))
                )
    (folder / "results.csv").write_text(csv_text(records), encoding="utf-8")
    (folder / "results.md").write_text(markdown(records, paths), encoding="utf-8")
    html = folder / PAGE
    html.write_text(page(records, drawn), encoding="utf-8")
    return html
