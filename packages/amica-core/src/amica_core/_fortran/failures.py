"""How the Fortran program fails: with a status, with words, or in silence.

It ends with status 0 after many kinds of failure, so what it wrote is looked at before
it is believed.
"""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._io.amicaout import AmicaOutput, read_amicaout


class FortranProgramError(RuntimeError):
    """The Fortran program failed, in the open or in silence.

    Parameters
    ----------
    message
        What happened and what to do about it.
    text
        What the program printed.
    """

    def __init__(self, message: str, text: str = ""):
        tail = "\n".join(text.splitlines()[-8:])
        super().__init__(f"{message}\nIt printed:\n{tail}" if tail.strip() else message)
        self.text = text


_LIBRARY_TEXTS = (
    "error while loading shared libraries",
    "Library not loaded",
    "image not found",
)
_MPI_TEXTS = (
    "MPI_Init",
    "mpiexec",
    "mpirun",
    "PMIX",
    "PMI_",
    "orte",
    "libmpi",
    "MPICH",
)


def check_status(
    path: Path, status: int, text: str, parameters: Mapping[str, Any]
) -> None:
    """Raise what the status and the printed text tell; silence is judged later."""
    if any(words in text for words in _LIBRARY_TEXTS):
        hint = (
            "install the MPI run time that it was linked with (Debian: `apt install "
            "libopenmpi3` or `mpich`), or build the program on this machine"
            if "mpi" in text.lower()
            else "install it, or build the program on this machine"
        )
        raise FortranProgramError(
            f"{path.name} did not start: a shared library is missing; {hint}", text
        )
    crash = _crash(status, text)
    if crash is not None:
        raise FortranProgramError(
            f"{path.name} crashed ({crash}). {_crash_hints(parameters)}", text
        )
    if status != 0 and any(words in text for words in _MPI_TEXTS):
        raise FortranProgramError(
            f"{path.name} ended with status {status} because MPI did not come up; "
            "check the MPI run time of this machine (`mpirun -n 1 hostname`)",
            text,
        )
    if status != 0:
        raise FortranProgramError(f"{path.name} ended with status {status}", text)
    if "allocation error" in text:
        raise FortranProgramError(
            "the Fortran program ran out of memory; fewer models, fewer channels or "
            "more memory are needed",
            text,
        )
    errors = [line.strip() for line in text.splitlines() if "Error:" in line]
    if errors:
        raise FortranProgramError(f"the Fortran program gave up: {errors[0]}", text)


def _crash(status: int, text: str) -> str | None:
    if "SIGSEGV" in text or "severe (174)" in text:
        return "SIGSEGV"
    number = -status if status < 0 else status - 128
    known = {s.value: s.name for s in signal.Signals}
    return known.get(number) if number > 0 else None


def _crash_hints(parameters: Mapping[str, Any]) -> str:
    hints = []
    if parameters.get("share_comps"):
        hints.append("sharing components always ends so in the published builds")
    if not parameters.get("do_sphere", True):
        hints.append("the diagonal sphering always ends so in the published builds")
    if parameters.get("fix_init"):
        hints.append("`fix_init` always ends so in the published builds")
    hints.append(
        "a binary of another machine often ends so: build the program here; a small "
        "stack does too: `ulimit -s unlimited`"
    )
    return "; ".join(hints).capitalize()


def load_output(outdir: Path, text: str, parameters: Mapping[str, Any]) -> AmicaOutput:
    """Read the output directory, or say why it is no result."""
    missing = [
        name
        for name in ("W", "A", "S", "mean", "LL", "gm", "alpha", "mu", "sbeta", "rho")
        if not (outdir / name).exists()
    ]
    if missing:
        what = "nothing" if not outdir.exists() else f"no {', '.join(missing)}"
        kept = [line for line in text.splitlines() if "num eigs kept" in line]
        if kept and kept[-1].split()[-1] == "0":
            raise FortranProgramError("the program found no component to keep", text)
        raise FortranProgramError(
            f"the Fortran program ended without an error but wrote {what}; is there "
            "room on the disk, and can it start at all?",
            text,
        )
    samples = int(np.dot(parameters["num_samples"], parameters["field_dim"]))
    output = read_amicaout(outdir, n_samples=samples)
    LL = output.LL
    assert LL is not None
    if not LL.any():
        raise FortranProgramError(
            "the Fortran program used no sample and reports log-likelihoods of 0: a "
            "recording or epoch is shorter than threads x block size "
            f"({parameters['max_threads']} x {parameters['block_size']})",
            text,
        )
    n_iter = int(np.flatnonzero(LL)[-1]) + 1
    used = output.A[:, np.unique(output.comp_list) - 1]
    if np.isnan(LL[:n_iter]).any() or not np.isfinite(used).all():
        raise FortranProgramError(
            "the Fortran program's log-likelihood became NaN; a smaller learning rate, "
            "float data instead of integers, or fewer components may help",
            text,
        )
    return output
