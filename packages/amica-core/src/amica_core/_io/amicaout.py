"""The output directory of the Fortran program, `amicaout`: reading and writing.

Every file is raw little-endian numbers without a header, first index fastest. With `n`
components, `M` models, `J` mixture terms, `K = n M` slots and `nx` channels:

| file | type | shape | content |
|---|---|---|---|
| `W` | f8 | (n, n, M) | unmixing matrices in sphered space |
| `A` | f8 | (n, K) | mixing columns in sphered space |
| `c` | f8 | (n, M) | centres of the models |
| `gm` | f8 | (M,) | priors of the models |
| `alpha` `mu` `sbeta` `rho` | f8 | (J, K) | weights, centres, inverse scales, shapes |
| `S` | f8 | (nx, nx) | sphering matrix; rows after the first n are not used |
| `mean` | f8 | (nx,) | channel means |
| `LL` | f8 | (iterations,) | log-likelihood, zeros after the stop |
| `nd` | f8 | (iterations, K) | squared norms of the columns' directions |
| `comp_list` | i4 | (n, M) | slot of a source, from 1; then as much padding |
| `LLt` | f8 | (M + 1, T) | joint log-likelihood of each model, then of the sample |
| `out.txt` | text | | the log |
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._model import Array
from .parameters import read_parameter_file

# The mark of a whole directory: written last, taken away before anything changes.
# EEGLAB's loader, too, gives up where it is missing.
_MARK = "W"
_NUMBERS = ("A", "c", "gm", "alpha", "mu", "sbeta", "rho", "S", "mean", "LL", "nd")
_FILES = (*_NUMBERS, "comp_list", "LLt", _MARK)


@dataclass(frozen=True)
class AmicaOutput:
    """The content of an output directory, shapes as in the Fortran program.

    `None` stands for a file that is not there.
    """

    W: Array
    """Unmixing matrices in sphered space, shape `(n, n, M)`."""
    S: Array
    """Sphering matrix, shape `(channels, channels)`; the first `n` rows count."""
    mean: Array
    """Channel means, shape `(channels,)`."""
    gm: Array
    """Priors of the models, shape `(M,)`."""
    c: Array
    """Centres of the models in sphered space, shape `(n, M)`."""
    comp_list: NDArray[np.int32]
    """Slot of source `i` of model `h`, counted from 1, shape `(n, M)`."""
    A: Array
    """Mixing columns in sphered space, shape `(n, K)`; unused slots may be NaN."""
    alpha: Array
    """Mixture weights, shape `(J, K)`."""
    mu: Array
    """Centres of the mixture terms, shape `(J, K)`."""
    sbeta: Array
    """Inverse scales of the mixture terms, shape `(J, K)`."""
    rho: Array
    """Shapes of the generalised Gaussian, shape `(J, K)`."""
    LL: Array | None = None
    """Log-likelihood of each iteration, zeros after the stop."""
    nd: Array | None = None
    """Squared norms of the directions, shape `(iterations, K)`."""
    LLt: Array | None = None
    """Log-likelihoods of each sample, shape `(M + 1, T)`; 0 where rejected."""
    log: str | None = None
    """Text of `out.txt`."""
    missing: tuple[str, ...] = ()
    """Files that were not there and are replaced by what EEGLAB's loader takes."""

    @property
    def n_components(self) -> int:
        """Components of each model, `n`."""
        return self.W.shape[0]

    @property
    def n_models(self) -> int:
        """ICA models, `M`."""
        return self.W.shape[2]

    @property
    def n_channels(self) -> int:
        """Channels of the recording."""
        return len(self.mean)


