"""How much the layers of a network fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._activity import LayerActivity
from ._axes import ACCENT, COLOR, QUIET, axes


def activity(layers: Sequence[LayerActivity], *, ax: Any = None) -> Any:
    """Draw the rate of each layer; name those that are silent or saturated.

    Parameters
    ----------
    layers
        As `spike_core.layer_activity` gives them.
    ax
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Bars of layers in which no neuron fires are grey, in which all fire
        in nearly every step red; a layer's share of both stands beside its bar.

    Raises
    ------
    TypeError
        If `layers` are not of `spike_core.layer_activity`, or `ax` not axes.
    ValueError
        If there is no layer.
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, Sequential, layer_activity, plot
    >>> net = Sequential(LIF(3), LIF(3))
    >>> ax = plot.activity(layer_activity(net, 2 * jnp.ones((50, 3))))
    >>> [text.get_text().strip() for text in ax.texts]
    ['', '100% silent']
    """
    if not isinstance(layers, Sequence) or not all(
        isinstance(layer, LayerActivity) for layer in layers
    ):
        seen = type(layers).__name__
        raise TypeError(
            "`layers` must be a list of LayerActivity, as layer_activity(net, xs) "
            f"gives it, got {seen}"
        )
    if not layers:
        raise ValueError(
            "`layers` must not be empty: has the network a layer of spiking neurons?"
        )
    ax = axes(ax, figsize=(6, 1 + 0.4 * len(layers)))
    bars = ax.barh(
        [layer.name for layer in layers],
        [layer.rate for layer in layers],
        color=[_color(layer) for layer in layers],
    )
    # As texts, so that a layer without a bar still has its name and its fault.
    ax.bar_label(bars, [f" {_faults(layer)}" for layer in layers])
    ax.margins(x=0.3)
    ax.invert_yaxis()
    ax.set(xlabel="spikes a step")
    return ax


def _color(layer: LayerActivity) -> str:
    if layer.silent == 1:
        return QUIET
    return ACCENT if layer.saturated == 1 else COLOR


def _faults(layer: LayerActivity) -> str:
    faults = (("silent", layer.silent), ("saturated", layer.saturated))
    return ", ".join(f"{share:.0%} {name}" for name, share in faults if share > 0)
