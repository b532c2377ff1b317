"""The command line: `amica-core fit RECORDING`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from ._fit import fit
from ._read import read_samples
from ._rejection import Rejection
from ._storage import save_result

_DESCRIPTION = """\
Decompose a recording by adaptive mixture ICA (AMICA).

  amica-core fit rest.set                 one model, all channels
  amica-core fit rest.edf --highpass 1    filtered at 1 Hz first, as EEG should be
  amica-core fit rest.fif --models 2      two models that compete for the samples
  amica-core fit data.npy -o fit.npz      an array, samples by channels

The result is a NumPy archive; read it with amica_core.load_result.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, FileNotFoundError, ImportError, FloatingPointError) as error:
        print(f"amica-core: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amica-core",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True)
    fitting = commands.add_parser(
        "fit",
        help="fit AMICA to a recording",
        description="Fit AMICA to a recording and write a NumPy archive.",
        epilog="Ctrl-C ends the fit and keeps the best model so far.",
    )
    fitting.set_defaults(command=_fit)
    add = fitting.add_argument
    add("recording", type=Path, help=".npy, or .set .edf .bdf .vhdr .fif through MNE")
    add("-o", "--output", type=Path, help="archive to write (NAME.amica.npz here)")
    add("--highpass", type=float, metavar="HZ", help="filter first; 1 suits EEG")
    add("--components", type=int, metavar="N", help="components to keep (the rank)")
    add("--models", type=int, default=1, metavar="N", help="ICA models (1)")
    add("--mixtures", type=int, default=3, metavar="N", help="terms a density (3)")
    add("--iterations", type=int, default=2000, metavar="N", help="at most (2000)")
    add("--reject", action="store_true", help="leave out samples no model explains")
    add("--seed", type=int, default=0, metavar="N", help="of the first values (0)")
    add("--backend", default="numpy", metavar="NAME", help="engine (numpy)")
    add("-q", "--quiet", action="store_true", help="no progress and no summary")
    return parser


def _fit(options: argparse.Namespace) -> int:
    samples = read_samples(options.recording, options.highpass)
    output = options.output or Path(f"{options.recording.stem}.amica.npz")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"`--output`: there is no folder {output.parent}")
    result = fit(
        samples.data,
        options.components,
        n_models=options.models,
        n_mixtures=options.mixtures,
        max_iter=options.iterations,
        rejection=Rejection() if options.reject else None,
        random_state=options.seed,
        backend=options.backend,
        verbose=not options.quiet,
    ).sorted()
    save_result(result, output)
    if not options.quiet:
        rejected = len(result.kept) - int(result.kept.sum())
        print(
            f"{options.recording.name}: {len(samples.data)} samples of "
            f"{samples.data.shape[1]} channels, {result.model.n_components} components"
            f"{f', {rejected} samples rejected' if rejected else ''}\n"
            f"log-likelihood {result.log_likelihood:.6f} per sample and component "
            f"after {result.n_iter} iterations\n"
            f"wrote {output}"
        )
    return 130 if result.stop_reason == "interrupted" else 0


if __name__ == "__main__":
    sys.exit(main())
