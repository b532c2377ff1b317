"""Matplotlib, imported when a picture is asked for."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._check import check_integer
from .._result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL_COLOURS = ("#1f6f8b", "#c8553d", "#6a994e", "#8f5db7", "#d4a017", "#5c6b73")
DATA_COLOUR = "#b8c4cc"


def subplots(rows: int = 1, columns: int = 1, **settings: Any) -> "tuple[Figure, Any]":
    """Return a figure and an array of axes, `(rows, columns)`."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ImportError(
            'pictures need matplotlib; install it with `pip install "amica-core[plot]"`'
        ) from error
    return pyplot.subplots(
        rows, columns, squeeze=False, layout="constrained", **settings
    )


def grid(count: int, columns: int, width: float, height: float) -> "tuple[Figure, Any]":
    """Return a figure with `count` axes in rows of at most `columns`, the rest off."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = subplots(rows, columns, figsize=(width * columns, height * rows))
    for ax in axes.ravel()[count:]:
        ax.set_axis_off()
    return figure, axes.ravel()[:count]


def colour(h: int) -> str:
    """Return the colour of model `h`."""
    return MODEL_COLOURS[h % len(MODEL_COLOURS)]


def check_model(result: Result, model: int) -> None:
    """Raise if there is no such model."""
    check_integer("model", model, 0)
    if model >= result.model.n_models:
        raise ValueError(
            f"`model` must be below {result.model.n_models}, the number of models, got "
            f"{model}"
        )


def check_components(result: Result, components: Any, default: int) -> list[int]:
    """Return which components to show; the first `default` for None."""
    n = result.model.n_components
    if components is None:
        return list(range(min(n, default)))
    chosen = [int(i) for i in np.atleast_1d(components)]
    if not chosen or min(chosen) < 0 or max(chosen) >= n:
        raise ValueError(
            f"`components` must be numbers from 0 to {n - 1}, got {components!r}"
        )
    return chosen


def check_samples(result: Result, X: Any) -> np.ndarray:
    """Return `X` as an array with the channels of the fit."""
    X = np.asarray(X)
    channels = len(result.sphering.mean)
    if X.ndim != 2 or X.shape[1] != channels:
        raise ValueError(
            f"`X` must be (samples, {channels}), as in the fit, got shape {X.shape}"
        )
    return X


def check_info(result: Result, info: Any) -> None:
    """Raise if `info`, where it is given, has other channels than the fit."""
    channels = len(result.sphering.mean)
    if info is not None and len(info["ch_names"]) != channels:
        raise ValueError(
            f"`info` must have the {channels} channels of the fit, got "
            f"{len(info['ch_names'])}"
        )


def seconds(n_samples: int, rate: float | None) -> tuple[np.ndarray, str]:
    """Return a time axis and its label; samples where the rate is not known."""
    if rate is None:
        return np.arange(n_samples), "sample"
    return np.arange(n_samples) / rate, "time in s"
