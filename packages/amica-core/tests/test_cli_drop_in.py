"""A parameter file run in the Fortran program's place."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from amica_core._cli.drop_in import run_parameter_file
from amica_core._io.amicaout import read_amicaout
from amica_core._io.conversion import eeglab_structure, from_amicaout
from amica_core._io.log import parse_log

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
# What EEGLAB's `runamica15` writes, with the formats of its `fprintf`.
EEGLAB = """\
files {files}
outdir {outdir}
block_size 128
do_opt_block 0
blk_min 256
blk_step 256
blk_max 1024
num_models {models}
max_threads 2
use_min_dll 1
min_dll 1.000000e-09
use_grad_norm 1
min_grad_norm 1.000000e-07
num_mix_comps 3
pdftype 0
max_iter {max_iter}
num_samples {num_samples}
data_dim {channels}
field_dim {field_dim}
field_blocksize 1
do_history 0
histstep 10
share_comps 0
share_start 100
comp_thresh 0.990000
share_iter 100
lrate 0.050000
minlrate 1.000000e-08
mineig 1.000000e-12
lratefact 0.500000
rholrate 0.050000
rho0 1.500000
minrho 1.000000
maxrho 2.000000
rholratefact 0.500000
kurt_start 3
num_kurt 5
kurt_int 1
do_newton 1
newt_start 50
newt_ramp 10
newtrate 1.000000
do_reject 0
numrej 3
rejsig 3.000000
rejstart 2
rejint 3
writestep 20
write_nd 0
write_LLt 1
decwindow 1
max_decs 3
fix_init 0
update_A 1
update_c 1
update_gm 1
update_alpha 1
update_mu 1
update_beta 1
invsigmax 100.000000
invsigmin 0.000000
do_rho 1
load_rej 0
load_W 0
load_c 0
load_gm 0
load_alpha 0
load_mu 0
load_beta 0
load_rho 0
load_comp_list 0
do_mean 1
do_sphere 1
doPCA 1
pcakeep {channels}
pcadb 30.000000
byte_size 4
doscaling 1
scalestep 1
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def X():
    rng = np.random.default_rng(2)
    return (rng.laplace(size=(800, 3)) @ rng.normal(size=(3, 3))).astype("<f4")


def parameter_file(path, extra="", **values):
    values = (
        dict(
            files="data.fdt",
            outdir="out/",
            models=1,
            max_iter=12,
            num_samples=1,
            channels=3,
            field_dim=800,
        )
        | values
    )
    path.write_text(EEGLAB.format(**values) + extra)
    return path


def masked(line):
    line = re.sub(r"\([^)]* h\)$", "(time)", line)
    return re.sub(r"[-\d]", "9", line)


CASES = (
    "m2_newton_nomu reject_nomu pca10_approx_nomu share_comps_m2_nomu nosphere_nomu "
    "stop_min_dll_nomu"
).split()


@pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="shared/golden is not beside the checkout"
)
@pytest.mark.parametrize("case", CASES)
def test_golden_run_is_repeated(case, work, capsys):
    text = (GOLDEN / case / "input.param").read_text()
    text = text.replace("./data", str(GOLDEN / "data"))
    text = text.replace("./init", str(GOLDEN / "init"))
    (work / "input.param").write_text(text)
    assert run_parameter_file("input.param") == 0
    ours, theirs = work / case, GOLDEN / case
    for name in "W A c gm alpha mu sbeta rho S mean LL nd comp_list LLt".split():
        assert (ours / name).exists() == (theirs / name).exists()
        if (theirs / name).exists():
            assert (ours / name).stat().st_size == (theirs / name).stat().st_size
    outputs = [read_amicaout(folder) for folder in (ours, theirs)]
    used = np.unique(outputs[1].comp_list) - 1  # the program leaves NaN in the others
    for name in "W A c gm alpha mu sbeta rho S mean LL nd LLt".split():
        pair = [getattr(output, name) for output in outputs]
        if name in ("A", "alpha", "mu", "sbeta", "rho", "nd"):
            pair = [values[:, used] for values in pair]
        if pair[1] is not None:
            tolerance = {"LLt": 1e-6, "nd": 1e-6}.get(name, 1e-7)
            np.testing.assert_allclose(*pair, rtol=1e-7, atol=tolerance)
    data = [(folder / "comp_list").read_bytes() for folder in (ours, theirs)]
    assert data[0] == data[1]
    lines, wanted = [
        (folder / "out.txt").read_text().splitlines() for folder in (ours, theirs)
    ]
    assert [masked(x) for x in lines[:-2]] == [masked(x) for x in wanted[:-2]]
    assert lines[-1] == wanted[-1]
    assert re.fullmatch(r"\.\.\. done\. Execution time: +\d+\.\d\d h ", lines[-2])
    records = [parse_log("\n".join(x)).records for x in (lines, wanted)]
    np.testing.assert_allclose(
        np.array(records[0])[:, :4], np.array(records[1])[:, :4], atol=2e-9
    )
    np.testing.assert_allclose(
        np.array(records[0])[:, 4:6], np.array(records[1])[:, 4:6], rtol=2e-4, atol=1e-9
    )
    numbers = [
        [
            float(x)
            for line in t
            if "likelihood" in line
            for x in re.findall(r"-?\d+\.\d+", line)
        ]
        for t in (lines, wanted)
    ]
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-8)
    assert capsys.readouterr().out.splitlines() == lines


