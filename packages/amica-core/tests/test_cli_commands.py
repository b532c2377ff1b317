"""The commands `fit`, `info`, `plot` and `compare`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import amica_core as ac
import numpy as np
import pytest
from amica_core import _em
from amica_core.__main__ import main

EEG = Path(__file__).parents[4] / "shared" / "data" / "eeg"
needs_recordings = pytest.mark.skipif(
    not EEG.is_dir(), reason="shared/data is not beside the checkout"
)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(1000, 3)) @ rng.normal(size=(3, 3))


@pytest.fixture
def work(tmp_path, monkeypatch, X):
    monkeypatch.chdir(tmp_path)
    np.save("rest.npy", X)
    return tmp_path


def run(*words):
    return main([str(word) for word in words])


def write_recording(folder, n_epochs=None):
    """Write a short recording as MNE's .fif."""
    mne = pytest.importorskip("mne")
    rng = np.random.default_rng(1)
    names = ["Fz", "Cz", "Pz", "Oz", "EOG"]
    info = mne.create_info(names, 100.0, ["eeg"] * 4 + ["eog"])
    with info._unlock():
        info["highpass"] = 1.0
    data = 1e-5 * rng.normal(size=(5, 5)) @ rng.laplace(size=(5, 2000))
    if n_epochs is None:
        path = folder / "rest_raw.fif"
        mne.io.RawArray(data, info, verbose="error").save(path, verbose="error")
        return path
    path = folder / "rest-epo.fif"
    epochs = data.reshape(5, n_epochs, -1).transpose(1, 0, 2)
    mne.EpochsArray(epochs, info, verbose="error").save(path, verbose="error")
    return path


def test_output_forms_hold_the_same_fit(work, X):
    words = ["fit", "rest.npy", "--iterations", "8", "--models", "2", "-q"]
    assert run(*words, "-o", "a.npz", "-o", "out") == 0
    archive = ac.load_result("a.npz")
    output = ac.read_amicaout("out")
    np.testing.assert_allclose(
        ac.from_amicaout(output).unmixing(1), archive.unmixing(1), rtol=1e-9
    )
    assert output.LLt.shape == (3, 1000)
    assert run(*words) == 0
    assert (work / "rest.amica.npz").exists()


def test_solver(work):
    words = ["fit", "rest.npy", "-q", "--iterations", "25"]
    for solver in ("em", "quasi_newton"):
        assert run(*words, "--solver", solver, "-o", f"{solver}.npz") == 0
    em, quasi_newton = (ac.load_result(f"{s}.npz") for s in ("em", "quasi_newton"))
    assert quasi_newton.log_likelihood > em.log_likelihood + 1e-3


