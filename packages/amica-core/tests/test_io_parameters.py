"""The parameter file: every key, what is dead, and how the Fortran program misreads."""

from pathlib import Path

import hypothesis
import pytest
from amica_core._io.parameters import (
    _KEYS,
    format_real,
    fortran_real,
    read_parameter_file,
    write_parameter_file,
)
from hypothesis import strategies as st

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
NEEDED = {
    "files": "data.fdt",
    "num_samples": 1,
    "data_dim": 4,
    "field_dim": 100,
    "max_iter": 10,
}


def write(path, **values):
    lines = [f"{key} {value}" for key, value in (NEEDED | values).items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "input.param"


@pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="shared/golden is not beside the checkout"
)
def test_golden_parameter_file():
    parameters = read_parameter_file(GOLDEN / "m2_newton" / "input.param")
    assert parameters["lrate"] == 0.1
    assert parameters["num_models"] == 2
    assert parameters["mineig"] == 1e-15
    assert parameters["load_beta"] is True
    assert parameters["do_reject"] is False
    assert parameters.n_samples == 10000
    assert parameters.files[0].path == Path("data/gold6_2m.fdt")
    dead = {"doPCA", "decwindow", "scalestep", "field_blocksize"}
    assert dead < set(parameters.ignored)
    assert "print_debug" in parameters.ignored
    assert parameters.notes == ()


@pytest.mark.parametrize("key", sorted(_KEYS))
def test_every_key_is_read(key, path):
    kind, default = _KEYS[key]
    value = {
        "integer": 7,
        "flag": 0 if default else 1,
        "fixed": 0.25,
        "scientific": 2.5e-5,
        "integers": "25",
        "text": "somewhere",
    }[kind]
    parameters = read_parameter_file(write(path, **{key: value}))
    wanted = {"integers": (25,), "flag": bool(value)}.get(kind, value)
    assert parameters[key] == wanted
    assert key in parameters.given


@pytest.mark.parametrize(
    "key",
    "doPCA pcadb decwindow kurt_start num_kurt kurt_int scalestep field_blocksize "
    "filter_length dft_length load_W byte_size".split(),
)
def test_dead_key_is_reported(key, path):
    parameters = read_parameter_file(write(path, **{key: 1}))
    assert list(parameters.ignored) == [key]
    assert parameters.notes == ()


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("lrate 1", "`lrate 1` is read as 1; the Fortran program reads 1e-12"),
        ("rejsig 3", "the Fortran program reads 3e-12"),
        ("mineig 1e-15", "the Fortran program reads 1e-18"),
        ("min_dll 0.000000000000010", "the Fortran program reads 0"),
        ("Lrate 0.1", "did you mean `lrate`"),
        ("num_model 2", "did you mean `num_models`"),
        ("zzz 2", "`zzz` is not a key and is passed over"),
        ("lrate\t0.1", "a tab"),
        ("load_comp_list 1", "reads the file `c`"),
        ("load_all_param 1", "everything but `A`"),
        ("outdir " + "x" * 600, "longer than 500"),
    ],
)
def test_quirk_is_noted(line, note, path):
    write(path)
    path.write_text(path.read_text() + line + "\n")
    parameters = read_parameter_file(path)
    assert any(note in text for text in parameters.notes), parameters.notes


def test_early_rejection_is_noted(path):
    write(path, do_reject=1, rejint=1, rejstart=5)
    (note,) = read_parameter_file(path).notes
    assert "rejects from iteration 1 on, not from `rejstart` 5" in note


def test_what_was_meant_is_read(path):
    write(path, lrate="1", rejsig="3", mineig="1e-15", minlrate="1.5D-8")
    parameters = read_parameter_file(path)
    assert [parameters[k] for k in ("lrate", "rejsig", "mineig", "minlrate")] == [
        1.0,
        3.0,
        1e-15,
        1.5e-8,
    ]


def test_comments_order_and_repeated_keys(path):
    path.write_text(
        "# a comment\n\n   lrate 0.2  trailing words\nlrate 0.3\nnum_mix 5\n"
        "do_newton 2\nmax_iter 5\ndata_dim 3\nfield_dim 10\nnum_samples 1\nfiles a\n"
    )
    parameters = read_parameter_file(path)
    assert parameters["lrate"] == 0.3
    assert parameters["num_mix_comps"] == 5
    assert parameters["do_newton"] is False  # 1 alone means yes


def test_defaults_are_the_compiled_in_ones(path):
    parameters = read_parameter_file(write(path))
    assert parameters["pdftype"] == 1
    assert parameters["do_newton"] is False
    assert parameters["invsigmax"] == 1000.0
    assert parameters["pcakeep"] is None


