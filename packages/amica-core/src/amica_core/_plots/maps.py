"""Maps of the components on the sensors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import threadpoolctl

from .._io.mne import import_mne
from .._result import Result
from ._matplotlib import check_components, check_info, check_model, grid, subplots

if TYPE_CHECKING:
    import mne
    from matplotlib.figure import Figure


def plot_maps(
    result: Result,
    info: "mne.Info | None" = None,
    *,
    model: int = 0,
    components: Sequence[int] | None = None,
) -> "Figure":
    """Draw scalp maps; without sensor positions, the maps as columns of an image.

    Parameters
    ----------
    result
        A fit.
    info
        Of the channels that were fitted, with their positions; None for an image.
    model
        Which model, counted from 0.
    components
        Which components, counted from 0; None for the first 20.

    Raises
    ------
    ImportError
        If matplotlib (or MNE, where `info` is given) is missing.
    ValueError
        If there is no such model or component, or `info` has other channels.
    """
    check_model(result, model)
    check_info(result, info)
    shown = check_components(result, components, 20)
    maps = result.mixing(model)[:, shown]
    if info is None or not has_positions(info):
        return _image(maps, shown, None if info is None else info["ch_names"])
    figure, axes = grid(len(shown), 5, 1.7, 1.8)
    for ax, i, column in zip(axes, shown, maps.T, strict=True):
        draw_topomap(ax, column, info, contours=4)
        ax.set_title(f"IC{i:03d}", fontsize=9)
    return figure


def draw_topomap(ax: Any, values: np.ndarray, info: Any, contours: int = 0) -> None:
    """Draw one scalp map."""
    mne = import_mne()
    # Its matrices are so small that threads get in each other's way.
    with threadpoolctl.threadpool_limits(1):
        mne.viz.plot_topomap(values, info, axes=ax, show=False, contours=contours)


def has_positions(info: Any) -> bool:
    """Tell whether every channel has a position."""
    positions = np.array([channel["loc"][:3] for channel in info["chs"]])
    return bool(np.isfinite(positions).all() and np.any(positions, axis=1).all())


def _image(maps: np.ndarray, shown: list[int], names: list[str] | None) -> "Figure":
    figure, axes = subplots(figsize=(2 + 0.3 * len(shown), 1 + 0.22 * len(maps)))
    ax = axes[0, 0]
    maps = maps / np.abs(maps).max(axis=0)
    image = ax.imshow(maps, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    figure.colorbar(image, ax=ax, label="map / its maximum")
    ax.set(xlabel="component", ylabel="channel")
    ax.set_xticks(range(len(shown)), shown)
    if names is not None:
        ax.set_yticks(range(len(names)), names, fontsize=7)
    return figure
