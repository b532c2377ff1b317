import json
import math

import pytest
from bench_harness import UsageError, read_results
from bench_harness._records import Record, Writer, from_line
from hypothesis import given, settings
from hypothesis import strategies as st

numbers = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53)
texts = st.text(max_size=20)


@settings(max_examples=50, deadline=None)
@given(
    case=texts,
    params=st.dictionaries(texts, texts | st.booleans() | st.none() | numbers),
    times=st.lists(st.floats(0, 1e6), min_size=1),
    quality=st.dictionaries(texts, numbers),
    reason=st.none() | texts,
)
def test_a_line_reads_back_as_what_it_was(case, params, times, quality, reason):
    # Infinities are kept where results are; a parameter is never one.
    params = {k: v for k, v in params.items() if v not in (math.inf, -math.inf)}
    record = Record(
        case=case,
        contender="c",
        params=params,
        profile="smoke",
        status="ok",
        times_s=times,
        quality=quality,
        reason=reason,
    )
    line = record.to_line()
    assert "\n" not in line
    assert from_line(line) == record


def test_nan_is_written_as_strict_json(make_record):
    line = make_record(quality={"error": math.nan, "top": math.inf}).to_line()
    assert json.loads(line, parse_constant=pytest.fail)["quality"] == {
        "error": "nan",
        "top": "inf",
    }
    assert math.isnan(from_line(line).quality["error"])


def changed(line, **changes):
    content = json.loads(line)
    for key, value in changes.items():
        if value is None:
            del content[key]
        else:
            content[key] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "`schema` must be 1, got 2"),
        ({"schema": None}, "`schema` must be 1, got None"),
        ({"status": "fine"}, "`status` must be one of"),
        ({"case": 3}, "`case` must be a string, got 3"),
        ({"case": None}, "missing 1 required keyword-only argument: 'case'"),
        ({"params": [1]}, "`params` must be an object"),
        ({"quality": 3}, "`quality` must be an object"),
        ({"times_s": ["1"]}, "`times_s` must be a list of seconds"),
        ({"times_s": [-1.0]}, "`times_s` must be a list of seconds"),
        ({"times_s": 3}, "`times_s` must be a list of seconds"),
        ({"times_s": []}, "`times_s` must not be empty"),
        ({"colour": "red"}, r"unknown fields \['colour'\]"),
    ],
)
def test_a_bad_record_names_the_field(make_record, changes, message):
    with pytest.raises(ValueError, match=message):
        from_line(changed(make_record().to_line(), **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: not an object but list"),
        ("GOOD\nbad", "line 2: not JSON"),
    ],
)
def test_a_corrupt_file_names_the_line(make_record, tmp_path, text, message):
    file = tmp_path / "results.jsonl"
    file.write_text(text.replace("GOOD", make_record().to_line()) + "\n")
    with pytest.raises(UsageError, match=message):
        read_results(tmp_path)


def test_a_file_of_no_text_is_an_error(tmp_path):
    (tmp_path / "results.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_results(tmp_path)


def test_a_file_that_is_no_results_is_an_error(tmp_path):
    (tmp_path / "results.jsonl").write_text("no end of a line")
    with pytest.raises(UsageError, match="holds no whole record"):
        read_results(tmp_path)


def test_a_place_without_results_says_what_to_name(tmp_path):
    with pytest.raises(UsageError, match=r"no `results.jsonl` in .*bench run"):
        read_results(tmp_path)
    with pytest.raises(UsageError, match="no file"):
        read_results(tmp_path / "nothing.jsonl")


def test_the_last_record_of_a_key_counts_at_the_place_of_the_first(
    make_record, tmp_path
):
    records = [
        make_record("a", [1.0]),
        make_record("b", [2.0]),
        make_record("a", [3.0]),
    ]
    writer = Writer(tmp_path)
    writer.append(records[:2])
    writer.append(records[2:])
    assert read_results(tmp_path) == [records[2], records[1]]


def test_an_unfinished_line_is_passed_over_and_cut_by_the_next_writer(
    make_record, tmp_path
):
    Writer(tmp_path).append([make_record("a")])
    with (tmp_path / "results.jsonl").open("a") as stream:
        stream.write('{"schema": 1, "ca')
    assert [r.contender for r in read_results(tmp_path)] == ["a"]
    Writer(tmp_path).append([make_record("b")])
    assert [r.contender for r in read_results(tmp_path)] == ["a", "b"]
