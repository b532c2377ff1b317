"""Fits in files: NumPy archives without pickles, replaced as a whole or not at all."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._history import History
from ._io.replacing import replacing
from ._model import Model
from ._result import Result
from ._sphere import Sphering

_FORMAT = "amica-core result 1"


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a fit as a NumPy archive that `load_result` reads.

    Parameters
    ----------
    result
        The fit.
    path
        File to write; an older file is replaced only once the new one is whole.
    """
    write_arrays(
        path,
        {
            "format": np.array(_FORMAT),
            **pack("model", result.model),
            **pack("sphering", result.sphering),
            **pack("history", result.history),
            "kept": result.kept,
            "stop_reason": np.array(result.stop_reason),
            "fortran": np.array(result.fortran),
            "best_iteration": np.array(result.best_iteration),
        },
    )


def load_result(path: str | os.PathLike[str]) -> Result:
    """Read a fit that `save_result` wrote.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        If the file is something else.
    """
    arrays = read_arrays(path, _FORMAT)
    return Result(
        model=unpack("model", Model, arrays),
        sphering=unpack("sphering", Sphering, arrays),
        history=unpack("history", History, arrays),
        kept=arrays["kept"],
        stop_reason=str(arrays["stop_reason"]),  # type: ignore[arg-type]
        fortran=bool(arrays["fortran"]),
        best_iteration=int(arrays["best_iteration"]),
    )


def pack(prefix: str, values: Any) -> dict[str, np.ndarray]:
    """Return the fields of a NamedTuple of arrays as `prefix/field`."""
    return {f"{prefix}/{k}": np.asarray(v) for k, v in values._asdict().items()}


def unpack(prefix: str, kind: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `pack`; arrays without dimensions become numbers."""
    fields = (arrays[f"{prefix}/{name}"] for name in kind._fields)
    return kind(*(a.item() if a.ndim == 0 else a for a in fields))


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write an archive beside `path`, then put it in its place."""
    with replacing(Path(path)) as part, open(part, "wb") as file:
        np.savez(file, **arrays)


def read_arrays(path: str | os.PathLike[str], format: str) -> dict[str, np.ndarray]:
    """Read an archive whose entry `format` must be as given."""
    try:
        with open(path, "rb") as file, np.load(file) as archive:
            arrays = dict(archive)
    except (ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"`path` is not a NumPy archive: {path}") from error
    if str(arrays.get("format")) != format:
        raise ValueError(f"`path` must hold a {format!r}, got another archive: {path}")
    return arrays
