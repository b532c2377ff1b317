"""Put the tables of committed results into the documents that quote them.

A document marks the place with `<!-- tables: RUN -->` and `<!-- end tables -->`, where
RUN is a folder of `benchmarks/results`; `<!-- tables: RUN CASE ... -->` takes some
cases only. Run it with `hatch run tables` after committing a result; with `--check` it
changes nothing and fails where a document does not show what the results say.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bench_harness import markdown_tables, read_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted(ROOT.glob("packages/*/README.md")),
    *sorted(ROOT.glob("packages/*/docs/*.md")),
]
PLACE = re.compile(
    r"(?P<open><!-- tables: (?P<run>[\w.-]+)(?P<cases>(?: [\w.-]+)*) -->\n)"
    r".*?(?P<close><!-- end tables -->)",
    re.DOTALL,
)


def filled(document: str) -> str:
    """Return a document with every marked place filled from the results."""

    def fill(place: re.Match[str]) -> str:
        tables = markdown_tables(read_results(RESULTS / place["run"]))
        names = place["cases"].split() or list(tables)
        if unknown := sorted(set(names) - set(tables)):
            raise SystemExit(f"no results of {', '.join(unknown)} in {place['run']}")
        parts = [f"**{name}**: {tables[name]}" for name in names]
        return place["open"] + "\n" + "\n\n".join(parts) + "\n\n" + place["close"]

    return PLACE.sub(fill, document)


def main(arguments: Sequence[str]) -> int:
    """Fill the documents, or check that they are filled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args(arguments).check
    stale = []
    for path in DOCUMENTS:
        text = path.read_text()
        new = filled(text)
        if new != text:
            stale.append(path.relative_to(ROOT).as_posix())
            if not check:
                path.write_text(new)
    for name in stale:
        print(f"{name}: {'is stale, run `hatch run tables`' if check else 'filled'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
