r"""The Fortran program's parameter file, as `runamica15` of EEGLAB writes it.

A line is a key, a blank, and the value; `#` starts a comment line. The program reads
values in fixed columns, which goes wrong in silence:

* A real number without a decimal point is scaled: `lrate 1` becomes 1e-12, `rejsig 3`
  becomes 3e-12, `mineig 1e-15` becomes 1e-18.
* A real number is cut after 15 characters, a line after 500.
* A key that is misspelt, in the wrong case, or followed by a tab is passed over.
* File names are split at blanks, so that a path with a blank is two files.
* `load_comp_list` reads the file `c`; `load_all_param` does not load `A`.
* `byte_size` is measured by the program and overwritten.

`read_parameter_file` reads what was meant and notes where the program would have read
something else. Its own rules: a path may hold blanks where the number of entries of
`num_samples` says how many files there are; `files` may name a folder, which stands
for all files in it.
"""

import difflib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_Kind = Literal["integer", "flag", "fixed", "scientific", "integers", "text"]

# Kind and value of a key that is not in the file (the program's compiled-in values).
_KEYS: dict[str, tuple[_Kind, Any]] = {
    "files": ("text", ()),
    "num_samples": ("integers", ()),
    "field_dim": ("integers", ()),
    "data_dim": ("integer", None),
    "dble_data": ("flag", False),
    "outdir": ("text", ""),
    "indir": ("text", ""),
    "num_models": ("integer", 1),
    "num_mix_comps": ("integer", 3),
    "num_comps": ("integer", -1),
    "pdftype": ("integer", 1),
    "max_iter": ("integer", None),
    "max_threads": ("integer", 24),
    "block_size": ("integer", 128),
    "do_opt_block": ("flag", True),
    "blk_min": ("integer", 128),
    "blk_max": ("integer", 1024),
    "blk_step": ("integer", 128),
    "writestep": ("integer", 100),
    "write_nd": ("flag", False),
    "write_LLt": ("flag", True),
    "do_history": ("flag", False),
    "histstep": ("integer", 10),
    "print_debug": ("flag", False),
    "lrate": ("fixed", 0.1),
    "minlrate": ("scientific", 1e-12),
    "lratefact": ("fixed", 0.5),
    "rholrate": ("fixed", 0.05),
    "rholratefact": ("fixed", 0.1),
    "rho0": ("fixed", 1.5),
    "minrho": ("fixed", 1.0),
    "maxrho": ("fixed", 2.0),
    "invsigmax": ("fixed", 1000.0),
    "invsigmin": ("fixed", 1e-4),
    "do_newton": ("flag", False),
    "newt_start": ("integer", 20),
    "newt_ramp": ("integer", 10),
    "newtrate": ("fixed", 0.5),
    "max_decs": ("integer", 5),
    "use_min_dll": ("flag", True),
    "min_dll": ("fixed", 1e-9),
    "use_grad_norm": ("flag", True),
    "min_grad_norm": ("fixed", 1e-7),
    "do_reject": ("flag", False),
    "numrej": ("integer", 1),
    "rejstart": ("integer", 2),
    "rejint": ("integer", 3),
    "rejsig": ("fixed", 3.0),
    "share_comps": ("flag", False),
    "share_start": ("integer", 100),
    "share_iter": ("integer", 100),
    "comp_thresh": ("fixed", 0.99),
    "fix_init": ("flag", False),
    "doscaling": ("flag", True),
    "do_mean": ("flag", True),
    "do_sphere": ("flag", True),
    "do_approx_sphere": ("flag", True),
    "pcakeep": ("integer", None),
    "mineig": ("scientific", 1e-15),
    "do_rho": ("flag", True),
    **{
        f"update_{name}": ("flag", True)
        for name in ("A", "c", "gm", "alpha", "mu", "beta")
    },
    **{
        f"load_{name}": ("flag", False)
        for name in (
            *("A", "c", "gm", "alpha", "mu", "beta", "rho", "rej", "comp_list"),
            *("mean", "sphere", "all_param"),
        )
    },
}
_SYNONYMS = {"num_mix": "num_mix_comps"}
# Parsed by the program and used nowhere, in any version.
_DEAD = {
    "doPCA": "`pcakeep` alone decides",
    "pcadb": "`pcakeep` and `mineig` decide",
    "decwindow": "every iteration is compared with the one before",
    "kurt_start": "densities never switch",
    "num_kurt": "densities never switch",
    "kurt_int": "densities never switch",
    "scalestep": "columns are scaled in every iteration",
    "field_blocksize": "samples are single",
    "filter_length": "nothing is filtered",
    "dft_length": "nothing is transformed",
    "load_W": "W is computed from A; use `load_A`",
    "byte_size": "the size of a number is measured; use `dble_data`",
}
_WITHOUT_EFFECT = ("do_opt_block", "blk_min", "blk_max", "blk_step", "print_debug")
_MAX_LINE = 500


