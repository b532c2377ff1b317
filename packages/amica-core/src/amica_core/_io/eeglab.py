"""EEGLAB's `.set` files: AMICA results in them, where EEGLAB looks for them.

`EEG.icaweights`, `icasphere` and `icawinv` hold the model of highest prior, as
`eeg_loadamica` sets them, and `EEG.etc.amica` all models, as `loadmodout15` gives them.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from .._result import Result
from .._statistics import Density
from .amicaout import AmicaOutput
from .conversion import eeglab_structure, from_amicaout, to_amicaout
from .replacing import replacing


def write_eeglab(
    result: Result,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    X: NDArray | None = None,
    channels: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a `.set` file with a fit in it; everything else is copied from `source`.

    The new file is complete before it takes the place of an old one.

    Parameters
    ----------
    result
        A fit of the recording in `source`, in microvolts.
    source
        The recording's `.set` file, with its `.fdt` file if it has one.
    target
        File to write, with a `.fdt` of its own; None for `source` itself.
    X
        The samples of the fit, `(samples, channels)`, for the log-likelihoods and odds
        of the models (`etc.amica.Lht`, `Lt`, `v`); None leaves them out.
    channels
        Names of the channels that were fitted, in order; None for all channels.
    overwrite
        Replace `target`, or the decomposition that `source` has.

    Raises
    ------
    FileExistsError
        If `overwrite` is False and there is something to lose.
    FileNotFoundError
        If `source` or its data are missing.
    ValueError
        If `source` is no `.set` file of this kind, or lacks a channel.
    """
    source = Path(source)
    target = source if target is None else Path(target)
    if target.suffix != ".set":
        raise ValueError(f"`target` must end in .set, got {target.name!r}")
    contents = _load(source)
    eeg = _fields(contents)
    indices = _channel_indices(eeg, result, channels)
    in_place = target.exists() and target.resolve() == source.resolve()
    if not overwrite and target.exists():
        if not in_place or np.size(eeg.get("icaweights", ())) > 0:
            what = "holds a decomposition" if in_place else "exists"
            raise FileExistsError(
                f"{str(target)!r} {what}; pass `overwrite=True` to replace it"
            )
    structure = eeglab_structure(to_amicaout(result, X))
    n = result.model.n_components
    etc = eeg.get("etc")
    eeg |= {
        "icaact": np.zeros((0, 0)),
        "icasphere": result.sphering.matrix,
        "icaweights": np.asarray(structure["W"])[:, :, 0],
        "icawinv": np.asarray(structure["A"])[:, :, 0],
        "icachansind": indices[None] + 1.0,
        "etc": {**_struct_fields(etc), "amica": structure},
        "saved": "yes",
    }
    assert eeg["icaweights"].shape == (n, n)
    if not in_place:
        _copy_data(source, target, eeg)
    container = {"EEG": eeg} if "EEG" in contents else eeg
    with replacing(target) as part:
        scipy.io.savemat(
            part,
            container,
            appendmat=False,
            long_field_names=True,
            do_compression=True,
            oned_as="row",
        )


