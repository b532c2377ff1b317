"""The log: lines as the Fortran program prints them, and their reading."""

import math
from pathlib import Path

import numpy as np
import pytest
from amica_core._io.log import (
    LogRecord,
    _exponential,
    _fixed,
    _listed,
    closing_lines,
    iteration_line,
    opening_lines,
    parse_iteration,
    parse_log,
    stop_line,
)

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
LOGS = sorted(GOLDEN.glob("*/out.txt"))


@pytest.mark.skipif(not LOGS, reason="shared/golden is not beside the checkout")
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_golden_log_is_written_again(path):
    lines = path.read_text().splitlines()
    iterations = [line for line in lines if line.startswith(" iter")]
    log = parse_log(path.read_text())
    assert log.finished
    assert [r.iteration for r in log.records] == list(range(1, len(iterations) + 1))
    assert [iteration_line(r) for r in log.records] == iterations
    numbers = [np.array(lines[k].split("=")[1].split(), float) for k in (0, 1)]
    kept = int(lines[2].split("=")[1])
    variances = np.zeros(16 if len(numbers[0]) == 3 else 2)
    variances[-3:], variances[:3] = numbers[0][::-1], numbers[1]
    assert opening_lines(variances, kept) == lines[:3]
    assert closing_lines(1.0, "./" + path.parent.name) == lines[-2:]


def record(**changes):
    values = dict(
        iteration=1,
        learning_rate=0.1,
        log_likelihood=-1.0,
        gradient_norm=0.1,
        log_det_max=0.0,
        log_det_min=-0.5,
        seconds=0.01,
        hours_left=0.0,
    )
    return LogRecord(**(values | changes))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("log_likelihood", -12.5),
        ("log_det_max", -123.45),
        ("log_det_max", 1.5e-120),
        ("log_det_min", -0.99999e-7),
        ("seconds", 999.99),
        ("iteration", 123456),
    ],
)
def test_extreme_values_survive(field, value):
    again = parse_iteration(iteration_line(record(**{field: value})))
    assert getattr(again, field) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_read_as_such(value):
    line = iteration_line(record(log_likelihood=value, gradient_norm=math.nan))
    again = parse_iteration(line)
    assert again.log_likelihood == value or math.isnan(value)
    assert math.isnan(again.gradient_norm)
    assert again.seconds == 0.01


def test_what_does_not_fit_becomes_stars():
    line = iteration_line(record(log_likelihood=-1e9, seconds=12345.6))
    assert " LL = **************" in line
    again = parse_iteration(line)
    assert math.isnan(again.log_likelihood)
    assert math.isnan(again.seconds)
    assert again.iteration == 1


@pytest.mark.parametrize(
    ("value", "fixed", "exponential", "listed"),
    [  # what gfortran 12.2 writes with F13.10, with E13.5 and list-directed
        (0.0, " 0.0000000000", "  0.00000E+00", "   0.0000000000000000     "),
        (-0.0, "-0.0000000000", " -0.00000E+00", "  -0.0000000000000000     "),
        (0.09999999999, " 0.1000000000", "  0.10000E+00", "   9.9999999990000005E-002"),
        (-99999.5, "*************", " -0.10000E+06", "  -99999.500000000000     "),
        (1e17, "*************", "  0.10000E+18", "   1.0000000000000000E+017"),
        (-1.2345e-100, "-0.0000000000", " -0.12345E-99", "  -1.2344999999999999E-100"),
        (9.9999951, " 9.9999951000", "  0.10000E+02", "   9.9999950999999996     "),
        (math.nan, "          NaN", "          NaN", "                       NaN"),
        (-math.inf, "    -Infinity", "    -Infinity", "                 -Infinity"),
    ],
)
def test_numbers_are_written_as_by_gfortran(value, fixed, exponential, listed):
    assert _fixed(value, 13, 10) == fixed
    assert _exponential(value) == exponential
    assert _listed(value) == listed


@pytest.mark.parametrize("line", ["", " iter", "Doing rejection ....", " iter *** x"])
def test_other_lines_are_no_iterations(line):
    assert parse_iteration(line) is None


def test_log_that_still_grows():
    text = iteration_line(record()) + "\n" + iteration_line(record(iteration=2))[:40]
    log = parse_log(text)
    assert [r.iteration for r in log.records] == [1]
    assert not log.finished
    assert log.stop_reason is None
    assert parse_log("").records == ()


def test_stop_lines_are_understood():
    for reason, bound in (("min_change", 2e-4), ("min_gradient", 1e-7)):
        assert parse_log(stop_line(reason, bound, 5)).stop_reason == reason
    assert stop_line("max_iter", 0.0, 5) is None
    assert stop_line("min_change", 2e-4, 5) == (
        "Exiting because likelihood increasing by less than   0.20000E-03 for more "
        "than      5 iterations ..."
    )
