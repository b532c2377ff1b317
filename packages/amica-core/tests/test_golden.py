"""Every recorded run of the Fortran program is repeated iteration by iteration."""

import amica_core as ac
import golden
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not golden.FOLDER.is_dir(), reason="the golden runs (shared/golden) are not here"
)


def _fit(case: golden.Case, **changes) -> ac.Result:
    arguments = case.arguments() | {"backend": "numpy"} | changes
    return ac.fit(golden.samples(case.name), **arguments)


@pytest.mark.parametrize("name", golden.names())
def test_repeats_the_fortran_program(name):
    case = golden.Case(name)
    # What comes later in the others adds time and no formula; the compiled backend,
    # which is faster, goes through all of it.
    n_iter = case.n_iter if case.is_tame else min(case.n_iter, 60)
    result = _fit(case) if case.is_tame else _fit(case, max_iter=n_iter)
    course, expected = result.history.log_likelihood, case.log_likelihood()[:n_iter]
    assert result.n_iter == n_iter
    if n_iter == case.n_iter:
        np.testing.assert_array_equal(result.model.slots, case.slots())
    if name == "avgref_keepall_nomu":
        # A direction with variance 1e-15 is kept on purpose: Fortran differs from
        # itself by 4e-4, so the case only shows that the fit survives.
        np.testing.assert_allclose(course, expected, atol=1e-3)
        return
    if case.is_tame:
        np.testing.assert_allclose(course, expected, rtol=0, atol=1e-10)
        for field, values in case.parameters(result.model).items():
            np.testing.assert_allclose(
                getattr(result.model, field)[..., values.used],
                values.expected,
                rtol=0,
                atol=1e-8,
                err_msg=field,
            )
        return
    # The step of `mu` amplifies rounding; the bound is what two builds of the
    # Fortran program show against each other.
    noise = case.noise_course()[:n_iter]
    early = np.maximum(10 * noise[:10], 1e-8)
    late = np.maximum(10 * noise, 1e-4)
    assert np.all(np.abs(course - expected)[:10] <= early)
    assert np.all(np.abs(course - expected) <= late)


@pytest.mark.parametrize("name", ["m2_newton_nomu", "reject_nomu"])
def test_joint_log_likelihood_of_the_last_e_step(name):
    case = golden.Case(name)
    # Fortran writes what the E-step before the last update gave.
    result = _fit(case, max_iter=case.n_iter - 1)
    X = golden.samples(name)
    expected = case.load("LLt", case.M + 1, len(X)).T[:, : case.M]
    joint = result.joint_log_likelihood(X)
    joint[~result.kept] = 0.0
    np.testing.assert_allclose(joint, expected, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(result.kept, expected[:, 0] != 0)


def test_sphering_of_the_fortran_program():
    for name in ("pca10_approx_nomu", "m1_newton_nomu"):
        case = golden.Case(name)
        sphering = _fit(case, max_iter=1).sphering
        n, channels = sphering.matrix.shape
        expected = case.load("S", channels, channels)
        np.testing.assert_allclose(sphering.matrix, expected[:n], atol=1e-10)
        np.testing.assert_allclose(sphering.mean, case.load("mean"), atol=1e-12)
