"""One page on a fit that holds everything it shows."""

import base64
import html
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike, NDArray

from ._io.replacing import replacing
from ._plots._matplotlib import check_samples
from ._plots.densities import plot_densities
from ._plots.log_likelihood import plot_log_likelihood
from ._plots.maps import plot_maps
from ._plots.posteriors import plot_posteriors, plot_rejected
from ._plots.sources import plot_sources
from ._result import Result
from ._summary import describe

if TYPE_CHECKING:
    import mne
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem;
       margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; }
th { text-align: left; font-weight: 600; padding-right: 2rem; vertical-align: top; }
figure { margin: 1rem 0 2rem; }
figcaption { color: #555; max-width: 45rem; }
img { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1d1f; color: #ddd; } figcaption { color: #aaa; }
  img { background: #fff; border-radius: 4px; }
}
"""
_Picture = tuple[str, str, str, Callable[[], "Figure"]]


def write_report(
    result: Result,
    path: str | os.PathLike[str],
    X: ArrayLike | None = None,
    *,
    info: "mne.Info | None" = None,
    rate: float | None = None,
    title: str = "AMICA",
) -> None:
    """Write one HTML file with the facts and pictures of a fit; it needs no other file.

    Parameters
    ----------
    result
        A fit.
    path
        The file; an older one is replaced once the new one is complete.
    X
        Samples, shape `(samples, channels)`; None leaves out what needs them: sources,
        histograms, posteriors and rejected samples.
    info
        Of the channels that were fitted, for scalp maps.
    rate
        Samples a second; None for axes in samples.
    title
        Heading of the page.

    Raises
    ------
    ImportError
        If matplotlib (or MNE, where `info` is given) is missing.
    ValueError
        If `X` has other channels than the fit.
    """
    samples = None if X is None else check_samples(result, X)
    if rate is None and info is not None:
        rate = float(info["sfreq"])
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        _table(result),
    ]
    section = ""
    for heading, name, caption, draw in _pictures(result, samples, info, rate):
        if heading != section:
            parts.append(f"<h2>{heading}</h2>")
            section = heading
        parts.append(
            f'<figure id="{name}"><img alt="{caption}" src="{_encode(draw())}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    parts.append("</body></html>\n")
    with replacing(Path(path)) as part:
        part.write_text("\n".join(parts), encoding="utf-8")


def _pictures(
    result: Result,
    X: NDArray | None,
    info: "mne.Info | None",
    rate: float | None,
) -> Iterator[_Picture]:
    if result.n_iter:
        yield (
            "Course",
            "log-likelihood",
            "Log-likelihood, gradient norm and step size over the iterations.",
            lambda: plot_log_likelihood(result),
        )
    if X is not None and result.model.n_models > 1:
        yield (
            "Samples",
            "posteriors",
            "Posterior of each model, smoothed.",
            lambda: plot_posteriors(result, X, rate),
        )
    if X is not None and len(result.kept) == len(X) and not result.kept.all():
        yield (
            "Samples",
            "rejected",
            "Log-likelihood of every sample; dots were rejected.",
            lambda: plot_rejected(result, X, rate),
        )
    for h in range(result.model.n_models):
        heading = f"Model {h + 1}" if result.model.n_models > 1 else "Components"
        yield (
            heading,
            f"maps-{h + 1}",
            "Maps of the components, by the variance that they explain.",
            lambda h=h: plot_maps(result, info, model=h),
        )
        if X is not None:
            yield (
                heading,
                f"sources-{h + 1}",
                "A stretch of the sources, and their power spectra.",
                lambda h=h: plot_sources(result, X, rate, model=h),
            )
            yield (
                heading,
                f"densities-{h + 1}",
                "Fitted densities over the histograms of the sources.",
                lambda h=h: plot_densities(result, X, model=h),
            )


def _table(result: Result) -> str:
    rows = []
    for line in describe(result).splitlines():
        name, _, value = line.partition(" ")
        rows.append(f"<tr><th>{name}</th><td>{html.escape(value.strip())}</td></tr>")
    return f'<table id="facts">{"".join(rows)}</table>'


def _encode(figure: "Figure") -> str:
    from matplotlib import pyplot

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot.close(figure)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
