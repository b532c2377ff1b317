"""A planted slowdown must be seen and noise must not, in synthetic and in real runs."""

import math
import random

import pytest
from bench_harness import UsageError, compare_results, load_cases, run_cases
from bench_harness._compare import change, same_machine

SEEDS = range(100)


def noisy(rng, seconds, count, spread):
    """Times with log-normal noise and now and then a disturbance."""
    times = [seconds * math.exp(rng.gauss(0.0, spread)) for _ in range(count)]
    return [t * (3.0 if rng.random() < 0.05 else 1.0) for t in times]


def synthetic_run(make_record, rng, *, slow, count, spread, machine=None):
    more = {} if machine is None else {"machine": machine}
    return [
        make_record("base", noisy(rng, 0.1, count, spread), **more),
        make_record("mine", noisy(rng, 0.05 * slow, count, spread), **more),
        make_record("peer", noisy(rng, 0.3, count, spread), **more),
    ]


CONDITIONS = pytest.mark.parametrize(
    ("count", "spread"), [(1, 0.03), (3, 0.05), (7, 0.1), (15, 0.15)]
)


@CONDITIONS
@pytest.mark.parametrize("machine", [None, {"cpu": "another"}])
def test_noise_passes(make_record, count, spread, machine):
    failed = 0
    for seed in SEEDS:
        rng = random.Random(f"noise {seed}")
        old = synthetic_run(make_record, rng, slow=1, count=count, spread=spread)
        new = synthetic_run(
            make_record, rng, slow=1, count=count, spread=spread, machine=machine
        )
        failed += bool(compare_results(old, new).regressions)
    # Disturbances by 3 that hit the only round, or most of three, are not noise that a
    # single run could tell from a slowdown.
    assert failed <= {1: 0.25, 3: 0.05}.get(count, 0.0) * len(SEEDS)


@CONDITIONS
@pytest.mark.parametrize("machine", [None, {"cpu": "another"}])
def test_a_planted_slowdown_fails(make_record, count, spread, machine):
    seen = 0
    for seed in SEEDS:
        rng = random.Random(f"slow {seed}")
        old = synthetic_run(make_record, rng, slow=1, count=count, spread=spread)
        new = synthetic_run(
            make_record, rng, slow=2, count=count, spread=spread, machine=machine
        )
        regressions = compare_results(old, new).regressions
        seen += any("mine" in line for line in regressions)
    assert seen >= {1: 0.8, 3: 0.75, 7: 0.9}.get(count, 0.95) * len(SEEDS)


def test_a_faster_baseline_is_no_regression_on_the_same_machine(make_record):
    old = [make_record("base", [1.0] * 7), make_record("mine", [0.5] * 7)]
    new = [make_record("base", [0.3] * 7), make_record("mine", [0.5] * 7)]
    comparison = compare_results(old, new)
    assert comparison.regressions == []
    assert any("baseline became faster" in r for c in comparison.compared
               for r in c.remarks)  # fmt: skip


def test_a_slower_baseline_is_seen_by_its_absolute_time(make_record):
    old = [make_record("base", [1.0] * 7), make_record("mine", [0.5] * 7)]
    new = [make_record("base", [2.0] * 7), make_record("mine", [1.0] * 7)]
    assert len(compare_results(old, new).regressions) == 2


def test_another_machine_compares_relative_times_alone(make_record):
    slow = {"machine": {"cpu": "slow one"}}
    old = [make_record("base", [1.0] * 7), make_record("mine", [0.5] * 7)]
    new = [
        make_record("base", [4.0] * 7, **slow),
        make_record("mine", [2.0] * 7, **slow),
    ]
    comparison = compare_results(old, new)
    assert comparison.regressions == []
    assert (
        "the machines differ, so only relative times are compared" in comparison.notes
    )
    assert not same_machine(old[0], new[0])


def test_a_change_is_the_ratio_of_medians_with_a_margin():
    result = change([1.0, 1.0, 1.0, 9.0, 1.0], [2.0, 2.0, 2.0, 2.0, 18.0])
    assert result.factor == pytest.approx(2.0)
    assert 1.25 < result.low < 2.0 < result.high
    assert change([1.0], [2.0]).low < change([1.0] * 9, [2.0] * 9).low


