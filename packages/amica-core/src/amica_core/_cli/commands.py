"""What the commands do."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._fit import fit
from .._plots.densities import plot_densities
from .._plots.log_likelihood import plot_log_likelihood
from .._plots.maps import plot_maps
from .._plots.match import matched_pairs, plot_match
from .._plots.posteriors import plot_posteriors, plot_rejected
from .._plots.sources import plot_sources
from .._rejection import Rejection
from .._report import write_report
from .._result import Result
from .._sharing import Sharing
from .._summary import describe, summarize
from .fits import check_output, read_fit, write_fit
from .recording import Recording, advice, read_recording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IMAGES = (".png", ".pdf", ".svg")


def fit_command(options: argparse.Namespace) -> int:
    """Fit a recording and write the result."""
    path = options.recording
    outputs = options.output or [Path(f"{path.stem}.amica.npz")]
    named = options.output is not None
    for output in outputs:
        # The default name is ours to replace; a name that was given is not.
        check_output(output, path, options.overwrite or not named)
    recording = _read(path, options)
    settings: dict[str, Any] = dict(
        n_models=options.models,
        n_mixtures=options.mixtures,
        solver=options.solver,
        max_iter=options.iterations,
        rejection=Rejection() if options.reject else None,
        sharing=Sharing() if options.share else None,
        random_state=options.seed,
        backend=options.backend,
        verbose=not options.quiet,
    )
    if options.backend == "fortran":
        settings["backend_options"] = {"program": options.program}
    result = fit(recording.X, options.components, **settings).sorted()
    written = [
        file for output in outputs for file in write_fit(result, output, recording)
    ]
    if options.report is not None:
        _report(result, options.report, recording, path.name)
        written.append(options.report)
    if options.json:
        facts = summarize(result) | {"written": [str(file) for file in written]}
        print(json.dumps(facts))
    elif not options.quiet:
        print(describe(result))
        for file in written:
            print(f"wrote          {file}")
    return 130 if result.stop_reason == "interrupted" else 0


def info_command(options: argparse.Namespace) -> int:
    """Describe a fit, or a recording before a fit."""
    path = options.path
    try:
        result = read_fit(path)
    except (ValueError, FileNotFoundError):
        if not path.is_file() or path.suffix == ".npz":
            raise
    else:
        print(json.dumps(summarize(result)) if options.json else describe(result))
        return 0
    facts, hints = advice(_read(path, options).X)
    if options.json:
        print(json.dumps(facts | {"advice": hints}))
        return 0
    print(f"samples        {facts['samples']}")
    print(f"channels       {facts['channels']}")
    print(f"rank           {facts['rank']}")
    print(f"length         {facts['samples_per_squared_component']:.1f} samples for "
          "each squared component")  # fmt: skip
    print(f"memory         about {facts['bytes_sphered'] / 2**20:.0f} MiB for the fit "
          "beside the recording")  # fmt: skip
    for hint in hints:
        print(f"mind           {hint}")
    return 0


def plot_command(options: argparse.Namespace) -> int:
    """Draw a fit."""
    _use_no_display()
    output = options.output or Path(f"{options.fit.name}.html")
    if output.suffix.lower() not in (".html", *_IMAGES):
        raise ValueError(
            f"`--output` must end in .html, .png, .pdf or .svg, got {output.name!r}"
        )
    result = read_fit(options.fit)
    recording = None
    if options.recording is not None:
        recording = _read(options.recording, options)
    if output.suffix.lower() == ".html":
        _report(result, output, recording, options.fit.name)
    else:
        _save(_draw(result, recording, options), output)
    print(f"wrote          {output}")
    return 0


def compare_command(options: argparse.Namespace) -> int:
    """Match two fits."""
    first, second = read_fit(options.first), read_fit(options.second)
    pairs = matched_pairs(first, second)
    if options.output is not None:
        _use_no_display()
        info = None
        if options.recording is not None:
            info = _read(options.recording, options).info
        _save(plot_match(first, second, info), options.output)
    similar = np.array([pair.similarity for pair in pairs])
    if options.json:
        facts = {
            "pairs": [[p.first, p.second, p.similarity] for p in pairs],
            "median_similarity": float(np.median(similar)),
            "log_likelihoods": [
                summarize(r)["log_likelihood"] for r in (first, second)
            ],
        }
        print(json.dumps(facts))
        return 0
    print("first   second  similarity")
    for p in pairs:
        print(f"IC{p.first:03d}   IC{p.second:03d}   {p.similarity:.4f}")
    print(
        f"{np.count_nonzero(similar > 0.95)} of {len(similar)} pairs above 0.95, "
        f"median {np.median(similar):.4f}"
    )
    return 0


def _read(path: Path, options: argparse.Namespace) -> Recording:
    picks = None if options.picks is None else options.picks.split(",")
    return read_recording(
        path, highpass=options.highpass, resample=options.resample, picks=picks
    )


def _report(
    result: Result, path: Path, recording: Recording | None, title: str
) -> None:
    _use_no_display()
    samples = None if recording is None else recording.X
    info = None if recording is None else recording.info
    write_report(result, path, samples, info=info, title=title)


def _draw(
    result: Result, recording: Recording | None, options: argparse.Namespace
) -> "Figure":
    name, model = options.picture, options.model - 1
    if name == "course":
        return plot_log_likelihood(result)
    if name == "maps":
        info = None if recording is None else recording.info
        return plot_maps(result, info, model=model)
    if recording is None:
        raise ValueError(f"`--picture {name}` needs the recording as second argument")
    X, rate = recording.X, recording.rate
    if name == "sources":
        return plot_sources(result, X, rate, model=model)
    if name == "densities":
        return plot_densities(result, X, model=model)
    if name == "posteriors":
        return plot_posteriors(result, X, rate)
    return plot_rejected(result, X, rate)


def _save(figure: "Figure", path: Path) -> None:
    from matplotlib import pyplot

    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _use_no_display() -> None:
    """Draw into files, whether there is a display or not."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return  # the picture says what is missing
    matplotlib.use("agg")