def test_eeglab_file_runs_and_its_loader_reads_the_result(work, X):
    X.tofile("data.fdt")
    assert run_parameter_file(parameter_file(Path("input.param"), models=2)) == 0
    output = read_amicaout("out")
    assert output.missing == ("nd",)
    structure = eeglab_structure(output)
    assert structure["A"].shape == (3, 3, 2)
    assert structure["v"].shape == (2, 800)
    np.testing.assert_allclose((10 ** structure["v"]).sum(axis=0), 1, rtol=1e-3)
    result = from_amicaout(output)
    # `LLt` is of the last E-step, before the last update.
    assert np.abs(result.joint_log_likelihood(X).T - output.LLt[:2]).max() < 1.0
    assert output.LLt[2].mean() / 3 == pytest.approx(output.LL[-1], abs=1e-12)


def test_mixing_is_frozen_when_the_file_says_sharing_or_not(work, X):
    X.tofile("data.fdt")
    path = parameter_file(Path("input.param"), "share_start 4\nshare_iter 8\n")
    assert run_parameter_file(path) == 0
    records = parse_log(Path("out/out.txt").read_text()).records
    dets = [record.log_det_max for record in records]
    still = [n + 1 for n in range(11) if dets[n] == dets[n + 1]]
    # From iteration 4 on, wherever the remainder by 8 is at most 5.
    assert still == [4, 5, 8, 9, 10, 11]


def test_runs_can_be_repeated(work, X):
    X.tofile("data.fdt")
    for outdir in ("one", "two"):
        run_parameter_file(parameter_file(Path(f"{outdir}.param"), outdir=outdir))
    for name in "W LL LLt sbeta".split():
        assert (work / "one" / name).read_bytes() == (work / "two" / name).read_bytes()


def test_files_epochs_precision_and_blanks_change_nothing(work, X):
    X.tofile("data.fdt")
    run_parameter_file(parameter_file(Path("a.param"), outdir="plain"))
    folder = work / "One Drive" / "my data"
    folder.mkdir(parents=True)
    X[:300].astype("<f8").tofile(folder / "part 1.fdt")
    X[300:].astype("<f8").tofile(folder / "part2.fdt")
    path = parameter_file(
        folder / "input.param",
        "dble_data 1\n",
        files=f"{folder / 'part 1.fdt'} {folder / 'part2.fdt'}",
        outdir=f"{folder / 'amica out'}",
        num_samples="30 50",
        field_dim="10 10",  # shorter than threads x block_size
    )
    assert run_parameter_file(path) == 0
    ours, plain = read_amicaout(folder / "amica out"), read_amicaout("plain")
    np.testing.assert_allclose(ours.LL, plain.LL, rtol=1e-9)
    assert ours.LL.all()
    np.testing.assert_allclose(ours.W, plain.W, rtol=1e-6)
    assert sorted(p.name for p in work.iterdir()) == [
        "One Drive",
        "a.param",
        "data.fdt",
        "plain",
    ]


def test_first_values_are_loaded(work, X):
    X.tofile("data.fdt")
    run_parameter_file(parameter_file(Path("a.param"), outdir="first", models=2))
    loads = "".join(
        f"load_{name} 1\n"
        for name in "A c gm alpha mu beta rho comp_list mean sphere rej".split()
    )
    loads += "indir first\nwrite_LLt 0\n"
    run_parameter_file(
        parameter_file(Path("b.param"), loads, outdir="second", models=2, max_iter=1)
    )
    first, second = read_amicaout("first"), read_amicaout("second")
    assert "LLt" in second.missing
    np.testing.assert_array_equal(second.mean, first.mean)
    joint = from_amicaout(first).joint_log_likelihood(X)
    total = np.logaddexp(joint[:, 0], joint[:, 1]).mean() / 3
    assert second.LL[0] == pytest.approx(total, abs=1e-10)
    everything = parameter_file(
        Path("c.param"),
        "load_all_param 1\nindir first\n",
        outdir="third",
        models=2,
        max_iter=1,
    )
    run_parameter_file(everything)
    assert read_amicaout("third").LL[0] != second.LL[0]  # `A` is not loaded


