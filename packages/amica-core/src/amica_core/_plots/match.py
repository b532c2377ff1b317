"""Two decompositions side by side."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from .._io.mne import import_mne
from .._result import Result
from ._matplotlib import check_info, colour, subplots
from .maps import has_positions

if TYPE_CHECKING:
    import mne
    from matplotlib.figure import Figure


class Match(NamedTuple):
    """Which component of one fit is which of another, the most alike first."""

    first: NDArray[np.int64]
    """Components of the first fit, shape `(pairs,)`."""
    second: NDArray[np.int64]
    """Their partners in the second fit."""
    similarity: NDArray[np.float64]
    """Absolute cosine of the two maps on the sensors, from 0 to 1."""


def match_maps(
    first: Result, second: Result, models: tuple[int, int] = (0, 0)
) -> Match:
    """Pair the components of two fits by their maps (Hungarian method).

    Parameters
    ----------
    first, second
        Two fits of the same channels.
    models
        Which model of each.

    Raises
    ------
    ValueError
        If the channels differ in number.
    """
    channels = [len(result.sphering.mean) for result in (first, second)]
    if channels[0] != channels[1]:
        raise ValueError(
            f"`second` must have the {channels[0]} channels of `first`, got "
            f"{channels[1]}"
        )
    maps = [r.mixing(h) for r, h in zip((first, second), models, strict=True)]
    a, b = (m / np.linalg.norm(m, axis=0) for m in maps)
    cosine = np.abs(a.T @ b)
    rows, columns = scipy.optimize.linear_sum_assignment(cosine, maximize=True)
    order = np.argsort(-cosine[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    return Match(rows, columns, cosine[rows, columns])


def plot_match(
    first: Result,
    second: Result,
    info: "mne.Info | None" = None,
    *,
    models: tuple[int, int] = (0, 0),
    n_pairs: int = 8,
) -> "Figure":
    """Draw how alike the paired components of two fits are, and the first maps.

    Parameters
    ----------
    first, second
        Two fits of the same channels.
    info
        Of the channels, with their positions; None for no scalp maps.
    models
        Which model of each.
    n_pairs
        Most pairs whose maps are drawn.

    Raises
    ------
    ImportError
        If matplotlib (or MNE, where `info` is given) is missing.
    ValueError
        If the channels differ in number.
    """
    match = match_maps(first, second, models)
    check_info(first, info)
    draws = info is not None and has_positions(info)
    shown = min(n_pairs, len(match.first)) if draws else 0
    rows = 3 if draws else 1
    figure, axes = subplots(
        rows, max(shown, 1), figsize=(max(7, 1.4 * shown), 2.6 + 1.5 * (rows - 1))
    )
    for ax in axes[0]:
        ax.remove()
    ax = figure.add_subplot(axes[0, 0].get_gridspec()[0, :])
    pairs = np.arange(1, len(match.first) + 1)
    ax.plot(pairs, match.similarity, "o-", ms=3, color=colour(0))
    ax.set(xlabel="pair", ylabel="|cosine| of maps", ylim=(0, 1.05))
    if draws:
        _pairs(axes[1:], first, second, info, match, models)
    return figure


def _pairs(
    axes: Any,
    first: Result,
    second: Result,
    info: Any,
    match: Match,
    models: tuple[int, int],
) -> None:
    mne = import_mne()
    maps = [r.mixing(h) for r, h in zip((first, second), models, strict=True)]
    for pair in range(axes.shape[1]):
        i, k = match.first[pair], match.second[pair]
        a, b = maps[0][:, i], maps[1][:, k]
        for row, (values, number) in enumerate(
            [(a, i), (b * np.sign(a @ b), k)]  # signs of an ICA mean nothing
        ):
            ax = axes[row, pair]
            mne.viz.plot_topomap(values, info, axes=ax, show=False, contours=0)
            ax.set_title(f"{'AB'[row]} IC{number:03d}", fontsize=8)
