import pytest
from bench_harness import UsageError, load_cases
from bench_harness._discover import select

CASE = """
{variable} = Case(name="{name}", claim="It is.", baseline="base",
                  profiles={{"smoke": [{{}}]}})

@{variable}.contender("base")
def _():
    return Workload(run=lambda: None)
"""


def case(name, variable="case"):
    return CASE.format(name=name, variable=variable)


def test_cases_come_in_the_order_of_files_and_declarations(write_cases):
    write_cases(case("zebra", "z") + case("apple", "a"), "b.py")
    folder = write_cases(case("last"), "c.py")
    write_cases("raise RuntimeError('helpers are not loaded by themselves')", "_h.py")
    assert list(load_cases(folder)) == ["zebra", "apple", "last"]


def test_files_share_helpers(write_cases):
    write_cases("CLAIM_OF_HELPER = 'Shared.'", "_claims_for_test.py")
    text = "from _claims_for_test import CLAIM_OF_HELPER\n" + case("one")
    folder = write_cases(text)
    assert list(load_cases(folder)) == ["one"]


def test_a_missing_folder_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match=r"no folder .*nowhere.*`--cases`"):
        load_cases(tmp_path / "nowhere")


def test_a_folder_without_cases_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no case in the files of"):
        load_cases(tmp_path)


def test_a_file_that_fails_is_named(write_cases):
    folder = write_cases("1 / 0", "broken.py")
    with pytest.raises(UsageError, match=r"broken\.py` cannot be loaded: ZeroDivision"):
        load_cases(folder)


def test_two_cases_of_one_name_are_an_error(write_cases):
    write_cases(case("same"), "a.py")
    folder = write_cases(case("same"), "b.py")
    with pytest.raises(UsageError, match=r"two cases are called 'same'.*a\.py.*b\.py"):
        load_cases(folder)


def test_a_baseline_must_be_a_contender(write_cases):
    folder = write_cases(case("one").replace('baseline="base"', 'baseline="bass"'))
    with pytest.raises(UsageError, match=r"baseline 'bass'.*contenders are \['base'\]"):
        load_cases(folder)


def test_an_unknown_case_brings_close_matches(write_cases):
    found = load_cases(write_cases(case("membrane")))
    with pytest.raises(UsageError, match="no case 'membrain', did you mean 'membrane'"):
        select(found, ["membrain"])
    with pytest.raises(UsageError, match=r"no case 'xyz'\. `bench list`"):
        select(found, ["xyz"])


def test_selected_cases_keep_the_order_asked_for(write_cases):
    found = load_cases(write_cases(case("a", "a") + case("b", "b")))
    assert [f.case.name for f in select(found, ["b", "a", "b"])] == ["b", "a"]
    assert [f.case.name for f in select(found, [])] == ["a", "b"]


def test_the_version_changes_with_the_file_and_its_helpers(write_cases):
    folder = write_cases(case("one"))
    first = load_cases(folder)["one"].version
    assert load_cases(folder)["one"].version == first
    write_cases("x = 1", "_helper.py")
    second = load_cases(folder)["one"].version
    write_cases(case("one") + "# changed")
    assert len({first, second, load_cases(folder)["one"].version}) == 3
