"""The numbers of a training, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._fit import History
from ._axes import ACCENT, axes


def history(
    numbers: History, *, columns: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw how a training went.

    Parameters
    ----------
    numbers
        What `spike_core.fit` returned.
    columns
        Names of the columns to draw; all if None.
    ax
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; a dashed line marks the epoch that validation chose.

    Raises
    ------
    TypeError
        If `numbers` is not a `History`, or `ax` not axes.
    ValueError
        If there is no epoch, or a column is not there.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from spike_core import History, plot
    >>> numbers = History(
    ...     {"loss": [1.0, 0.4, 0.1], "validation loss": [1.0, 0.5, 0.7]}, best_epoch=1
    ... )
    >>> ax = plot.history(numbers)
    >>> [line.get_label() for line in ax.lines]
    ['loss', 'validation loss', 'best epoch, 1']
    """
    if not isinstance(numbers, History):
        seen = type(numbers).__name__
        raise TypeError(f"`numbers` must be a History, as fit returns it, got {seen}")
    if numbers.n_epochs == 0:
        raise ValueError("`numbers` must have at least one epoch, got none")
    names = list(numbers.columns) if columns is None else list(columns)
    missing = [name for name in names if name not in numbers.columns]
    if missing:
        raise ValueError(
            f"`columns` must be among {list(numbers.columns)}, got {missing}"
        )
    ax = axes(ax)
    for name in names:
        ax.plot(numbers.columns[name], label=name, marker=".")
    if numbers.best_epoch is not None:
        ax.axvline(
            numbers.best_epoch,
            color=ACCENT,
            linestyle="--",
            linewidth=1,
            label=f"best epoch, {numbers.best_epoch}",
        )
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="epoch")
    ax.legend()
    return ax
