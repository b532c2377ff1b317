"""Output directories: golden ones, partial ones, stale ones, half-written ones."""

import math
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import amica_core
import hypothesis
import numpy as np
import pytest
from amica_core import (
    AmicaOutput,
    eeglab_structure,
    from_amicaout,
    read_amicaout,
    to_amicaout,
    write_amicaout,
)
from hypothesis import strategies as st

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
CASES = [p.parent.name for p in sorted(GOLDEN.glob("*/out.txt"))]
needs_golden = pytest.mark.skipif(
    not CASES, reason="shared/golden is not beside the checkout"
)
FILES = ("W A c gm alpha mu sbeta rho S mean LL nd comp_list LLt out.txt").split()


def independent_read(directory: Path) -> dict:
    """Read a directory from the table of the format alone, number by number."""

    def numbers(name, code="d"):
        data = (directory / name).read_bytes()
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)

    gm = numbers("gm")
    M = len(gm)
    flat = numbers("W")
    n = math.isqrt(len(flat) // M)
    W = [
        [[flat[(h * n + k) * n + i] for k in range(n)] for i in range(n)]
        for h in range(M)
    ]
    mean = numbers("mean")
    S = [list(numbers("S"))[i :: len(mean)] for i in range(len(mean))]
    slots = numbers("comp_list", "i")[: n * M]
    alpha, mu, sbeta, rho = (numbers(name) for name in ("alpha", "mu", "sbeta", "rho"))
    J = len(alpha) // (n * M)
    return {
        "n": n,
        "M": M,
        "J": J,
        "gm": gm,
        "W": np.array(W),
        "mean": np.array(mean),
        "S": np.array(S),
        "slots": [[slots[h * n + i] for i in range(n)] for h in range(M)],
        "c": [numbers("c")[h * n : (h + 1) * n] for h in range(M)],
        "terms": [
            [
                [values[(slots[h * n + i] - 1) * J + j] for j in range(J)]
                for i in range(n)
            ]
            for values in (alpha, mu, sbeta, rho)
            for h in range(M)
        ],
        "LL": numbers("LL"),
        "LLt": numbers("LLt") if (directory / "LLt").exists() else None,
    }


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(900, 4)) @ rng.normal(size=(4, 4)) + 3
    result = amica_core.fit(X, n_models=2, max_iter=12, random_state=0)
    return X, result


@pytest.fixture
def directory(fitted, tmp_path):
    X, result = fitted
    write_amicaout(to_amicaout(result, X, max_iter=20), tmp_path / "out")
    return tmp_path / "out"


@needs_golden
@pytest.mark.parametrize("case", CASES)
def test_golden_directory_is_rewritten_byte_by_byte(case, tmp_path):
    source = GOLDEN / case
    output = read_amicaout(source)
    assert output.missing == ((), ("LLt",))[not (source / "LLt").exists()]
    write_amicaout(output, tmp_path / "new")
    written = {p.name for p in (tmp_path / "new").iterdir()}
    assert written == {name for name in FILES if (source / name).exists()}
    for name in written:
        assert (tmp_path / "new" / name).read_bytes() == (source / name).read_bytes()


@needs_golden
@pytest.mark.parametrize("case", CASES)
def test_golden_directory_becomes_the_fitted_model(case):
    raw = independent_read(GOLDEN / case)
    result = from_amicaout(read_amicaout(GOLDEN / case))
    used = [k - 1 for slots in raw["slots"] for k in slots]
    for h in range(raw["M"]):
        W = raw["W"][h]
        np.testing.assert_allclose(result.model.unmixing(h), W, rtol=1e-7, atol=1e-9)
        # What is the case's own: one eigenvalue is 1e-15, and its inverse is noise.
        if case != "avgref_keepall_nomu":
            S = raw["S"][: raw["n"]]
            np.testing.assert_allclose(
                result.unmixing(h) @ result.mixing(h), np.eye(raw["n"]), atol=1e-8
            )
            np.testing.assert_allclose(result.unmixing(h), W @ S, rtol=1e-7, atol=1e-9)
    assert np.isfinite(result.model.A[:, used]).all()
    finite = [value for value in raw["LL"] if value != 0]
    np.testing.assert_array_equal(result.history.log_likelihood, finite)