QUALITIES = [
    # better, tolerance, old, new, is a regression
    ("higher", None, 0.95, 0.93, False),
    ("higher", None, 0.95, 0.88, True),
    ("higher", None, 0.95, 0.99, False),
    ("higher", 0.01, 0.95, 0.93, True),
    ("higher", None, -2.36, -2.9, True),
    ("higher", None, -2.36, -2.37, False),
    ("higher", 0.001, -2.36, -2.37, True),
    ("lower", None, 1e-7, 2e-7, False),
    ("lower", None, 1e-7, 1e-3, True),
    ("lower", 0.0, 0.0, 1e-9, True),
    ("lower", None, 0.5, 0.1, False),
    ("lower", None, 0.5, math.nan, True),
    ("lower", None, math.nan, 0.5, False),
    ("higher", None, 0.95, math.inf, False),
]


@pytest.mark.parametrize(("better", "tolerance", "was", "now", "worse"), QUALITIES)
def test_quality_regresses_beyond_its_tolerance(
    make_record, better, tolerance, was, now, worse
):
    old, new = (
        make_record(
            quality_name="q", quality={"q": value}, better=better, tolerance=tolerance
        )
        for value in (was, now)
    )
    regressions = compare_results([old], [new]).regressions
    assert bool(regressions) == worse
    assert not worse or "q worsened from" in regressions[0]


def test_lost_contenders_fail_and_new_ones_are_told(make_record):
    old = [make_record("base"), make_record("gone"), make_record("fails")]
    failed = make_record("fails", [], status="failed", reason="no luck")
    new = [make_record("base"), failed, make_record("fresh")]
    comparison = compare_results(old, new)
    assert comparison.regressions == ["demo gone: lost", "demo fails: lost (no luck)"]
    assert [record.contender for record in comparison.gained] == ["fresh"]


def test_a_case_left_out_of_the_new_run_is_told(make_record):
    old = [make_record("base"), make_record("base", case="more")]
    comparison = compare_results(old, [make_record("base")])
    assert comparison.regressions == []
    assert "case more is not in the new run" in comparison.notes


def test_parameters_left_out_of_the_new_run_are_told(make_record):
    old = [make_record("base", params={"n": n}) for n in (1, 2)]
    comparison = compare_results(old, old[:1])
    assert "demo n=2 is not in the new run" in comparison.notes


def test_a_changed_case_is_told(make_record):
    comparison = compare_results([make_record(version="a")], [make_record(version="b")])
    assert "the file of case demo was changed in between" in comparison.notes


def test_nothing_in_common_is_an_error(make_record):
    with pytest.raises(UsageError, match="in common"):
        compare_results([make_record(case="a")], [make_record(case="b")])


@pytest.mark.parametrize("threshold", [1.0, 0.5, math.nan, math.inf])
def test_a_bad_threshold_is_named(make_record, threshold):
    with pytest.raises(UsageError, match="`threshold` must be a number beyond 1"):
        compare_results([make_record()], [make_record()], threshold=threshold)


REAL = """
case = Case(name="demo", claim="It is.", baseline="base", profiles={"smoke": [{}]})

@case.contender("base")
def _():
    return Workload(run=lambda: time.sleep(0.02))

@case.contender("sleeps")
def _():
    return Workload(run=lambda: time.sleep(SLEEP))

@case.contender("loops")
def _():
    return Workload(run=lambda: sum(range(LOOP)))
"""


@pytest.fixture
def real_run(write_cases, tmp_path):
    def run(name, sleep, loop):
        text = REAL.replace("SLEEP", str(sleep)).replace("LOOP", str(loop))
        cases = list(load_cases(write_cases(text)).values())
        return run_cases(cases, "smoke", tmp_path / name)

    return run


def test_a_slowdown_planted_in_a_real_run_fails_and_its_noise_passes(real_run):
    old = real_run("old", 0.01, 300_000)
    same = real_run("same", 0.01, 300_000)
    slow = real_run("slow", 0.02, 1_200_000)
    # Sleeping does not notice who else uses the machine, looping does.
    assert not [
        line for line in compare_results(old, same).regressions if "loops" not in line
    ]
    lines = compare_results(same, slow).regressions
    for name in ("sleeps", "loops"):
        assert any(line.startswith(f"demo {name}: time grew") for line in lines)