def test_summary_for_machines(work, capsys):
    words = ["fit", "rest.npy", "--iterations", "5", "--reject", "-q", "--json"]
    assert run(*words, "-o", "a.npz") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["iterations"] == 5
    assert facts["rejected_samples"] > 0
    assert facts["written"] == ["a.npz"]
    assert run("info", "a.npz", "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again == {k: v for k, v in facts.items() if k != "written"}


def test_mne_outputs(tmp_path, monkeypatch, capsys):
    mne = pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    path = write_recording(tmp_path)
    words = ["fit", path, "--iterations", "5", "--models", "2"]
    assert run(*words, "-o", "rest-ica.fif", "-o", "a.npz") == 0
    shown = capsys.readouterr().out
    assert "wrote          rest-ica.fif" in shown
    assert "wrote          rest-2-ica.fif" in shown
    result = ac.load_result("a.npz")
    for h, name in enumerate(["rest-ica.fif", "rest-2-ica.fif"]):
        ica = mne.preprocessing.read_ica(name, verbose="error")
        assert ica.ch_names == ["Fz", "Cz", "Pz", "Oz"]
        np.testing.assert_allclose(
            ica.get_components(), result.mixing(h), rtol=1e-6, atol=1e-9
        )
    assert run("compare", "a.npz", "rest-ica.fif", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["median_similarity"] == pytest.approx(1, abs=1e-6)
    assert facts["log_likelihoods"][1] is None


def test_preparation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_recording(tmp_path)
    words = ["fit", path, "--iterations", "2", "-q", "--overwrite", "-o", "a.npz"]
    assert run(*words, "--picks", "eeg,eog", "--resample", "50") == 0
    result = ac.load_result("a.npz")
    assert len(result.kept) == 1000
    assert result.unmixing().shape == (5, 5)
    assert run(*words, "--picks", "Pz,Fz,Cz", "--components", "2") == 0
    assert ac.load_result("a.npz").unmixing().shape == (2, 3)
    assert run(*words, "--highpass", "2") == 0


def test_epochs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write_recording(tmp_path, n_epochs=10)
    assert run("fit", path, "--iterations", "2", "-o", "a.npz") == 0
    assert "samples        2000" in capsys.readouterr().out


@needs_recordings
@pytest.mark.filterwarnings("ignore:.*high-pass")
def test_set_file_from_beginning_to_end(tmp_path, monkeypatch, capsys):
    """A real recording: fitted, written for EEGLAB, described, drawn, compared."""
    pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    for suffix in ("set", "fdt"):
        shutil.copy(EEG / "eeglab" / f"eeglab_data.{suffix}", tmp_path)
    words = ["fit", "eeglab_data.set", "--highpass", "1", "--iterations", "2", "-q"]
    words += ["--picks", "Fz,Cz,Pz,Oz,C3,C4"]
    assert run(*words, "-o", "amica.set", "-o", "out", "-o", "a.npz") == 0
    inside = ac.read_eeglab("amica.set")
    archive = ac.load_result("a.npz")
    maps = archive.mixing() / np.linalg.norm(archive.mixing(), axis=0)
    np.testing.assert_allclose(inside.mixing(), maps, rtol=1e-8)
    assert len(inside.kept) == 30504
    assert run("info", "amica.set") == 0
    assert "6 components" in capsys.readouterr().out
    words = ["compare", "amica.set", "out", "eeglab_data.set", "-o", "match.png"]
    assert run(*words) == 2
    assert "`info` must have the 6 channels" in capsys.readouterr().err
    assert run(*words, "--picks", "Fz,Cz,Pz,Oz,C3,C4") == 0
    assert "6 of 6 pairs above 0.95" in capsys.readouterr().out
    assert (tmp_path / "match.png").exists()
    draw = ["plot", "a.npz", "eeglab_data.set", "--picks", "Fz,Cz,Pz,Oz,C3,C4"]
    assert run(*draw, "-o", "report.html") == 0
    assert 'id="densities-1"' in (tmp_path / "report.html").read_text()
    assert run("info", "eeglab_data.set", "--json") == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["rank"] == facts["channels"] == 32
    assert facts["samples_per_squared_component"] == pytest.approx(29.8, abs=0.1)
    assert facts["advice"] == []


def write_bdf(path, data, rate):
    """Write BioSemi's format: a text header, then 24 bit numbers a second at a time."""
    channels, n_times = data.shape
    seconds = n_times // rate
    widths = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
    values = ("", "", "uV", "-4000", "4000", "-8388608", "8388607", "", str(rate), "")
    head = b"\xffBIOSEMI" + b" " * 160 + b"01.01.2601.01.01"
    for text, width in (
        (256 * (channels + 1), 8), ("24BIT", 44), (seconds, 8), (1, 8), (channels, 4),
    ):  # fmt: skip
        head += str(text).ljust(width).encode()
    for number, width in enumerate(widths):
        for c in range(channels):
            text = f"EEG{c}" if number == 0 else values[number]
            head += text.ljust(width).encode()
    digital = np.round(data * 8388608 / 4000).astype("<i4")
    blocks = digital.reshape(channels, seconds, rate).transpose(1, 0, 2)
    triples = np.ascontiguousarray(blocks).view(np.uint8).reshape(-1, 4)[:, :3]
    path.write_bytes(head + triples.tobytes())


def write_brainvision(path, data, rate):
    """Write BrainVision's format: a header, a file of markers, and float32 samples."""
    data.T.astype("<f4").tofile(path.with_suffix(".eeg"))
    path.with_suffix(".vmrk").write_text(
        "Brain Vision Data Exchange Marker File, Version 1.0\n\n[Common Infos]\n"
        f"DataFile={path.stem}.eeg\n\n[Marker Infos]\nMk1=New Segment,,1,1,0\n"
    )
    names = "".join(f"Ch{c + 1}=E{c},,1,uV\n" for c in range(len(data)))
    path.write_text(
        "Brain Vision Data Exchange Header File Version 1.0\n\n[Common Infos]\n"
        f"DataFile={path.stem}.eeg\nMarkerFile={path.stem}.vmrk\n"
        "DataFormat=BINARY\nDataOrientation=MULTIPLEXED\n"
        f"NumberOfChannels={len(data)}\nSamplingInterval={1e6 / rate}\n\n"
        f"[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n\n[Channel Infos]\n{names}"
    )


@pytest.mark.parametrize(
    ("name", "write"), [("a.bdf", write_bdf), ("a.vhdr", write_brainvision)]
)
@pytest.mark.filterwarnings("ignore:.*high-pass")
def test_other_recordings_that_mne_reads(tmp_path, monkeypatch, name, write, X):
    pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    data = 20 * X.T  # microvolts
    write(tmp_path / name, data, 100)
    assert run("fit", name, "--iterations", "5", "-q", "-o", "a.npz") == 0
    found = ac.load_result("a.npz")
    wanted = ac.fit(data.T, max_iter=5, random_state=0).sorted()
    np.testing.assert_allclose(found.mixing(), wanted.mixing(), rtol=1e-3, atol=1e-2)


@needs_recordings
@pytest.mark.filterwarnings("ignore:.*high-pass")
def test_edf_file_from_beginning_to_end(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mne")
    monkeypatch.chdir(tmp_path)
    recording = EEG / "eegmmidb" / "S001R08.edf"
    words = ["--highpass", "1", "--resample", "80"]
    fit = ["fit", recording, *words, "--components", "5", "--iterations", "2"]
    assert run(*fit, "-o", "a.npz", "-o", "a-ica.fif", "-o", "out") == 0
    assert "5 components" in capsys.readouterr().out
    assert run("compare", "out", "a-ica.fif") == 0
    assert "5 of 5 pairs above 0.95, median 1.0000" in capsys.readouterr().out
    assert run("plot", "out", recording, *words, "-o", "a.html") == 0
    assert 'id="sources-1"' in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    "picture", ["course", "maps", "sources", "densities", "posteriors", "rejected"]
)
def test_pictures(work, picture):
    run("fit", "rest.npy", "--iterations", "3", "--reject", "-q", "-o", "a.npz")
    words = ["plot", "a.npz", "rest.npy", "--picture", picture]
    assert run(*words, "-o", f"{picture}.png") == 0
    assert (work / f"{picture}.png").read_bytes()[:4] == b"\x89PNG"


def test_report_of_a_fit(work, capsys):
    words = ["fit", "rest.npy", "--iterations", "3", "-q", "-o", "a.npz"]
    assert run(*words, "--report", "a.html") == 0
    assert 'id="sources-1"' in (work / "a.html").read_text()
    assert run("plot", "a.npz") == 0
    assert 'id="maps-1"' in (work / "a.npz.html").read_text()


def test_compare(work, capsys):
    for seed in (0, 1):
        run("fit", "rest.npy", "--iterations", "40", "-q", "--seed", seed,
            "-o", f"{seed}.npz")  # fmt: skip
    assert run("compare", "0.npz", "1.npz", "-o", "match.svg") == 0
    shown = capsys.readouterr().out
    assert "3 of 3 pairs above 0.95" in shown
    assert (work / "match.svg").exists()


def test_recording_before_a_fit(work, X, capsys):
    assert run("info", "rest.npy") == 0
    assert "rank           3" in capsys.readouterr().out
    bad = np.column_stack([X, X[:, 0]])[:150]
    bad[7, 2] = np.nan
    np.save("bad.npy", bad)
    assert run("info", "bad.npy", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rank"], facts["finite"]) == (3, False)
    advice = " ".join(facts["advice"])
    assert "the first is 7" in advice
    assert "rank 3 is below the 4 channels" in advice
    assert "keep 2 components" in advice


def test_parameter_file_is_run(work, X, capsys):
    X.astype("<f4").tofile("data.fdt")
    lines = "files data.fdt\nnum_samples 1\ndata_dim 3\nfield_dim 1000\nmax_iter 3\n"
    Path("input.param").write_text(lines + "pdftype 0\noutdir out\nlrate 1\n")
    assert run("input.param") == 0
    shown = capsys.readouterr()
    assert shown.out.count(" iter ") == 3
    assert "the Fortran program reads 1e-12" in shown.err
    assert ac.read_amicaout("out").LL.shape == (3,)
    assert run("info", "out") == 0
    assert "samples        1000" in capsys.readouterr().out


def test_processes_that_write_to_one_directory(work, X, monkeypatch, capsys):
    X.astype("<f4").tofile("data.fdt")
    lines = "files data.fdt\nnum_samples 1\ndata_dim 3\nfield_dim 1000\nmax_iter 3\n"
    Path("input.param").write_text(lines + "pdftype 0\noutdir out\n")
    script = """
import fcntl, sys
file = open("out/out.txt", "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
    (work / "out").mkdir()
    (work / "out" / "out.txt").write_text("of the other\n")
    holder = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    holder.stdout.readline()
    assert run("input.param") == 2
    assert "another process is writing to out" in capsys.readouterr().err
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")  # a script's mpirun
    assert run("input.param") == 0
    assert "another process does input.param" in capsys.readouterr().err
    assert (work / "out" / "out.txt").read_text() == "of the other\n"
    holder.communicate()
    assert run("input.param") == 0
    assert (work / "out" / "out.txt").read_text().count(" iter ") == 3


def test_a_loop_over_subjects_is_never_asked(work, X, monkeypatch, capsys):
    np.save("second.npy", X[::-1])
    monkeypatch.setattr(sys, "stdin", None)  # who reads it now fails
    for name in ("rest", "second", "rest"):
        assert run("fit", f"{name}.npy", "--iterations", "2", "-q") == 0
    assert capsys.readouterr().out == ""
    assert (work / "second.amica.npz").exists()


def test_fortran_program_as_engine(work, monkeypatch):
    source = (Path(__file__).parent / "fake_amica.py").read_text()
    program = work / "amica15"
    program.write_text(f"#!{sys.executable}\n" + source.split("\n", 1)[1])
    program.chmod(0o755)
    words = ["fit", "rest.npy", "--iterations", "4", "-q", "-o", "a.npz"]
    assert run(*words, "--backend", "fortran", "--program", program) == 0
    assert ac.load_result("a.npz").n_iter == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "nothing.npy"], "`path` must be a file"),
        (["fit", "rest.npy", "-o", "no/a.npz"], "there is no folder"),
        (["fit", "rest.npy", "-o", "a.txt"], "must end in .npz, .set or .fif"),
        (["fit", "rest.npy", "-o", "a.set"], "needs a recording that is a .set"),
        (["fit", "rest.npy", "-o", "a.fif"], "needs channels"),
        (["fit", "rest.npy", "-o", "old.npz"], "pass `--overwrite`"),
        (["fit", "rest.npy", "--picks", "eeg"], "needs a file that MNE reads"),
        (["fit", "rest.npy", "--highpass", "1"], "needs a sampling rate"),
        (["fit", "rest.npy", "--backend", "cobol"], "`backend"),
        (["fit", "wide.npy"], "X.T"),
        (["fit", "nothing.npy"], "`path` must be a file"),
        (["info", "nothing"], "there is no 'nothing'"),
        (["inptu.param"], "'inptu.param' is not a file"),
        (["rest.npy"], "must hold `files`"),
        (["info", "."], "holds no `W`"),
        (["plot", "rest.npy"], "is no fit"),
        (["plot", "old.npz"], "is not a NumPy archive"),
        (["plot", "old.npz", "-o", "a.txt"], "must end in .html"),
        (["compare", "old.npz", "nothing"], "NumPy archive"),
    ],
)
def test_bad_input_is_explained(work, words, message, capsys):
    Path("old.npz").write_text("x")
    np.save("wide.npy", np.zeros((3, 500)))
    before = sorted(os.listdir())
    assert run(*words) == 2
    assert message in capsys.readouterr().err
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("command", [[], ["fit"], ["info"], ["plot"], ["compare"]])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) > 8
    assert max(map(len, shown.splitlines())) < 100


def test_help_loads_no_optional_package():
    code = (
        "import sys\nfrom amica_core.__main__ import main\n"
        "try: main(['fit', '--help'])\nexcept SystemExit: pass\n"
        "print({'torch', 'mne', 'matplotlib'} & set(sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "keeps the best model" in shown.stdout
    assert shown.stdout.endswith("set()\n")


def test_interrupt_keeps_the_best_model(work, monkeypatch, capsys):
    iterate, done = _em._iterate, []

    def interrupted(*arguments):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(iterate(*arguments))

    monkeypatch.setattr(_em, "_iterate", interrupted)
    assert run("fit", "rest.npy", "-o", "a.npz") == 130
    shown = capsys.readouterr()
    assert "interrupted" in shown.err
    assert "4; it was interrupted" in shown.out
    assert ac.load_result("a.npz").stop_reason == "interrupted"