@needs_golden
def test_golden_log_likelihoods_of_samples_follow_from_the_model():
    # The files hold the parameters after the last update and the likelihoods before
    # it, which at the end of a run is a small difference.
    case = GOLDEN / "m2_newton_nomu"
    X = np.fromfile(GOLDEN / "data" / "gold6_2m.fdt", "<f4").reshape(-1, 6)
    output = read_amicaout(case)
    result = from_amicaout(output)
    joint = result.joint_log_likelihood(X)
    assert np.abs(joint.T - output.LLt[:2]).max() < 0.5
    assert abs(np.logaddexp(*joint.T).mean() / 6 - output.LL[-1]) < 2e-3


@needs_golden
@pytest.mark.parametrize("case", ["reject_nomu", "stop_min_dll_nomu", "m1_newton"])
def test_history_of_a_golden_directory(case):
    result = from_amicaout(read_amicaout(GOLDEN / case))
    reasons = {"stop_min_dll_nomu": "min_change"}
    assert result.stop_reason == reasons.get(case, "max_iter")
    assert result.n_iter == {"m1_newton": 100, "reject_nomu": 60}.get(case, 80)
    if case == "reject_nomu":
        assert np.count_nonzero(~result.kept) == 655
        assert result.history.n_kept[[1, 2, -1]].tolist() == [10000, 9900, 9345]
    log = (GOLDEN / case / "out.txt").read_text()
    first = next(line for line in log.splitlines() if line.startswith(" iter     7"))
    norm = float(first.split("nd =")[1].split(",")[0])
    assert result.history.gradient_norm[6] == pytest.approx(norm, abs=1e-10)
    assert result.history.learning_rate[5] == float(first.split()[4])


def test_own_directory_gives_back_the_fit(fitted, directory):
    X, result = fitted
    raw = independent_read(directory)
    assert (raw["n"], raw["M"], raw["J"]) == (4, 2, 3)
    model = result.model
    for h in range(2):
        np.testing.assert_allclose(raw["W"][h], model.unmixing(h), rtol=1e-13)
        assert list(raw["c"][h]) == model.c[:, h].tolist()
        np.testing.assert_allclose(
            raw["W"][h] @ raw["S"], result.unmixing(h), rtol=1e-12, atol=1e-14
        )
    terms = iter(raw["terms"])
    for values in (model.alpha, model.mu, model.beta, model.rho):
        for h in range(2):
            assert np.array_equal(next(terms), values[:, model.slots[:, h]].T)
    assert raw["LL"][:12] == tuple(result.history.log_likelihood)
    assert raw["LL"][12:] == (0.0,) * 8
    LLt = np.reshape(raw["LLt"], (900, 3))
    np.testing.assert_allclose(LLt[:, :2], result.joint_log_likelihood(X), rtol=1e-12)
    np.testing.assert_allclose(LLt[:, 2], np.logaddexp(LLt[:, 0], LLt[:, 1]))
    again = from_amicaout(read_amicaout(directory), fortran=False)
    np.testing.assert_allclose(
        again.joint_log_likelihood(X), result.joint_log_likelihood(X), rtol=1e-9
    )


def test_structure_is_that_of_the_loader(directory):
    output = read_amicaout(directory)
    structure = eeglab_structure(output)
    raw = independent_read(directory)
    n, M, J = raw["n"], raw["M"], raw["J"]
    priors = sorted(range(M), key=lambda h: -raw["gm"][h])
    for rank, h in enumerate(priors):
        assert structure["mod_prob"][0, rank] == raw["gm"][h]
        A = np.linalg.pinv(raw["W"][h] @ raw["S"][:n])
        alpha, mu, sbeta, rho = (raw["terms"][f * M + h] for f in range(4))
        svar = []
        for i in range(n):
            power = sum(a * a for a in A[:, i])
            spread = sum(
                alpha[i][j]
                * (
                    mu[i][j] ** 2
                    + math.gamma(3 / rho[i][j])
                    / math.gamma(1 / rho[i][j])
                    / sbeta[i][j] ** 2
                )
                for j in range(J)
            )
            svar.append(power * spread)
        order = sorted(range(n), key=lambda i: -svar[i])
        assert structure["origord"][:, rank].tolist() == [i + 1 for i in order]
        for place, i in enumerate(order):
            norm = math.sqrt(sum(a * a for a in A[:, i]))
            np.testing.assert_allclose(structure["svar"][place, rank], svar[i])
            np.testing.assert_allclose(structure["A"][:, place, rank], A[:, i] / norm)
            np.testing.assert_allclose(
                structure["W"][place, :, rank], raw["W"][h][i] * norm
            )
            np.testing.assert_allclose(
                structure["mu"][:, place, rank], np.array(mu[i]) * norm
            )
            np.testing.assert_allclose(
                structure["sbeta"][:, place, rank], np.array(sbeta[i]) / norm
            )
            assert structure["comp_list"][place, rank] == raw["slots"][h][i]
    LLt = np.reshape(raw["LLt"], (-1, M + 1))
    np.testing.assert_allclose(
        structure["v"], 0.4343 * (LLt[:, priors] - LLt[:, M:]).T, rtol=1e-12
    )