def read_eeglab(path: str | os.PathLike[str]) -> Result:
    """Read the AMICA result that a `.set` file holds in `EEG.etc.amica`.

    Models come by prior and components by variance, with maps of norm 1, as EEGLAB
    keeps them.

    Parameters
    ----------
    path
        The `.set` file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no `.set` file of this kind, or holds no AMICA result.
    """
    eeg = _fields(_load(Path(path)))
    amica = _struct_fields(_struct_fields(eeg.get("etc")).get("amica"))
    if "W" not in amica or "S" not in amica:
        hint = ""
        if np.size(eeg.get("icaweights", ())) > 0:
            hint = (
                "; its other decomposition is read by "
                "`mne.preprocessing.read_ica_eeglab` and `from_mne`"
            )
        raise ValueError(f"{str(path)!r} holds no AMICA result in EEG.etc.amica{hint}")
    W = np.atleast_3d(np.asarray(amica["W"], dtype=np.float64))
    n, _, M = W.shape
    S = np.asarray(amica["S"], dtype=np.float64)
    slots = np.arange(1, n * M + 1).reshape((n, M), order="F")
    if "comp_list" in amica:
        slots = np.asarray(amica["comp_list"]).reshape((n, M)).astype(int)
    K = max(n * M, int(slots.max()))
    A = np.full((n, K), np.nan)
    for h in range(M):
        A[:, slots[:, h] - 1] = np.linalg.inv(W[:, :, h])
    J = np.size(amica["alpha"]) // (n * M)
    terms = {}
    for name in ("alpha", "mu", "sbeta", "rho"):
        values = np.reshape(amica[name], (J, n, M), order="F")
        # Slots that no model uses get harmless numbers.
        terms[name] = np.full((J, K), 1 / J if name == "alpha" else 1.0)
        for h in range(M):
            terms[name][:, slots[:, h] - 1] = values[:, :, h]
    LLt = None
    if "Lht" in amica:
        rows = (np.reshape(amica[name], (-1, np.size(amica["Lt"]))) for name in _ODDS)
        LLt = np.concatenate(list(rows))
    output = AmicaOutput(
        W=W,
        S=S,
        mean=np.ravel(amica["data_mean"]) if "data_mean" in amica else np.zeros(len(S)),
        gm=np.ravel(amica["mod_prob"]),
        c=np.reshape(amica["c"], (n, M)) if "c" in amica else np.zeros((n, M)),
        comp_list=slots.astype(np.int32),
        A=A,
        LL=np.ravel(amica["LL"]) if "LL" in amica else None,
        LLt=LLt,
        alpha=terms["alpha"],
        mu=terms["mu"],
        sbeta=terms["sbeta"],
        rho=terms["rho"],
    )
    return from_amicaout(output, density=Density.GENERALIZED_GAUSSIAN, fortran=False)


_ODDS = ("Lht", "Lt")


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    try:
        # Numbers must come back as doubles, not as what they were packed in.
        return scipy.io.loadmat(path, mat_dtype=True, appendmat=False)
    except NotImplementedError as error:
        raise ValueError(
            f"{str(path)!r} is a MATLAB 7.3 file; save it once with EEGLAB's option "
            "'6' (MATLAB 6/7) in `pop_saveset`"
        ) from error
    except Exception as error:  # SciPy raises what comes along
        raise ValueError(
            f"{str(path)!r} is no .set file of EEGLAB ({error})"
        ) from error


def _fields(contents: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of EEG, which newer files hold as variables of their own."""
    if "EEG" in contents:
        return _struct_fields(contents["EEG"])
    eeg = {key: v for key, v in contents.items() if not key.startswith("__")}
    if "nbchan" not in eeg:
        raise ValueError("the .set file holds no EEG structure")
    return eeg


def _struct_fields(value: Any) -> dict[str, Any]:
    """Return a 1 x 1 structure as a dictionary; anything else is empty."""
    if isinstance(value, np.ndarray) and value.dtype.names and value.size == 1:
        record = value.reshape(-1)[0]
        return {name: record[name] for name in value.dtype.names}
    return {}


def _text(value: Any) -> str:
    return str(np.ravel(value)[0]) if np.size(value) else ""


def _channel_indices(
    eeg: dict[str, Any], result: Result, channels: Sequence[str] | None
) -> NDArray[np.int64]:
    wanted = len(result.sphering.mean)
    if channels is None:
        seen = int(np.ravel(eeg["nbchan"])[0])
        if seen != wanted:
            raise ValueError(
                f"`channels` must name the {wanted} channels of the fit, as `source` "
                f"has {seen}"
            )
        return np.arange(seen)
    if len(channels) != wanted:
        raise ValueError(
            f"`channels` must name the {wanted} channels of the fit, got "
            f"{len(channels)}"
        )
    labels = [_text(label) for label in np.ravel(eeg["chanlocs"]["labels"])]
    missing = [name for name in channels if name not in labels]
    if missing:
        raise ValueError(f"`channels` must be in `source`, which lacks {missing}")
    return np.array([labels.index(name) for name in channels])


def _copy_data(source: Path, target: Path, eeg: dict[str, Any]) -> None:
    """Give the new file its own `.fdt`, if the samples are in one."""
    eeg["filename"], eeg["filepath"] = target.name, str(target.parent)
    data = eeg.get("data")
    if not (isinstance(data, np.ndarray) and data.dtype.kind == "U"):
        eeg["datfile"] = np.zeros((0, 0))
        return
    old = source.with_name(_text(data))
    if not old.exists():
        old = source.with_suffix(".fdt")
    if not old.exists():
        raise FileNotFoundError(
            f"the samples of {str(source)!r} are not in {str(old)!r}"
        )
    new = target.with_suffix(".fdt")
    shutil.copyfile(old, new)
    eeg["data"] = eeg["datfile"] = new.name
