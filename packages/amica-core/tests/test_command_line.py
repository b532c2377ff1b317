"""The command `amica-core fit`."""

import subprocess
import sys

import amica_core as ac
import golden
import numpy as np
import pytest
from amica_core.__main__ import main

EEG = golden.FOLDER.parent / "data" / "eeg"


def test_an_array(tmp_path, capsys):
    X = np.random.default_rng(0).laplace(size=(500, 3))
    np.save(tmp_path / "data.npy", X)
    output = tmp_path / "fit.npz"
    arguments = ["fit", str(tmp_path / "data.npy"), "-o", str(output)]
    assert main([*arguments, "--iterations", "20"]) == 0
    shown = capsys.readouterr()
    assert "3 components" in shown.out
    assert "20/20" in shown.err
    assert ac.load_result(output).n_iter == 20


@pytest.mark.parametrize("name", ["eeglab/eeglab_data.set", "eegmmidb/S001R04.edf"])
@pytest.mark.skipif(not EEG.is_dir(), reason="the recordings (shared/data) are absent")
def test_a_recording(tmp_path, capsys, name):
    pytest.importorskip("mne")
    output = tmp_path / "fit.npz"
    arguments = ["fit", str(EEG / name), "-o", str(output), "--iterations", "2"]
    assert main([*arguments, "--components", "8", "--highpass", "1"]) == 0
    assert "8 components" in capsys.readouterr().out
    assert np.isfinite(ac.load_result(output).log_likelihood)


def test_bad_input(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "nothing.npy")]) == 2
    assert "`path` must be a file" in capsys.readouterr().err
    np.save(tmp_path / "data.npy", np.zeros((3, 500)))
    assert main(["fit", str(tmp_path / "data.npy")]) == 2
    assert "X.T" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([])


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