def test_result_sorts_as_the_loader_does(fitted, directory):
    _, result = fitted
    structure = eeglab_structure(read_amicaout(directory))
    ordered = result.sorted()
    for h in range(2):
        maps = ordered.mixing(h)
        maps = maps / np.linalg.norm(maps, axis=0)
        np.testing.assert_allclose(structure["A"][:, :, h], maps, atol=1e-10)
        np.testing.assert_allclose(
            structure["svar"][:, h], ordered.variances(h), rtol=1e-9
        )


@pytest.mark.parametrize(
    "names", [("A",), ("comp_list",), ("c", "gm"), ("LL", "nd", "LLt"), ("mean",)]
)
def test_partial_directory_is_read(directory, fitted, names):
    for name in names:
        (directory / name).unlink(missing_ok=True)
    if "gm" in names:
        (directory / "gm").write_bytes(struct.pack("<2d", 0.5, 0.5))
    output = read_amicaout(directory)
    gone = {name for name in names if name != "gm"}
    assert gone <= set(output.missing)
    assert "W" not in output.missing
    result = from_amicaout(output)
    np.testing.assert_allclose(
        result.model.unmixing(0), fitted[1].model.unmixing(0), rtol=1e-9
    )


def test_directory_of_w_and_s_alone_is_read(directory):
    for name in FILES:
        if name not in ("W", "S"):
            (directory / name).unlink(missing_ok=True)
    raw = np.fromfile(directory / "W", "<f8")[:16]
    raw.tofile(directory / "W")
    output = read_amicaout(directory)
    assert (output.n_models, output.n_components, output.n_channels) == (1, 4, 4)
    assert output.rho.tolist() == [[2.0] * 4]
    assert not output.mean.any()
    assert from_amicaout(output).n_iter == 0
    assert eeglab_structure(output)["A"].shape == (4, 4, 1)


def test_stale_tail_of_sample_log_likelihoods(directory):
    whole = read_amicaout(directory).LLt
    with open(directory / "LLt", "ab") as file:
        file.write(np.full(3 * 50, 7.0).tobytes())
    assert read_amicaout(directory).LLt.shape == (3, 950)  # nothing tells
    with pytest.warns(RuntimeWarning, match="older, longer run"):
        output = read_amicaout(directory, n_samples=900)
    np.testing.assert_array_equal(output.LLt, whole)
    (directory / "input.param").write_text(
        "files a b.fdt\nnum_samples 2\nfield_dim 450\ndata_dim 4\nmax_iter 9\n"
    )
    with pytest.warns(RuntimeWarning, match="older, longer run"):
        assert read_amicaout(directory).LLt.shape == (3, 900)