@dataclass(frozen=True)
class DataFile:
    """One file of samples."""

    path: Path
    """Raw numbers, channels fastest."""
    n_epochs: int
    """Epochs in the file (`num_samples`)."""
    n_times: int
    """Samples of an epoch (`field_dim`)."""


@dataclass(frozen=True)
class ParameterFile:
    """The values of a parameter file, by the program's keys: `parameters["lrate"]`.

    Keys that the file does not name have the program's compiled-in values, which are
    not those of EEGLAB.
    """

    path: Path
    """Where it was read."""
    values: Mapping[str, Any]
    """Every live key with its value."""
    given: frozenset[str]
    """Keys that the file names."""
    files: tuple[DataFile, ...]
    """The samples."""
    ignored: Mapping[str, str]
    """Keys in the file that change nothing, with the reason."""
    notes: tuple[str, ...]
    """What is unknown, or read otherwise by the Fortran program."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key."""
        return self.values[key]

    @property
    def n_samples(self) -> int:
        """Samples in all files."""
        return sum(f.n_epochs * f.n_times for f in self.files)


def read_parameter_file(path: str | os.PathLike[str]) -> ParameterFile:
    """Read a parameter file of the Fortran program.

    Parameters
    ----------
    path
        The file; `files`, `outdir` and `indir` in it are relative to the working
        directory, as in the Fortran program.

    Raises
    ------
    FileNotFoundError
        If the parameter file does not exist.
    ValueError
        If a value cannot be read, or one that is needed is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"`path` {str(path)!r} is not a file")
    values = {key: default for key, (_, default) in _KEYS.items()}
    given: dict[str, str] = {}
    ignored: dict[str, str] = {}
    notes: list[str] = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if len(line) > _MAX_LINE:
            notes.append(
                f"line {number}: longer than {_MAX_LINE} characters, where the Fortran "
                "program cuts it"
            )
        key, _, text = line.strip().replace("\t", " ").partition(" ")
        text = text.strip()
        if not key or key.startswith("#"):
            continue
        if "\t" in line.strip():
            notes.append(
                f"line {number}: a tab, at which the Fortran program does not end the "
                "key"
            )
        key = _SYNONYMS.get(key, key)
        if key in _DEAD:
            ignored[key] = _DEAD[key]
        elif key not in _KEYS:
            notes.append(_unknown(key))
        elif not text:
            raise ValueError(f"line {number} of {path}: `{key}` must have a value")
        else:
            if key in _WITHOUT_EFFECT:
                ignored[key] = "shapes the Fortran program's work, not its result"
            given[key] = text
            values[key] = _value(path, number, key, text, notes)
    for key in ("files", "num_samples", "field_dim", "data_dim", "max_iter"):
        if key not in given:
            raise ValueError(f"{path} must hold `{key}`")
    if values["load_all_param"]:
        notes.append("`load_all_param` loads everything but `A` and `comp_list`")
    if values["load_comp_list"]:
        notes.append("`load_comp_list` reads the file `c` in the Fortran program")
    if values["do_reject"] and values["rejint"] == 1 and values["rejstart"] > 1:
        notes.append(
            f"`rejint 1` rejects from iteration 1 on, not from `rejstart` "
            f"{values['rejstart']}"
        )
    return ParameterFile(
        path,
        values,
        frozenset(given),
        _data_files(path, given["files"], values, notes),
        ignored,
        tuple(notes),
    )


def write_parameter_file(
    values: Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    """Write a parameter file that the Fortran program reads as it is meant.

    Parameters
    ----------
    values
        The program's keys and their values, in the order in which they are written.
    path
        Where to.

    Raises
    ------
    ValueError
        If a value cannot be written so that the program reads it: a path with a blank,
        a line above 500 characters, a number that is not finite.
    """
    lines = []
    for key, value in values.items():
        line = f"{key} {_format(key, value)}"
        if len(line) > _MAX_LINE:
            raise ValueError(
                f"`{key}` must fit a line of {_MAX_LINE} characters, which is all the "
                f"Fortran program reads, got {len(line)}"
            )
        lines.append(line + "\n")
    Path(path).write_text("".join(lines))


def fortran_real(text: str, kind: Literal["fixed", "scientific"]) -> float:
    """Read a real as the Fortran program does: 15 columns, an implied decimal point.

    Examples
    --------
    >>> fortran_real("1", "fixed"), fortran_real("1.", "fixed")
    (1e-12, 1.0)
    """
    digits = 12 if kind == "fixed" else 3
    text = text[:15].replace(" ", "").upper().replace("D", "E")
    text = re.sub(r"(?<=[\d.])([-+])", r"E\1", text)  # 1-5 is 1E-5
    mantissa, _, exponent = text.partition("E")
    scale = 0 if "." in mantissa else -digits
    return float(f"{mantissa}E{int(exponent or 0) + scale}")


def _value(path: Path, number: int, key: str, text: str, notes: list[str]) -> Any:
    kind = _KEYS[key][0]
    if kind == "text":
        return text
    words = text.split()
    try:
        if kind == "integers":
            return tuple(int(word) for word in words)
        if kind == "flag":
            return int(words[0]) == 1
        if kind == "integer":
            return int(words[0])
        value = float(words[0].upper().replace("D", "E"))
    except ValueError:
        wanted = "a number" if kind in ("fixed", "scientific") else "an integer"
        raise ValueError(
            f"line {number} of {path}: `{key}` must be {wanted}, got {text!r}"
        ) from None
    seen = fortran_real(words[0], kind)
    if abs(seen - value) > 1e-3 * abs(value):
        notes.append(
            f"`{key} {words[0]}` is read as {value:g}; the Fortran program reads "
            f"{seen:g}"
        )
    return value


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, _KEYS, n=1) or [
        known for known in _KEYS if known.lower() == key.lower()
    ]
    hint = f"; did you mean `{close[0]}`?" if close else ""
    return f"`{key}` is not a key and is passed over{hint}"


def _data_files(
    path: Path, text: str, values: dict[str, Any], notes: list[str]
) -> tuple[DataFile, ...]:
    epochs, times = values["num_samples"], values["field_dim"]
    if len(epochs) != len(times):
        raise ValueError(
            f"{path}: `num_samples` and `field_dim` must have an entry for each of "
            f"`files`, got {len(epochs)} and {len(times)}"
        )
    if min((*epochs, *times), default=0) < 1:
        raise ValueError(f"{path}: `num_samples` and `field_dim` must be positive")
    names = _split_names(text, len(epochs))
    if names is None:
        raise ValueError(
            f"{path}: `files` must name {len(epochs)} files, as many as `num_samples` "
            f"has entries, got {text!r}"
        )
    if any(" " in name for name in names):
        notes.append(
            "`files` has a path with a blank, where the Fortran program splits it"
        )
    files = []
    for name, n_epochs, n_times in zip(names, epochs, times, strict=True):
        folder = Path(name)
        members = [folder]
        if folder.is_dir():
            members = sorted(p for p in folder.iterdir() if p.is_file())
        files += [DataFile(member, n_epochs, n_times) for member in members]
    return tuple(files)


def _split_names(text: str, count: int) -> list[str] | None:
    """Split at blanks into `count` names; blanks inside names are found by looking."""
    if count == 1:
        return [text]
    words = text.split(" ")
    if len(words) == count:
        return words
    for end in range(1, len(words) - count + 2):
        first = " ".join(words[:end]).strip()
        if Path(first).exists():
            rest = _split_names(" ".join(words[end:]).strip(), count - 1)
            if rest is not None:
                return [first, *rest]
    words = text.split()
    return words if len(words) == count else None


def _format(key: str, value: Any) -> str:
    kind = _KEYS[key][0]
    if kind == "flag":
        return str(int(value))
    if kind == "integer":
        return str(int(value))
    if kind == "integers":
        return " ".join(str(int(v)) for v in value)
    if kind in ("fixed", "scientific"):
        return format_real(key, value)
    text = os.fspath(value)
    if any(character.isspace() for character in text):
        raise ValueError(
            f"`{key}` must be a path without blanks, at which the Fortran program "
            f"splits it, got {text!r}"
        )
    return text


def format_real(key: str, value: float) -> str:
    """Write a number of key `key` in 15 columns with a point, as exactly as they allow.

    Examples
    --------
    >>> format_real("min_dll", 1e-9), format_real("lrate", 0.1)
    ('1.e-09', '0.1')
    """
    for digits in range(17, 5, -1) if math.isfinite(value) else ():
        rounded = float(f"{value:.{digits}g}")
        for text in (repr(rounded), f"{rounded:.{digits - 1}e}"):
            if "." not in text:
                text = text.replace("e", ".e")
            if len(text) <= 15:
                return text
    raise ValueError(f"`{key}` must be a finite number, got {value}")