def test_files_epochs_folders_and_blanks(path, tmp_path):
    folder = tmp_path / "my data"
    folder.mkdir()
    for name in ("b.fdt", "a b.fdt"):
        (folder / name).write_bytes(b"")
    one = read_parameter_file(write(path, files=folder / "a b.fdt"))
    assert one.files[0].path == folder / "a b.fdt"
    assert any("path with a blank" in note for note in one.notes)
    two = read_parameter_file(
        write(
            path,
            files=f"{folder / 'a b.fdt'} {folder / 'b.fdt'}",
            num_samples="2 3",
            field_dim="10 20",
        )
    )
    assert [f.path.name for f in two.files] == ["a b.fdt", "b.fdt"]
    assert two.n_samples == 80
    whole = read_parameter_file(write(path, files=f"{folder}/", num_samples=4))
    assert [f.path.name for f in whole.files] == ["a b.fdt", "b.fdt"]
    assert whole.n_samples == 800
    plain = read_parameter_file(
        write(path, files="x  y", num_samples="1 1", field_dim="5 6")
    )
    assert [f.path.name for f in plain.files] == ["x", "y"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lrate": "fast"}, "`lrate` must be a number, got 'fast'"),
        ({"max_iter": "2.5"}, "`max_iter` must be an integer, got '2.5'"),
        ({"fix_init": "yes"}, "`fix_init` must be an integer, got 'yes'"),
        ({"lrate": ""}, "`lrate` must have a value"),
        ({"num_samples": "1 1"}, "an entry for each"),
        ({"num_samples": "1 1", "field_dim": "3 3"}, "must name 2 files"),
        ({"field_dim": "0"}, "must be positive"),
    ],
)
def test_bad_value(values, message, path):
    with pytest.raises(ValueError, match=message):
        read_parameter_file(write(path, **values))


@pytest.mark.parametrize("key", sorted(NEEDED))
def test_needed_key(key, path):
    write(path)
    lines = [x for x in path.read_text().splitlines() if not x.startswith(key)]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"must hold `{key}`"):
        read_parameter_file(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a file"):
        read_parameter_file(tmp_path / "nowhere.param")


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.floats(min_value=1e-300, max_value=1e300))
def test_written_number_is_what_the_program_reads(value):
    text = format_real("lrate", value)
    assert len(text) <= 15
    for kind in ("fixed", "scientific"):
        assert fortran_real(text, kind) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    ("text", "fixed", "scientific"),
    [  # what gfortran 12.2 reads with F15.12 and with E15.3
        ("1", 1e-12, 1e-3),
        ("1.", 1.0, 1.0),
        ("1e-15", 1e-27, 1e-18),
        ("1.5D-8", 1.5e-8, 1.5e-8),
        ("0.00000000010000000", 1e-10, 1e-10),
        ("12345678901234567", 123.456789012345, 123456789012.345),
        ("+3", 3e-12, 3e-3),
        ("1E5", 1e-7, 100.0),
        ("-2.5", -2.5, -2.5),
        ("1-5", 1e-17, 1e-8),
    ],
)
def test_reals_are_read_as_by_gfortran(text, fixed, scientific):
    assert fortran_real(text, "fixed") == pytest.approx(fixed, rel=1e-15)
    assert fortran_real(text, "scientific") == pytest.approx(scientific, rel=1e-15)


def test_written_file_is_read_again(path):
    values = {
        **NEEDED,
        "num_samples": (2, 1),
        "field_dim": (50, 100),
        "files": "/a/b.fdt",
        "lrate": 1.0,
        "mineig": 1e-15,
        "do_newton": True,
    }
    values["num_samples"], values["field_dim"] = (1,), (100,)
    write_parameter_file(values, path)
    parameters = read_parameter_file(path)
    assert parameters.notes == ()
    for key in ("lrate", "mineig", "do_newton", "data_dim"):
        assert parameters[key] == values[key]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"outdir": "/One Drive/out"}, "`outdir` must be a path without blanks"),
        ({"outdir": "/" + "x" * 500}, "`outdir` must fit a line of 500"),
        ({"lrate": float("nan")}, "`lrate` must be a finite number"),
        ({"lrate": float("inf")}, "`lrate` must be a finite number"),
    ],
)
def test_value_that_cannot_be_written(values, message, path):
    with pytest.raises(ValueError, match=message):
        write_parameter_file(values, path)
    assert not path.exists()