def test_sample_log_likelihoods_that_were_cut_short(directory):
    data = (directory / "LLt").read_bytes()
    (directory / "LLt").write_bytes(data[: 24 * 100 + 11])
    with pytest.warns(RuntimeWarning, match="cut short"):
        output = read_amicaout(directory, n_samples=900)
    assert output.LLt.shape == (3, 100)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("W", b"", "W must hold numbers of 8 bytes, got 0 bytes"),
        ("W", bytes(8 * 7), "W must hold"),
        ("mean", bytes(8 * 3), "S must hold 9 numbers"),
        ("alpha", bytes(8 * 9), "alpha must hold a multiple of 8"),
        ("mu", bytes(8 * 8), "mu must hold 24 numbers .*as `alpha`"),
        ("comp_list", bytes(4), "comp_list must hold 8 numbers"),
        ("comp_list", bytes(64), "comp_list must hold numbers from 1 to 8"),
        ("c", bytes(16), "c must hold 8 numbers"),
        ("A", bytes(8 * 5), "A must hold a multiple of 4"),
        ("nd", bytes(8 * 5), "nd must hold a multiple of 8"),
        ("LL", bytes(12), "LL must hold numbers of 8 bytes, got 12 bytes"),
    ],
)
def test_file_of_a_wrong_size(directory, name, content, message):
    (directory / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_amicaout(directory)


def test_directories_that_are_none(tmp_path, directory):
    with pytest.raises(FileNotFoundError, match="not a directory"):
        read_amicaout(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="holds no `W`"):
        read_amicaout(tmp_path)
    (directory / "S").unlink()
    (directory / "mean").unlink()
    with pytest.raises(FileNotFoundError, match="neither `S` nor `mean`"):
        read_amicaout(directory)


def test_older_result_is_replaced_only_when_asked(directory, fitted):
    (directory / "input.param").write_text("kept")
    output = to_amicaout(fitted[1])
    with pytest.raises(FileExistsError, match="`overwrite=True`"):
        write_amicaout(output, directory)
    write_amicaout(output, directory, overwrite=True)
    assert not (directory / "LLt").exists()  # it belonged to the older result
    assert (directory / "input.param").read_text() == "kept"
    assert not [p for p in directory.iterdir() if p.name.startswith(".")]


def test_path_with_blanks(fitted, tmp_path):
    write_amicaout(to_amicaout(fitted[1]), tmp_path / "One Drive" / "my results")
    assert isinstance(
        read_amicaout(str(tmp_path / "One Drive" / "my results")), AmicaOutput
    )


@pytest.mark.parametrize("stage", ["staging", "moving"])
def test_killed_writer_leaves_nothing_that_looks_whole(directory, stage):
    script = f"""
import os, time
from amica_core import read_amicaout, write_amicaout
output = read_amicaout({str(directory)!r})
replace = os.replace
moved = []
def slow(source, target):
    if {stage!r} == "staging" or len(moved) == 5:
        print("now", flush=True)
        time.sleep(60)
    moved.append(target)
    replace(source, target)
os.replace = slow
write_amicaout(output, {str(directory)!r}, overwrite=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with pytest.raises(FileNotFoundError, match="did not finish"):
        read_amicaout(directory)


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2),
    st.integers(0, 4), st.booleans(),
)  # fmt: skip
def test_what_is_written_is_read(n, M, J, extra, T, with_samples):
    rng = np.random.default_rng(n + 10 * M)
    K, channels = n * M, n + extra
    slots = rng.integers(1, K + 1, size=(n, M)).astype(np.int32)
    output = AmicaOutput(
        W=rng.normal(size=(n, n, M)),
        S=rng.normal(size=(channels, channels)),
        mean=rng.normal(size=channels),
        gm=rng.dirichlet(np.ones(M)),
        c=rng.normal(size=(n, M)),
        comp_list=slots,
        A=rng.normal(size=(n, K)),
        **{name: rng.uniform(size=(J, K)) for name in ("alpha", "mu", "sbeta", "rho")},
        LL=rng.normal(size=7),
        nd=rng.uniform(size=(7, K)),
        LLt=rng.normal(size=(M + 1, T + 1)) if with_samples else None,
        log=" iter\n" if with_samples else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        write_amicaout(output, folder)
        again = read_amicaout(folder)
    for name, values in vars(output).items():
        if name != "missing":
            np.testing.assert_array_equal(getattr(again, name), values)
    assert again.missing == (() if with_samples else ("LLt",))


def test_length_of_the_history(fitted):
    with pytest.raises(ValueError, match="`max_iter` must be at least the 12"):
        to_amicaout(fitted[1], max_iter=3)
    with pytest.raises(ValueError, match="`X` must have the 900 samples"):
        to_amicaout(fitted[1], np.zeros((5, 4)))


def test_reduced_rank_keeps_rows_of_zeros(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.laplace(size=(600, 5))
    result = amica_core.fit(
        X, 3, max_iter=5, random_state=0, stopping=amica_core.Stopping(min_change=None)
    )
    write_amicaout(to_amicaout(result), tmp_path / "out")
    raw = independent_read(tmp_path / "out")
    assert raw["S"].shape == (5, 5)
    assert not raw["S"][3:].any()
    again = from_amicaout(read_amicaout(tmp_path / "out"))
    np.testing.assert_allclose(again.unmixing(), result.unmixing(), rtol=1e-9)
    np.testing.assert_allclose(
        again.sphering.variances[:3], result.sphering.variances[:3], rtol=1e-8
    )
