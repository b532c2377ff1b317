"""What all pictures have in common: axes, and arrays of the right shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _check
from .._time_axis import normalise

#: Spikes and membranes; thresholds and the best epoch; layers that do nothing.
COLOR, ACCENT, QUIET = "C0", "C3", "0.6"


def axes(ax: Any, **figure: Any) -> Any:
    """Return the axes to draw on: those given, or a new figure's."""
    try:
        from matplotlib import pyplot
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError(
            'plots need matplotlib: `pip install "spike-core[plot]"`'
        ) from error
    if ax is None:
        return pyplot.subplots(layout="constrained", **figure)[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be matplotlib Axes, got {type(ax).__name__}")
    return ax


def over_time(name: str, array: Any, time_axis: int) -> np.ndarray:
    """Return one sample as ``[T, neurons]``."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(f"`{name}` must be an array, got {type(array).__name__}")
    values = np.asarray(array)
    if values.dtype.kind not in "biuf":
        # A float type that numpy does not know by itself, such as bfloat16.
        values = values.astype(np.float32)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(
            f"`{name}` must be one sample, [T, neurons], and not empty, got shape "
            f"{values.shape}; choose a sample first, as in {name}[:, 0]"
        )
    return np.moveaxis(values, normalise(name, 2, time_axis), 0)


def steps(n: int, dt: float) -> np.ndarray:
    """Return the times of `n` steps in milliseconds."""
    _check.number("dt", dt, above=0)
    return np.arange(n) * float(dt)
