"""What the command `amica-core` understands."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__

_DESCRIPTION = """\
Adaptive mixture independent component analysis (AMICA) of recordings.

  amica-core info rest.set                   what a fit of it would face
  amica-core fit rest.set --highpass 1       one model, all EEG channels
  amica-core fit rest.edf --models 2 -o out/ two models, as EEGLAB's amicaout directory
  amica-core plot rest.amica.npz rest.set    a report with maps, sources, densities
  amica-core compare a.npz b.npz             which components two fits share

  amica-core input.param                     the Fortran program's parameter file: runs
                                             as the program would, and writes what it
                                             would write
"""
_FIT = """\
Fit AMICA to a recording: .npy (samples by channels), or any file that MNE reads (.set
.edf .bdf .vhdr .fif ...). Good EEG channels are taken, or all data channels if there is
no EEG; stretches annotated as bad are left out.

The result goes to the file or directory that -o names; its ending says in which form:

  .npz        everything; amica_core.load_result and `amica-core plot` read it
  .set        a copy of the .set recording with the decomposition inside, for EEGLAB
  .fif        an ICA of MNE-Python (with several models one file each)
  directory   EEGLAB's amicaout, as the Fortran program writes it
"""
_COMMANDS = ("fit", "info", "plot", "compare")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            if len(words) == 1 and _is_parameter_file(words[0]):
                return _drop_in(words[0])
            options = _parser().parse_args(words)
            return options.command(options)
        except (
            ValueError,
            OSError,
            ImportError,
            FloatingPointError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            print(f"amica-core: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("amica-core: interrupted", file=sys.stderr)
            return 130


def _is_parameter_file(word: str) -> bool:
    """Tell whether the only word is a path; the file may still be missing."""
    looks_like_one = Path(word).suffix != "" or os.sep in word
    is_word = word in _COMMANDS or word.startswith("-")
    return not is_word and (looks_like_one or Path(word).is_file())


def _drop_in(path: str) -> int:
    from .drop_in import run_parameter_file

    return run_parameter_file(path)


def _show_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    del details, more
    print(f"amica-core: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amica-core",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True)
    _add_fit(commands)
    _add_info(commands)
    _add_plot(commands)
    _add_compare(commands)
    return parser


def _add_fit(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        help="fit AMICA to a recording",
        description=_FIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Ctrl-C ends the fit and keeps the best model so far.",
    )
    parser.set_defaults(command=_run_fit)
    parser.add_argument("recording", type=Path, help=".npy, or what MNE reads")
    add = parser.add_argument
    add("-o", "--output", type=Path, action="append", metavar="PATH",
        help="where to, may be given several times (NAME.amica.npz here)")  # fmt: skip
    add("--report", type=Path, metavar="HTML", help="write a page with pictures too")
    add("--overwrite", action="store_true", help="replace what is there")
    _add_preparation(parser)
    add("--components", type=int, metavar="N", help="components to keep (the rank)")
    add("--models", type=int, default=1, metavar="N", help="ICA models (1)")
    add("--mixtures", type=int, default=3, metavar="N", help="terms a density (3)")
    add("--iterations", type=int, default=2000, metavar="N", help="at most (2000)")
    add("--solver", default="em", choices=("em", "quasi_newton"),
        help="quasi_newton takes far fewer iterations (em)")  # fmt: skip
    add("--reject", action="store_true", help="leave out samples no model explains")
    add("--share", action="store_true", help="let models share components")
    add("--seed", type=int, default=0, metavar="N", help="of the first values (0)")
    add("--backend", metavar="NAME",
        help="numpy, native, torch or fortran (native if it is installed)")  # fmt: skip
    add("--program", type=Path, metavar="PATH",
        help="the Fortran program, for --backend fortran ($AMICA_FORTRAN)")  # fmt: skip
    add("--json", action="store_true", help="print the summary as JSON")
    add("-q", "--quiet", action="store_true", help="no progress and no summary")


def _add_info(commands: Any) -> None:
    parser = commands.add_parser(
        "info",
        help="describe a fit, or what a fit of a recording would face",
        description="Describe a fit (.npz, .set with a decomposition, -ica.fif, or an "
        "amicaout directory), or a recording before it is fitted: its rank, whether it "
        "is long enough, how much memory it takes.",
    )
    parser.set_defaults(command=_run_info)
    parser.add_argument("path", type=Path, help="a fit or a recording")
    _add_preparation(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_plot(commands: Any) -> None:
    parser = commands.add_parser(
        "plot",
        help="draw a fit",
        description="Draw a fit: by default one HTML page with everything; with an "
        "image file as output the picture that --picture names. The recording adds "
        "scalp maps, sources, histograms and posteriors; prepare it as for the fit.",
    )
    parser.set_defaults(command=_run_plot)
    parser.add_argument("fit", type=Path, help=".npz, .set, -ica.fif or a directory")
    parser.add_argument("recording", type=Path, nargs="?", help="what was fitted")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH",
                        help=".html (NAME.html here), .png, .pdf or .svg")  # fmt: skip
    parser.add_argument("--picture", default="maps", help="for an image file (maps)",
                        choices=("course", "maps", "sources", "densities",
                                 "posteriors", "rejected"))  # fmt: skip
    parser.add_argument("--model", type=int, default=1, metavar="N",
                        help="model to draw in an image file (1)")  # fmt: skip
    _add_preparation(parser)


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="match the components of two fits",
        description="Pair the components of two fits of the same channels by their "
        "maps and say how alike they are (1 is the same map), for their models of "
        "highest prior.",
    )
    parser.set_defaults(command=_run_compare)
    parser.add_argument("first", type=Path, help="a fit")
    parser.add_argument("second", type=Path, help="another fit")
    parser.add_argument("recording", type=Path, nargs="?",
                        help="for scalp maps in the picture")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="PATH",
                        help="draw them side by side: .png, .pdf or .svg")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_preparation(parser)


def _add_preparation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("preparation of the recording")
    add = group.add_argument
    add("--highpass", type=float, metavar="HZ", help="filter first; 1 suits EEG")
    add("--resample", type=float, metavar="HZ", help="change the rate")
    add("--picks", metavar="NAMES",
        help="channels or types, with commas: eeg,eog or Fz,Cz,Pz")  # fmt: skip


def _run_fit(options: argparse.Namespace) -> int:
    from .commands import fit_command

    return fit_command(options)


def _run_info(options: argparse.Namespace) -> int:
    from .commands import info_command

    return info_command(options)


def _run_plot(options: argparse.Namespace) -> int:
    from .commands import plot_command

    return plot_command(options)


def _run_compare(options: argparse.Namespace) -> int:
    from .commands import compare_command

    return compare_command(options)