def read_amicaout(
    directory: str | os.PathLike[str], n_samples: int | None = None
) -> AmicaOutput:
    """Read an output directory, whole or partial.

    Only `W` and one of `S` and `mean` are needed. For what else is missing stands what
    EEGLAB's loader takes: no mean, unit sphere, equal priors, no centre, one Gaussian
    term, every source a slot of its own; `missing` names those files.

    Parameters
    ----------
    directory
        The output directory.
    n_samples
        Samples of the recording. The Fortran program never shortens `LLt`: after a
        longer run in the same directory old values are left at its end, which only
        this number can tell. Taken from `input.param` in the directory by default.

    Raises
    ------
    FileNotFoundError
        If the directory, or what cannot be replaced, is missing.
    ValueError
        If a file has a size that does not fit the others.

    Warns
    -----
    RuntimeWarning
        If `LLt` has another length than `n_samples`.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise FileNotFoundError(f"`directory` {str(directory)!r} is not a directory")
    if not (directory / _MARK).exists():
        raise FileNotFoundError(
            f"{str(directory)!r} holds no `W`: the run that should have written it "
            "did not finish, or this is not an AMICA output directory"
        )
    raw = {name: _read(directory / name) for name in (*_NUMBERS, "LLt", _MARK)}
    missing = [n for n in (*_NUMBERS, "LLt") if raw[n] is None]
    gm, W = raw["gm"], raw["W"]
    assert W is not None
    M = 1 if gm is None else len(gm)
    n = round((len(W) / M) ** 0.5)
    _check_size(directory, "W", len(W), n * n * M, f"{M} square matrices")
    mean, S = _read_sphere(directory, raw["mean"], raw["S"], n)
    slots = _read_slots(directory, n, M)
    if slots is None:
        missing.append("comp_list")
        slots = np.arange(1, n * M + 1, dtype=np.int32).reshape((n, M), order="F")
    unmixing = W.reshape((n, n, M), order="F")
    A = raw["A"]
    if A is None:
        K = max(n * M, int(slots.max()))
        A = np.full((n, K), np.nan)
        for h in range(M):
            A[:, slots[:, h] - 1] = np.linalg.inv(unmixing[:, :, h])
    else:
        _check_multiple(directory, "A", len(A), n)
        A = A.reshape((n, -1), order="F")
        K = A.shape[1]
    if not (1 <= slots.min() and slots.max() <= K):
        raise ValueError(f"{directory / 'comp_list'} must hold numbers from 1 to {K}")
    c = raw["c"] if raw["c"] is not None else np.zeros(n * M)
    _check_size(directory, "c", len(c), n * M, f"{n} x {M} numbers")
    terms = _read_densities(directory, raw, K)
    output = AmicaOutput(
        W=unmixing,
        S=S,
        mean=mean,
        gm=np.full(M, 1 / M) if gm is None else gm,
        c=c.reshape((n, M), order="F"),
        comp_list=slots,
        A=A,
        alpha=terms["alpha"],
        mu=terms["mu"],
        sbeta=terms["sbeta"],
        rho=terms["rho"],
        LL=raw["LL"],
        nd=_read_norms(directory, raw["nd"], K),
        missing=tuple(sorted(missing)),
    )
    log = directory / "out.txt"
    if log.exists():
        output = replace(output, log=log.read_text(errors="replace"))
    return _with_samples(output, directory, raw["LLt"], n_samples)


def write_amicaout(
    output: AmicaOutput, directory: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write an output directory that EEGLAB and its scripts read.

    Everything is written to a folder inside `directory` first and then moved, `W` last:
    a directory that holds a `W` is whole, whenever the program was killed. Files
    of an older result are replaced or removed; others are left alone.

    Parameters
    ----------
    output
        What to write.
    directory
        Where to; made if it is not there.
    overwrite
        Replace an older result.

    Raises
    ------
    FileExistsError
        If `directory` is a file, or holds a result and `overwrite` is False.
    """
    directory = Path(directory)
    if (directory / _MARK).exists() and not overwrite:
        raise FileExistsError(
            f"{str(directory)!r} holds a result already; pass `overwrite=True` to "
            "replace it"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with _replacing(directory) as staging:
        for name in (*_NUMBERS, "LLt", _MARK):
            values = getattr(output, name)
            if values is not None:
                _write(staging / name, np.asarray(values, dtype="<f8"))
        slots = np.asarray(output.comp_list, dtype="<i4")
        # The record is as long as for doubles; its second half is never read.
        padded = np.concatenate([slots.ravel(order="F"), np.zeros(slots.size, "<i4")])
        _write(staging / "comp_list", padded)
        if output.log is not None:
            with open(staging / "out.txt", "w", newline="\n") as file:
                file.write(output.log)


@contextmanager
def _replacing(directory: Path) -> Generator[Path]:
    """Give a folder whose files replace those of `directory` at the end."""
    staging = Path(tempfile.mkdtemp(prefix=".amicaout-", dir=directory))
    try:
        yield staging
        (directory / _MARK).unlink(missing_ok=True)
        for name in _FILES:
            if not (staging / name).exists():
                (directory / name).unlink(missing_ok=True)
        for name in sorted(os.listdir(staging), key=lambda name: name == _MARK):
            os.replace(staging / name, directory / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write(path: Path, values: NDArray) -> None:
    with open(path, "wb") as file:
        file.write(values.tobytes(order="F"))
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Array | None:
    if not path.exists():
        return None
    size = path.stat().st_size
    if size == 0 or size % 8:
        # `LLt` is written sample by sample and may end anywhere.
        if path.name != "LLt" or size < 8:
            raise ValueError(
                f"{path} must hold numbers of 8 bytes, got {size} bytes: the run that "
                "wrote it was cut short, or the disk is full"
            )
    return np.fromfile(path, dtype="<f8", count=size // 8)


def _read_sphere(
    directory: Path, mean: Array | None, S: Array | None, n: int
) -> tuple[Array, Array]:
    if mean is None and S is None:
        raise FileNotFoundError(
            f"{str(directory)!r} holds neither `S` nor `mean`, so that nothing says "
            "how many channels there are"
        )
    if mean is not None:
        channels = len(mean)
    else:
        assert S is not None
        channels = round(len(S) ** 0.5)
        mean = np.zeros(channels)
    if S is None:
        S = np.eye(channels).ravel()
    _check_size(directory, "S", len(S), channels**2, f"a square for {channels} rows")
    if channels < n:
        raise ValueError(
            f"{directory} must have at least as many channels as components, got "
            f"{channels} and {n}"
        )
    return mean, S.reshape((channels, channels), order="F")


def _read_slots(directory: Path, n: int, M: int) -> NDArray[np.int32] | None:
    path = directory / "comp_list"
    if not path.exists():
        return None
    slots = np.fromfile(path, dtype="<i4", count=n * M)
    _check_size(directory, "comp_list", slots.size, n * M, f"{n} x {M} integers")
    return slots.reshape((n, M), order="F")


def _read_densities(
    directory: Path, raw: dict[str, Array | None], K: int
) -> dict[str, Array]:
    names = ("alpha", "mu", "sbeta", "rho")
    given = {k: values for k in names if (values := raw[k]) is not None}
    for name, values in given.items():
        _check_multiple(directory, name, len(values), K)
    J = 1
    if given:
        name, values = next(iter(given.items()))
        J = len(values) // K
        for other, numbers in given.items():
            _check_size(
                directory, other, len(numbers), J * K, f"{J} x {K} numbers, as `{name}`"
            )
    fill = {"alpha": 1 / J, "mu": 0.0, "sbeta": 1.0, "rho": 2.0}
    return {
        name: given[name].reshape((J, K), order="F")
        if name in given
        else np.full((J, K), value)
        for name, value in fill.items()
    }


def _read_norms(directory: Path, nd: Array | None, K: int) -> Array | None:
    if nd is None:
        return None
    _check_multiple(directory, "nd", len(nd), K)
    return nd.reshape((-1, K), order="F")


def _with_samples(
    output: AmicaOutput, directory: Path, LLt: Array | None, n_samples: int | None
) -> AmicaOutput:
    if LLt is None:
        return output
    rows = output.n_models + 1
    table = LLt[: len(LLt) // rows * rows].reshape((rows, -1), order="F")
    if n_samples is None:
        n_samples = _samples_in_parameter_file(directory)
    if n_samples is not None and n_samples != table.shape[1]:
        if n_samples < table.shape[1]:
            problem = "the end is left from an older, longer run and is not read"
        else:
            problem = "the run that wrote it was cut short"
        warnings.warn(
            f"{directory / 'LLt'} holds {table.shape[1]} samples instead of "
            f"{n_samples}: {problem}",
            RuntimeWarning,
            stacklevel=3,
        )
        table = table[:, :n_samples]
    return replace(output, LLt=table)


def _samples_in_parameter_file(directory: Path) -> int | None:
    path = directory / "input.param"
    try:
        return read_parameter_file(path).n_samples
    except (FileNotFoundError, ValueError):
        return None  # another program's file, or data that were moved


def _check_size(directory: Path, name: str, seen: int, wanted: int, words: str) -> None:
    if seen != wanted:
        raise ValueError(
            f"{directory / name} must hold {wanted} numbers ({words}), got {seen}"
        )


def _check_multiple(directory: Path, name: str, seen: int, factor: int) -> None:
    if seen == 0 or seen % factor:
        raise ValueError(
            f"{directory / name} must hold a multiple of {factor} numbers, got {seen}"
        )
