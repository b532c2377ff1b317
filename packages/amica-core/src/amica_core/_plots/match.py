"""Two decompositions side by side."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._metrics import match_components
from .._result import Result
from ._matplotlib import check_info, colour, subplots
from .maps import draw_topomap, has_positions

if TYPE_CHECKING:
    import mne
    from matplotlib.figure import Figure


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
    pairs = matched_pairs(first, second, models)
    check_info(first, info)
    draws = info is not None and has_positions(info)
    shown = min(n_pairs, len(pairs)) if draws else 0
    rows = 3 if draws else 1
    figure, axes = subplots(
        rows, max(shown, 1), figsize=(max(7, 1.4 * shown), 2.6 + 1.5 * (rows - 1))
    )
    for ax in axes[0]:
        ax.remove()
    ax = figure.add_subplot(axes[0, 0].get_gridspec()[0, :])
    similarity = [pair.similarity for pair in pairs]
    ax.plot(np.arange(1, len(pairs) + 1), similarity, "o-", ms=3, color=colour(0))
    ax.set(xlabel="pair", ylabel="|cosine| of maps", ylim=(0, 1.05))
    if draws:
        _draw_pairs(axes[1:], first, second, info, pairs, models)
    return figure


class Pair(NamedTuple):
    """A component of one fit and its partner in another."""

    first: int
    second: int
    sign: float
    similarity: float


def matched_pairs(
    first: Result, second: Result, models: tuple[int, int] = (0, 0)
) -> list[Pair]:
    """Pair the components of two fits by their maps, the most alike first.

    Parameters
    ----------
    first, second
        Two fits of the same channels.
    models
        Which model of each.
    """
    maps = [r.mixing(h) for r, h in zip((first, second), models, strict=True)]
    if len(maps[0]) != len(maps[1]):
        raise ValueError(
            f"`second` must have the {len(maps[0])} channels of `first`, got "
            f"{len(maps[1])}"
        )
    swaps = maps[0].shape[1] > maps[1].shape[1]
    found = match_components(*(maps[::-1] if swaps else maps))
    pairs = [
        Pair(*((int(k), i) if swaps else (i, int(k))), float(sign), float(similarity))
        for i, (k, sign, similarity) in enumerate(zip(*found, strict=True))
    ]
    return sorted(pairs, key=lambda pair: -pair.similarity)


def _draw_pairs(
    axes: Any,
    first: Result,
    second: Result,
    info: Any,
    pairs: list[Pair],
    models: tuple[int, int],
) -> None:
    maps = [r.mixing(h) for r, h in zip((first, second), models, strict=True)]
    for column, pair in zip(axes.T, pairs, strict=False):
        # Signs of components mean nothing; partners get the same.
        partner = maps[1][:, pair.second] * pair.sign
        shown = [(maps[0][:, pair.first], pair.first), (partner, pair.second)]
        for ax, letter, (values, number) in zip(column, "AB", shown, strict=True):
            draw_topomap(ax, values, info)
            ax.set_title(f"{letter} IC{number:03d}", fontsize=8)
