"""Step sizes fall and rise again, and Newton steps begin when they are asked to."""

import amica_core as ac
import numpy as np
import pytest
from amica_core._schedule import Schedule


def schedule(**rates):
    return Schedule.start(ac.LearningRate(**rates), ac.Newton(start=5), ac.Stopping())


def test_the_rate_rises_again_after_a_fall():
    steps = schedule(rate=0.1)
    assert steps.mixing_rate(newton=False) == 0.1
    for expected in (0.05, 0.025):
        assert steps.judge(2, -1e-3, 1.0) is None
        assert steps.rate == pytest.approx(expected)
    # Doubled while it is small, up to the ceiling, which two falls leave where it was.
    risen = [steps.mixing_rate(newton=False) for _ in range(3)]
    assert risen == pytest.approx([0.05, 0.1, 0.1])


def test_newton_rates_rise_in_the_steps_of_the_ramp():
    steps = schedule(rate=0.05, ramp=10)
    risen = [steps.mixing_rate(newton=True) for _ in range(12)]
    assert risen[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert risen[-2:] == pytest.approx([1.0, 1.0])


def test_repeated_falls_lower_what_the_rate_rises_to():
    steps = schedule(rate=0.1, max_decreases=3)
    for _ in range(3):
        steps.judge(10, -1e-3, 1.0)
    risen = [steps.mixing_rate(newton=False) for _ in range(8)]
    assert risen[-1] == pytest.approx(0.05)
    assert steps.newton_ceiling == pytest.approx(0.5)


@pytest.mark.parametrize("compatibility", [None, "fortran"])
def test_newton_steps_begin_in_the_iteration_that_is_named(compatibility):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    result = ac.fit(
        X,
        newton=ac.Newton(start=5),
        max_iter=12,
        random_state=0,
        compatibility=compatibility,
    )
    rate = result.history.learning_rate
    # Counted from 1: four gradient steps at their ceiling, then the ramp begins.
    np.testing.assert_allclose(rate[:4], 0.05)
    assert not result.history.newton[:4].any()
    np.testing.assert_allclose(rate[4:7], [0.1, 0.2, 0.3])
    assert result.history.newton[4:].all()
