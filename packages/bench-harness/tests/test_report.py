import csv
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from bench_harness import UsageError, markdown_tables, write_report
from bench_harness._page import page
from bench_harness._summary import speeds, summarise
from bench_harness._tables import csv_text, markdown
from bench_harness._text import verdict

VOID = {"meta", "img", "source", "br"}


class Balance(HTMLParser):
    """Checks that every tag is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [v for k, v in attrs if k in ("src", "srcset", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def records(make_record):
    common = {
        "quality_name": "accuracy",
        "better": "higher",
        "git": {"commit": "0123456789abcdef", "dirty": True},
        "software": {"python": "3.11.7", "numpy": "2.0"},
        "started": "2026-01-02T03:04:05+00:00",
    }
    sweep = [
        make_record(
            name,
            [t * n, t * n * 1.1, t * n * 1.2],
            case="sweep",
            params={"n": n},
            memory={"scratch_bytes": 1000 * n},
            quality={"accuracy": 0.9},
            **common,
        )
        for n in (1, 10)
        for name, t in (("base", 0.1), ("fast", 0.02), ("slow", 0.4))
    ]
    single = [
        make_record(
            "base",
            quality={"accuracy": 0.5, "<b>": 3},
            curves={"loss": {"x": [1, 2], "y": [3, 1]}},
            **common,
        ),
        make_record("a|b <script>", status="failed", times=[], reason="<oh>\nno",
                    **common),
        make_record("peer", status="missing", times=[], reason="not installed: peer",
                    install="pip install peer", **common),
    ]  # fmt: skip
    return sweep + single


def test_every_form_is_written(records, tmp_path):
    html = write_report(records, tmp_path / "new" / "folder")
    assert html.name == "report.html"
    names = {p.name for p in html.parent.rglob("*") if p.is_file()}
    assert names == {
        "report.html",
        "results.csv",
        "results.md",
        "sweep-time.png",
        "sweep-speed.png",
        "sweep-scratch.png",
        "demo-time.png",
        "demo-curve-loss.png",
    }
    for path in html.parent.rglob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_page_is_whole_and_needs_nothing_else(records, tmp_path):
    text = write_report(records, tmp_path).read_text()
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    sources = [s for s in parser.sources if not s.startswith("#")]
    assert len(sources) == 2 * 5  # five pictures, in the light and in the dark
    assert all(s.startswith("data:image/png;base64,") for s in sources)
    assert "http" not in text and "<script" not in text
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


def test_the_page_shows_claims_wins_losses_failures_and_what_is_missing(records):
    text = page(records, None)
    assert text.count("It is a demonstration.") == 4  # overview and card, two cases
    assert '<span class="faster">5.00' in text
    assert '<span class="slower">0.25' in text
    assert "a|b &lt;script&gt;" in text and "<pre>&lt;oh&gt;\nno</pre>" in text
    assert "<code>pip install peer</code>" in text
    assert "matplotlib is not installed" in text and "bench-harness[plot]" in text
    assert "commit 0123456789 (with changes)" in text and "numpy 2.0" in text


def test_markdown_tables_have_cells_for_their_columns(records):
    text = markdown(records, {"demo": ["plots/demo-time.png"]})
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(counts) == 1
    assert "| 10 | fast | 220.0 ms" in text or "| 10 | fast | 220 ms" in text
    assert "*failed*" in text and "- peer: not installed: peer (to install" in text
    assert "![demo](plots/demo-time.png)" in text


def test_a_case_without_any_result_still_has_tables(make_record):
    records = [make_record(status="failed", times=[], reason="no luck")]
    rows = [r for r in markdown(records, {}).splitlines() if r.startswith("|")]
    assert [row.count("|") for row in rows] == [3, 3, 3]
    text = page(records, {})
    assert "<b>failed</b> no luck" in text and text.count("<th>") == 2


def test_csv_has_a_line_a_record(records):
    rows = list(csv.DictReader(io.StringIO(csv_text(records))))
    assert len(rows) == len(records)
    fast = rows[1]
    assert float(fast["median_s"]) == pytest.approx(0.022)
    assert float(fast["speed"]) == pytest.approx(5.0)
    assert float(fast["quality"]) == 0.9
    assert rows[-1]["status"] == "missing" and rows[-1]["median_s"] == ""


def test_speed_is_taken_round_by_round(make_record):
    base = make_record("base", [1.0, 4.0, 1.0])
    mine = make_record("mine", [0.5, 2.0, 0.5])
    assert speeds(mine, base) == [2.0, 2.0, 2.0]
    assert speeds(make_record("mine", [0.5]), base) == [2.0]
    assert speeds(mine, None) == []
    row = summarise([base, mine])[0].groups[0].rows[1]
    assert (row.speed.lower, row.speed.median, row.speed.upper) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0.5, 0.5, 0.6], "faster"),
        ([1.5, 2.0, 1.6], "slower"),
        ([0.8, 1.0, 1.4], "no difference"),
    ],
)
def test_no_difference_is_claimed_within_the_spread(make_record, times, expected):
    records = [make_record("base", [1.0] * 3), make_record("mine", times)]
    base, mine = summarise(records)[0].groups[0].rows
    assert verdict(base) == "baseline" and verdict(mine) == expected


def test_a_lost_baseline_leaves_no_ratio(make_record):
    failed = make_record("base", [], status="failed", reason="no luck")
    case = summarise([failed, make_record("mine")])[0]
    assert case.groups[0].rows[1].speed is None
    assert "mine" in page([failed, make_record("mine")], None)


@pytest.mark.parametrize(
    "change",
    [
        {"times": [0.0, 0.0]},
        {"times": [1e-9]},
        {"quality_name": "q", "quality": {"q": float("nan")}},
        {"curves": {"loss": {"x": [], "y": []}}},
        {"curves": {"loss": {"x": [1, 2], "y": [float("nan"), float("inf")]}}},
        {"params": {"text": "<&>", "none": None}},
        {"machine": {}},
        {"memory": {"scratch_bytes": 0}},
    ],
)
def test_odd_records_are_drawn(make_record, tmp_path, change):
    records = [make_record("base", **change), make_record("mine", **change)]
    assert write_report(records, tmp_path).is_file()


def test_no_records_are_an_error(tmp_path):
    with pytest.raises(UsageError, match="no results to report"):
        write_report([], tmp_path)


def test_a_folder_that_cannot_be_written_is_named(make_record, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/x` cannot be written to"):
        write_report([make_record()], tmp_path / "file" / "x")


def test_without_matplotlib_everything_else_is_written(make_record, tmp_path):
    (tmp_path / "results.jsonl").write_text(make_record().to_line() + "\n")
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from bench_harness import read_results, write_report\n"
        "write_report(read_results('.'), '.')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"results.jsonl", "results.csv", "results.md", "report.html"}
    assert "matplotlib is not installed" in (tmp_path / "report.html").read_text()


def test_a_document_quotes_the_tables_of_the_page(records):
    tables = markdown_tables(records)
    assert list(tables) == [case.name for case in summarise(records)]
    whole = markdown(records, {})
    for table in tables.values():
        assert table in whole
    assert "fast" in tables["sweep"] and "single" not in tables["sweep"]
