import json
import time
from dataclasses import replace

import pytest
from bench_harness import UsageError, load_cases, read_results, run_cases
from bench_harness._profiles import Profile, profile_named
from bench_harness._run import measure, plan

FAST = Profile(repeats=3, least_s=0.0, budget_s=60.0, least_rounds=3, timeout_s=30.0)

CASE = """
case = Case(name="demo", claim="It is.", baseline="base", quality="error",
            profiles={"smoke": [{"n": 3}]})

@case.contender("base")
def _(n):
    return Workload(run=lambda: n, quality=lambda out: {"error": 0.0})
"""


def measured(folder, settings=FAST):
    (group,) = plan(load_cases(folder).values(), "smoke")
    records = measure(group, settings, lambda fraction, text: None)
    return {record.contender: record for record in records}


def test_a_record_says_what_was_measured_and_where(write_cases):
    text = (
        CASE
        + """
@case.contender("other", requires=("json",))
def _(n):
    time.sleep(0.1)
    return Workload(run=lambda: time.sleep(0.01), quality=lambda out: {"error": 1e-3},
                    curves=lambda out: {"loss": [3, 2, 1], "xy": ([0.5, 1], [2, 4])},
                    scratch_bytes=77)
"""
    )
    records = measured(write_cases(text))
    assert list(records) == ["base", "other"]
    other = records["other"]
    assert other.status == "ok" and other.reason is None
    assert other.params == {"n": 3} and other.baseline == "base"
    assert len(other.times_s) == 3 and all(0.01 <= t < 1 for t in other.times_s)
    assert other.first_s >= 0.01 and other.setup_s >= 0.1
    assert other.quality == {"error": 1e-3} and other.score == 1e-3
    assert other.curves["loss"] == {"x": [1, 2, 3], "y": [3, 2, 1]}
    assert other.curves["xy"] == {"x": [0.5, 1.0], "y": [2, 4]}
    assert other.memory["scratch_bytes"] == 77
    assert other.memory["device_peak_bytes"] is None and other.devices == []
    assert other.machine["cores"] >= 1 and other.machine["memory_bytes"] > 0
    assert other.software["python"] and other.software["bench-harness"]
    assert other.started.endswith("+00:00")


def test_each_contender_has_a_process_and_they_take_turns(write_cases, tmp_path):
    log = tmp_path / "log"
    text = f"""
case = Case(name="demo", claim="It is.", baseline="a", profiles={{"smoke": [{{}}]}})

def entry(name):
    with open({str(log)!r}, "a") as stream:
        print(name, os.getpid(), file=stream)

for name in "abc":
    @case.contender(name)
    def _(name=name):
        return Workload(run=lambda: entry(name))
"""
    settings = replace(FAST, repeats=6)
    assert len(measured(write_cases(text), settings)["a"].times_s) == 6
    lines = [line.split() for line in log.read_text().splitlines()]
    pids = {name: {pid for who, pid in lines if who == name} for name in "abc"}
    assert all(len(own) == 1 for own in pids.values())
    assert len(set.union(*pids.values())) == 3
    order = [name for name, _ in lines][-18:]
    rounds = ["".join(order[i : i + 3]) for i in range(0, 18, 3)]
    assert all(sorted(once) == ["a", "b", "c"] for once in rounds)
    assert len(set(rounds)) > 1  # nobody is always first


def test_short_runs_are_called_many_times(write_cases):
    settings = replace(FAST, least_s=0.02)
    base = measured(write_cases(CASE), settings)["base"]
    assert base.calls > 100 and max(base.times_s) < 0.01


def test_a_workload_may_set_its_repetitions(write_cases, tmp_path):
    count = tmp_path / "count"
    text = (
        CASE
        + f"""
def once():
    with open({str(count)!r}, "a") as stream:
        stream.write("x")

@case.contender("training")
def _(n):
    return Workload(run=once, repeats=1, quality=lambda out: {{"error": 0}})
"""
    )
    records = measured(write_cases(text))
    assert len(records["training"].times_s) == 1 and len(records["base"].times_s) == 3
    assert count.read_text() == "xx"  # the first call and the timed one


