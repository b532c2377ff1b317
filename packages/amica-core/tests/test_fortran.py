"""The adapter that runs the Fortran program, against a program of the tests' own."""

import _thread
import os
import shutil
import sys
import time
import types
from pathlib import Path

import amica_core as ac
import numpy as np
import pytest
from amica_core import (
    FortranProgramError,
    find_fortran_program,
    fit_fortran,
    run_fortran,
)
from amica_core._fortran import run

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The stand-in, in a folder with a blank as users have it."""
    path = tmp_path_factory.mktemp("My Programs") / "amica15"
    source = (Path(__file__).parent / "fake_amica.py").read_text()
    path.write_text(f"#!{sys.executable}\n" + source.split("\n", 1)[1])
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    return rng.laplace(size=(1500, 4)) @ rng.normal(size=(4, 4)) + 2.0


def small(**changes):
    return dict(max_iter=6, n_threads=2, random_state=5) | changes


def test_same_fit_as_ours(program, X, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", "fit")
    settings = dict(
        n_models=2,
        learning_rate=ac.LearningRate(rate=1.0, minimum=3e-9, max_decreases=2),
        newton=ac.Newton(start=3, rate=0.3),
        stopping=ac.Stopping(min_change=1e-12, min_gradient=None),
        rejection=ac.Rejection(start=2, interval=2, rounds=2, threshold=3.0),
        fixed=["mu"],
        max_iter=8,
    )
    first = ac.initial_model(4, 2, 3, random_state=9)
    theirs = fit_fortran(X, init=first, program=program, **settings)
    ours = ac.fit(X, init=first, compatibility="fortran", **settings)
    for name, values in ours.model._asdict().items():
        np.testing.assert_array_equal(getattr(theirs.model, name), values)
    np.testing.assert_array_equal(
        theirs.history.log_likelihood, ours.history.log_likelihood
    )
    np.testing.assert_allclose(theirs.unmixing(1), ours.unmixing(1), rtol=1e-10)
    np.testing.assert_allclose(
        theirs.joint_log_likelihood(X), ours.joint_log_likelihood(X)
    )
    np.testing.assert_allclose(
        theirs.sphering.variances, ours.sphering.variances, rtol=1e-10
    )
    assert np.array_equal(theirs.kept, ours.kept)
    assert not theirs.kept.all()
    assert theirs.stop_reason == "max_iter"


def test_is_a_backend_of_fit(program, X, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", "fit")
    options = {"program": program, "n_threads": 2}
    settings = dict(max_iter=6, random_state=5)
    through = ac.fit(X, backend="fortran", backend_options=options, **settings)
    directly = fit_fortran(X, **options, **settings)
    np.testing.assert_array_equal(through.model.A, directly.model.A)
    for unfit in ({"checkpoint": "fit.npz"}, {"group": object()}):
        with pytest.raises(ValueError, match=f"`{next(iter(unfit))}` must be None"):
            ac.fit(X, backend="fortran", backend_options=options, **unfit, **settings)
    with pytest.raises(ValueError, match="`init` must not be a Result"):
        ac.fit(X, backend="fortran", backend_options=options, init=directly, **settings)


@pytest.mark.parametrize("init", ["random", "fixed"])
def test_first_values_are_ours(program, X, init):
    runs = [fit_fortran(X, init=init, program=program, **small()) for _ in range(2)]
    assert np.array_equal(runs[0].model.A, runs[1].model.A)


def test_reduced_rank_and_the_same_seed(program, X, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", "fit")
    X = X.astype(np.float32)  # and is written as such
    settings = dict(n_components=3, sphering="principal", max_iter=6, random_state=5)
    theirs = fit_fortran(X, program=program, n_threads=2, **settings)
    ours = ac.fit(X, compatibility="fortran", backend="numpy", **settings)
    assert theirs.unmixing().shape == (3, 4)
    np.testing.assert_allclose(theirs.unmixing(), ours.unmixing(), rtol=1e-9)


def test_short_recording_gets_a_small_block(program, X):
    result = fit_fortran(X[:40], program=program, **small(n_threads=8, max_iter=2))
    assert result.n_iter == 2


@pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="shared/golden is not beside the checkout"
)
@pytest.mark.parametrize("case", ["m2_newton_nomu", "pca10_approx", "reject_nomu"])
def test_recorded_output_is_loaded(program, case, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_AMICA", f"golden:{GOLDEN / case}")
    channels = {"m2_newton_nomu": 6, "pca10_approx": 16}.get(case, 8)
    parameters = {
        "files": "x.fdt",
        "num_samples": (1,),
        "data_dim": channels,
        "field_dim": (10000,),
        "outdir": "out",
        "max_threads": 1,
        "block_size": 256,
    }
    seen = []
    done = run_fortran(parameters, tmp_path, program=program, on_iteration=seen.append)
    assert done.output.n_channels == channels
    assert seen == list(done.log.records)
    assert len(seen) == {"m2_newton_nomu": 100}.get(case, 60)
    seconds = [record.seconds for record in done.log.records]
    assert 0 < sum(seconds) < 60
    LL = [record.log_likelihood for record in seen]
    np.testing.assert_allclose(LL, done.output.LL, atol=1e-10)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("silent", "ended without an error but wrote nothing"),
        ("no files", "found no component to keep"),
        ("no LL", "wrote no LL"),
        ("nan", "became NaN"),
        ("segfault", r"crashed \(SIGSEGV\).*build the program here"),
        ("intel segfault", r"crashed \(SIGSEGV\)"),
        ("no library", "a shared library is missing; install the MPI run time"),
        ("no mpi", "MPI did not come up"),
        ("status", "ended with status 3"),
        ("no memory", "ran out of memory"),
        ("small segment", "gave up: Error: minimum segment size too small"),
    ],
)
def test_failure_is_explained(program, X, mode, message, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", mode)
    with pytest.raises(FortranProgramError, match=message) as caught:
        fit_fortran(X, program=program, **small())
    assert isinstance(caught.value.text, str)


def test_blocks_too_long_are_seen(program, tmp_path, X):
    np.asarray(X[:100], "<f8").tofile(tmp_path / "x.fdt")
    from amica_core._fortran.fit import _write_model, fortran_parameters

    _write_model(ac.initial_model(4), tmp_path)
    parameters = fortran_parameters(
        max_iter=3,
        learning_rate=ac.LearningRate(),
        newton=ac.Newton(),
        stopping=ac.Stopping(),
        rejection=None,
        sharing=None,
        bounds=ac.Bounds(),
        fixed=(),
        rescale=True,
    ) | {
        "files": "x.fdt",
        "num_samples": (1,),
        "field_dim": (100,),
        "data_dim": 4,
        "dble_data": True,
        "outdir": "out",
        "indir": ".",
        "num_models": 1,
        "num_mix_comps": 3,
        "pdftype": 0,
        "do_mean": True,
        "do_sphere": True,
        "do_approx_sphere": True,
        "pcakeep": 4,
        "max_threads": 2,
        "block_size": 128,
    }
    with pytest.raises(FortranProgramError, match=r"threads x block size \(2 x 128\)"):
        run_fortran(parameters, tmp_path, program=program)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"sharing": ac.Sharing(), "n_models": 2}, "Sharing components always"),
        ({"sphering": "diagonal"}, "The diagonal sphering always"),
    ],
)
def test_known_crash_is_named(program, X, settings, hint, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", "segfault")
    with pytest.raises(FortranProgramError, match=hint):
        fit_fortran(X, program=program, **small(**settings))


def clock_that_leaps(monkeypatch, at):
    """Let an hour pass once a line that starts with `at` has been read."""
    real, see, leap = time.monotonic, run.parse_iteration, []

    def watch(line):
        if line.startswith(at):
            leap.append(3600.0)
        return see(line)

    clock = types.SimpleNamespace(monotonic=lambda: real() + sum(leap))
    monkeypatch.setattr(run, "time", clock)
    monkeypatch.setattr(run, "parse_iteration", watch)


def test_timeout_ends_the_program_and_its_helpers(program, X, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_AMICA", "hang")
    monkeypatch.setenv("FAKE_AMICA_HELPER", str(tmp_path / "helper"))
    clock_that_leaps(monkeypatch, at="helper started")
    with pytest.raises(TimeoutError, match="before it wrote a model; raise `timeout`"):
        fit_fortran(X, program=program, timeout=600.0, **small())
    helper = int((tmp_path / "helper").read_text())
    for _ in range(100):
        try:
            os.kill(helper, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{helper}/stat").read_text().split()[2] == "Z":
            break  # dead, and waits for its parent
        time.sleep(0.05)
    else:
        pytest.fail("the helper lives on")


def test_timeout_keeps_what_was_written(program, X, monkeypatch):
    whole = fit_fortran(X, program=program, **small())
    monkeypatch.setenv("FAKE_AMICA", "hang after writing")
    clock_that_leaps(monkeypatch, at="... done")
    result = fit_fortran(X, program=program, timeout=600.0, **small())
    assert result.stop_reason == "interrupted"
    assert np.array_equal(result.model.A, whole.model.A)


def test_interrupt_keeps_what_was_written(program, X, monkeypatch):
    monkeypatch.setenv("FAKE_AMICA", "hang after writing")
    see = run.parse_iteration

    def interrupt(line):
        if line.startswith("... done"):
            _thread.interrupt_main()
        return see(line)

    monkeypatch.setattr(run, "parse_iteration", interrupt)
    result = fit_fortran(X, program=program, **small())
    assert result.stop_reason == "interrupted"
    assert result.n_iter == 6


def test_interrupt_before_anything_was_written(program, X, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_AMICA", "hang")
    monkeypatch.setenv("FAKE_AMICA_HELPER", str(tmp_path / "helper"))
    see = run.parse_iteration

    def interrupt(line):
        if line.startswith("helper started"):
            _thread.interrupt_main()
        return see(line)

    monkeypatch.setattr(run, "parse_iteration", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_fortran(X, program=program, **small())


def test_progress_is_the_programs_own(program, X, capsys):
    fit_fortran(X, program=program, verbose=True, **small(max_iter=3))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1", "2", "3"]


def test_nothing_is_left_behind(program, X, monkeypatch, tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    fit_fortran(X, program=program, **small())
    assert list(folder.iterdir()) == []


def test_program_is_found(program, monkeypatch, tmp_path):
    assert find_fortran_program(program) == program
    monkeypatch.setenv("AMICA_FORTRAN", str(program))
    assert find_fortran_program() == program
    monkeypatch.delenv("AMICA_FORTRAN")
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_fortran_program() == program
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pass `program`, set AMICA_FORTRAN"):
        find_fortran_program()
    with pytest.raises(FileNotFoundError, match="`program` must be a file"):
        find_fortran_program(tmp_path / "nowhere")
    shutil.copy(program, tmp_path / "plain")
    (tmp_path / "plain").chmod(0o644)
    with pytest.raises(PermissionError, match="chmod"):
        find_fortran_program(tmp_path / "plain")


def test_program_of_another_machine(tmp_path, X):
    path = tmp_path / "amica15"
    path.write_bytes(b"\x7fELF" + bytes(60))
    path.chmod(0o755)
    with pytest.raises(FortranProgramError, match="could not be started"):
        fit_fortran(X, program=path, **small())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"density": "super_gaussian"}, "`n_mixtures` must be 1"),
        ({"density": "cauchy"}, "`density` must be one of"),
        ({"timeout": -1.0}, "`timeout` must lie in"),
        ({"init": "fixed", "n_models": 2}, "makes all models equal"),
        ({"init": ac.initial_model(3)}, "`init` must have"),
    ],
)
def test_bad_setting(program, X, changes, message):
    with pytest.raises(ValueError, match=message):
        fit_fortran(X, program=program, **small(**changes))


def test_shared_first_values_are_refused(program, X):
    first = ac.initial_model(4, 2)
    first = first._replace(slots=np.stack([first.slots[:, 0]] * 2, axis=1))
    with pytest.raises(ValueError, match="must not share"):
        fit_fortran(X, program=program, init=first, **small(n_models=2))


def test_samples_that_are_not_finite(program, X):
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fit_fortran(bad, program=program, **small())
