"""Weights as an image."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._axes import axes


def weights(values: Any, *, ax: Any = None) -> Any:
    """Draw weights as an image, blue below zero and red above.

    Parameters
    ----------
    values
        An array ``[inputs, outputs]``, or a layer with a ``kernel``, such as
        `flax.nnx.Linear`. Of more axes, as of a convolution, all but the last run over
        inputs.
    ax
        Axes to draw on; those of a new figure, with a colour bar, if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        If `values` are neither an array nor a layer with a kernel, or `ax` not axes.
    ValueError
        If there are fewer than two axes, or no weights.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from flax import nnx
    >>> from spike_core import plot
    >>> ax = plot.weights(nnx.Linear(7, 3, rngs=nnx.Rngs(0)))
    >>> ax.images[0].get_array().shape  # outputs, inputs
    (3, 7)
    """
    array = getattr(values, "kernel", values)
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(
            "`values` must be an array or a layer with a kernel, "
            f"got {type(values).__name__}"
        )
    image = np.asarray(array, np.float64)
    if image.ndim < 2 or image.size == 0:
        raise ValueError(
            f"`values` must be [inputs, outputs] and not empty, got shape {image.shape}"
        )
    image = image.reshape(-1, image.shape[-1]).T
    fresh = ax is None
    ax = axes(ax)
    finite = np.abs(image[np.isfinite(image)])
    limit = finite.max(initial=0) or 1.0
    drawn = ax.imshow(
        image,
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        aspect="auto",
        interpolation="nearest",
    )
    if fresh:
        ax.figure.colorbar(drawn, ax=ax, label="weight")
    ax.set(xlabel="input", ylabel="output")
    return ax