def test_without_repetitions_the_first_call_is_the_measurement(write_cases):
    text = (
        CASE
        + """
@case.contender("training")
def _(n):
    return Workload(run=lambda: bytearray(40 * 2**20), repeats=0,
                    quality=lambda out: {"error": 0}, scratch_bytes=lambda: 5)
"""
    )
    training = measured(write_cases(text))["training"]
    assert training.times_s == [training.first_s] and training.calls == 1
    memory = training.memory
    assert memory["scratch_bytes"] == 5
    assert memory["rss_peak_bytes"] >= memory["rss_before_bytes"] + 30 * 2**20


def test_the_budget_ends_rounds_but_not_before_the_fewest(write_cases):
    settings = replace(FAST, repeats=50, least_s=0.05, budget_s=0.1)
    assert len(measured(write_cases(CASE), settings)["base"].times_s) == 3


FAILURES = {
    "set-up": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "run": (
        "return Workload(run=lambda: 1 / 0)",
        "ZeroDivisionError: division by zero",
    ),
    "no workload": ("return None", "must return a `Workload`, got NoneType"),
    "no quality": (
        "return Workload(run=lambda: 1)",
        "must return 'error', the quality",
    ),
    "quality of another kind": (
        "return Workload(run=lambda: 1, quality=lambda out: 3)",
        "`quality` must return a mapping",
    ),
    "quality that is no number": (
        "return Workload(run=lambda: 1, quality=lambda out: {'error': 'high'})",
        "'error' must be a scalar number, got 'high'",
    ),
    "curve of two lengths": (
        "return Workload(run=lambda: 1, quality=lambda out: {'error': 0},"
        " curves=lambda out: {'loss': ([1], [1, 2])})",
        "curve 'loss' must have as many x as y, got 1 and 2",
    ),
    "curve that is none": (
        "return Workload(run=lambda: 1, quality=lambda out: {'error': 0},"
        " curves=lambda out: {'loss': 3})",
        "curve 'loss' must be a sequence of numbers",
    ),
    "scratch that is none": (
        "return Workload(run=lambda: 1, quality=lambda out: {'error': 0},"
        " scratch_bytes=lambda: 'a lot')",
        "`scratch_bytes` must return an integer of at least 0, got 'a lot'",
    ),
    "death": (
        "print('last words', file=sys.stderr); os.abort()",
        "died with signal 6 during `setup`\nits last words:\nlast words",
    ),
    "exit": ("os._exit(3)", "died with exit status 3"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_a_record_and_the_others_go_on(write_cases, kind):
    body, reason = FAILURES[kind]
    text = (
        CASE
        + f"""
@case.contender("broken")
def _(n):
    {body}
"""
    )
    records = measured(write_cases(text))
    assert records["base"].status == "ok" and len(records["base"].times_s) == 3
    assert records["broken"].status == "failed"
    assert reason in records["broken"].reason
    assert records["broken"].times_s == []


def test_a_worker_that_takes_too_long_is_stopped(write_cases):
    text = (
        CASE
        + """
@case.contender("slow")
def _(n):
    return Workload(run=lambda: time.sleep(60), quality=lambda out: {"error": 0})
"""
    )
    settings = replace(FAST, timeout_s=5.0)
    begin = time.monotonic()
    slow = measured(write_cases(text), settings)["slow"]
    assert slow.status == "failed"
    assert slow.reason.startswith("TimeoutError: `first` took longer than 5 s")
    assert time.monotonic() - begin < 40


def test_missing_contenders_say_how_to_get_them(write_cases):
    text = (
        CASE
        + """
@case.contender("peer", requires=("no_such_module",), install="pip install peer")
def _(n): ...

@case.contender("cuda")
def _(n):
    raise Unavailable("needs a CUDA device")
"""
    )
    records = measured(write_cases(text))
    assert records["peer"].status == records["cuda"].status == "missing"
    assert records["peer"].reason == "not installed: no_such_module"
    assert records["peer"].install == "pip install peer"
    assert records["cuda"].reason == "needs a CUDA device"


def test_what_a_contender_prints_disturbs_nothing(write_cases, capfd):
    text = CASE.replace("return W", "print('{}'); os.system('echo {}'); return W")
    assert measured(write_cases(text))["base"].status == "ok"
    assert "{}" not in capfd.readouterr().out


def test_nan_is_a_result(write_cases, tmp_path):
    folder = write_cases(CASE.replace('"error": 0.0', '"error": float("nan")'))
    (record,) = run_cases(list(load_cases(folder).values()), "smoke", tmp_path / "out")
    assert record.status == "ok" and record.score != record.score


def test_the_environment_of_a_case_reaches_every_worker(write_cases):
    text = """
case = Case(name="demo", claim="It is.", baseline="base", quality="threads",
            env={"OMP_NUM_THREADS": "3"}, profiles={"smoke": [{}]})

@case.contender("base")
def _():
    return Workload(run=lambda: None,
                    quality=lambda out: {"threads": int(os.environ["OMP_NUM_THREADS"])})
"""
    base = measured(write_cases(text))["base"]
    assert base.score == 3
    assert base.environment["OMP_NUM_THREADS"] == "3"
    assert base.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def test_memory_is_that_of_the_timed_runs(write_cases):
    if measured(write_cases(CASE))["base"].memory["rss_peak_of"] != "timed runs":
        pytest.skip("this system cannot reset the peak of resident memory")
    text = (
        CASE
        + """
@case.contender("hungry")
def _(n):
    bytearray(200 * 2**20)  # in the set-up, and gone before the first run
    return Workload(run=lambda: bytearray(50 * 2**20), quality=lambda out: {"error": 0})
"""
    )
    memory = measured(write_cases(text))["hungry"].memory
    more = memory["rss_peak_bytes"] - memory["rss_before_bytes"]
    assert 45 * 2**20 < more < 60 * 2**20


def test_a_second_run_continues(write_cases, tmp_path):
    text = (
        CASE.replace('[{"n": 3}]', '[{"n": 3}, {"n": 4}]')
        + """
@case.contender("fails")
def _(n):
    if n == 4 and not os.path.exists("repaired"):
        raise RuntimeError("not yet")
    return Workload(run=lambda: n, quality=lambda out: {"error": 0.0})
"""
    )
    folder, output = write_cases(text), tmp_path / "out"
    steps = []

    def again():
        steps.clear()
        cases = list(load_cases(folder).values())
        records = run_cases(
            cases, "smoke", output, progress=lambda *step: steps.append(step)
        )
        return {(r.params["n"], r.contender): r for r in records}

    first = again()
    assert len(first) == 4 and first[4, "fails"].status == "failed"
    second = again()  # the failure is tried again, with all of its group
    assert second[3, "base"] == first[3, "base"]
    assert second[4, "base"].times_s != first[4, "base"].times_s
    assert {step[0] for step in steps} == {1}
    write_cases(text.replace("not os.path.exists", "os.path.exists"))
    third = again()  # another version: everything is measured anew
    assert third[4, "fails"].status == "ok"
    assert third[3, "base"].version != first[3, "base"].version
    assert again() == third and steps == []


def test_a_run_is_cut_at_a_whole_group(write_cases, tmp_path):
    output = tmp_path / "out"
    folder = write_cases(CASE)
    cases = list(load_cases(folder).values())
    run_cases(cases, "smoke", output)
    file = output / "results.jsonl"
    whole = file.read_text()
    file.write_text(whole + whole[:40])
    (record,) = run_cases(cases, "smoke", output)
    assert file.read_text() == whole and record.to_line() + "\n" == whole


def test_an_unknown_profile_brings_close_matches(write_cases, tmp_path):
    with pytest.raises(UsageError, match="no profile 'smok', did you mean 'smoke'"):
        profile_named("smok")
    cases = list(load_cases(write_cases(CASE)).values())
    with pytest.raises(UsageError, match="The profiles are smoke, laptop, gpu"):
        run_cases(cases, "x", tmp_path / "out")


def test_an_output_that_cannot_be_written_is_named(write_cases, tmp_path):
    (tmp_path / "file").write_text("")
    cases = list(load_cases(write_cases(CASE)).values())
    with pytest.raises(UsageError, match=r"file/out` cannot be written to.*`--output`"):
        run_cases(cases, "smoke", tmp_path / "file" / "out")


def test_records_are_lines_of_strict_json(write_cases, tmp_path):
    cases = list(load_cases(write_cases(CASE)).values())
    records = run_cases(cases, "smoke", tmp_path / "out")
    text = (tmp_path / "out" / "results.jsonl").read_text()
    assert [json.loads(line)["schema"] for line in text.splitlines()] == [1]
    assert read_results(tmp_path / "out" / "results.jsonl") == records