def test_history_is_written(work, X):
    X.tofile("data.fdt")
    path = parameter_file(Path("a.param"), "do_history 1\nhiststep 5\n")
    run_parameter_file(path)
    assert sorted(p.name for p in (work / "out" / "history").iterdir()) == ["10", "5"]
    snapshot = read_amicaout("out/history/5")
    assert set(snapshot.missing) == {"LL", "LLt", "nd"}
    assert snapshot.W.shape == (3, 3, 1)


def test_directory_is_named_after_the_time(work, X):
    X.tofile("data.fdt")
    path = parameter_file(Path("a.param"), max_iter=2)
    path.write_text(re.sub("outdir.*\n", "", path.read_text()))
    run_parameter_file(path)
    (folder,) = work.glob("output*")
    assert re.fullmatch(r"output\d{4}_\d{6}", folder.name)
    assert (folder / "W").exists()


def start(work, X, **values):
    X.tofile(work / "data.fdt")
    path = parameter_file(work / "a.param", max_iter=10**6, **values)
    path.write_text(re.sub("use_(.*) 1\n", r"use_\1 0\n", path.read_text()))
    script = "import sys; from amica_core._cli.drop_in import run_parameter_file as r"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.exit(r('a.param', 'numpy'))"],
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log = work / "out" / "out.txt"
    while not (log.exists() and len(parse_log(log.read_text()).records) >= 5):
        assert process.poll() is None
        time.sleep(0.02)
    return process


def test_killed_run_leaves_no_result(work, X):
    (work / "out").mkdir()
    (work / "out" / "W").write_bytes(bytes(72))  # of an older run
    process = start(work, np.tile(X, (20, 1)), field_dim=16000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if len(parse_log((work / "out" / "out.txt").read_text()).records) < 20:
        with pytest.raises(FileNotFoundError, match="did not finish"):
            read_amicaout(work / "out")


def test_result_is_written_on_the_way_and_at_an_interrupt(work, X):
    process = start(work, X)
    while not (work / "out" / "W").exists():  # every 20 iterations
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    output = read_amicaout(work / "out")
    n_iter = int(np.flatnonzero(output.LL)[-1]) + 1
    assert n_iter == len(parse_log(output.log).records) >= 20
    assert len(output.LL) == 10**6


@pytest.mark.parametrize(
    ("values", "extra", "message"),
    [
        ({"files": "nowhere.fdt"}, "", "there is no file nowhere.fdt"),
        ({"field_dim": 900}, "", "must hold 1 x 900 samples .* got 800"),
        ({"channels": 4}, "", "got 600"),
        ({}, "dble_data 1\n", "double precision channels, got 400"),
        ({"field_dim": 3}, "", "more samples than channels"),
        ({}, "pcakeep 0\n", "`pcakeep` must lie in 1 to 3, got 0"),
        ({}, "pcakeep -3\n", "`pcakeep` must lie in 1 to 3"),
        ({}, "pcakeep 2.7\n", "`pcakeep` must be an integer"),
        ({}, "mineig 1.0e+09\n", "no eigenvalue"),
        ({}, "pdftype 7\n", "`pdftype` must be 0 to 4"),
        ({}, "pdftype 1\n", "`num_mix_comps` must be 1"),
        ({}, "num_comps 5\n", "`num_comps` must be"),
        ({"models": 2}, "fix_init 1\n", "makes all models equal"),
        ({}, "load_A 1\n", "`indir` must say"),
        ({}, "load_A 1\nindir there\n", "no file there/A"),
        ({}, "lrate -1.0\n", "must lie in"),
        ({"max_iter": 0}, "", "max_iter` must be at least 1"),
        ({"models": -1}, "", "num_models` must be at least 1"),
        ({}, "num_mix_comps 0\n", "num_mix_comps` must be at least 1"),
    ],
)
def test_bad_parameters(values, extra, message, work, X):
    X.tofile("data.fdt")
    path = parameter_file(Path("a.param"), extra, **values)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run_parameter_file(path)
    assert sorted(os.listdir(work)) == ["a.param", "data.fdt"]


def test_average_reference_is_seen(work):
    X = np.random.default_rng(5).laplace(size=(2000, 4)).astype("<f4")
    (X - X.mean(axis=1, keepdims=True)).tofile("data.fdt")
    values = dict(channels=4, field_dim=2000, max_iter=3)
    blind = parameter_file(Path("a.param"), "mineig 1.0e-19\n", **values)
    with pytest.warns(RuntimeWarning, match="rank 3 .* set `pcakeep 3`"):
        run_parameter_file(blind)
    told = parameter_file(Path("b.param"), "pcakeep 3\n", outdir="b", **values)
    run_parameter_file(told)
    assert read_amicaout("b").n_components == 3


def test_samples_that_are_not_finite(work, X):
    X[5, 1] = np.nan
    X.tofile("data.fdt")
    with pytest.raises(ValueError, match="NaN"):
        run_parameter_file(parameter_file(Path("a.param")))
