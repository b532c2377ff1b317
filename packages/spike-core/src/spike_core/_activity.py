"""What the layers of a network do: rates, silent and saturated neurons."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _check
from ._layers import fit_state, run_layers
from ._scan import Scan
from ._time_axis import time_back, time_first


def layer_outputs(
    net: Any, xs: jax.Array, state: Any = None, *, time_axis: int = 0
) -> tuple[Any, jax.Array, dict[str, jax.Array]]:
    """Run a network and keep the output of every neuron in it.

    Parameters
    ----------
    net
        A network or a single neuron, as for `unroll`.
    xs
        Input, ``[T, *batch, *features]``.
    state
        State before the first step; the initial one if None.
    time_axis
        Where time is in `xs`, and in what comes back, as for `unroll`.

    Returns
    -------
    state, ys
        As of `unroll`.
    outputs
        Output ``[T, *batch, *features]`` of each neuron, by its place, such as
        ``"net.layers[1]"``; of the layers on a cycle of a `Graph`, a dictionary.

    Raises
    ------
    TypeError, ValueError
        If a shape or a dtype does not fit, as of `unroll`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, LeakyIntegrator, Sequential, layer_outputs
    >>> net = Sequential(LIF(3), LeakyIntegrator(3))
    >>> state, ys, outputs = layer_outputs(net, jnp.ones((20, 3)))
    >>> list(outputs)
    ['net.layers[0]', 'net.layers[1]']
    """
    outputs = {}

    def run_neuron(name, neuron, xs, state):
        state, outputs[name] = Scan().run_neuron(name, neuron, xs, state)
        return state, outputs[name]

    xs = time_first("xs", jnp.asarray(xs), time_axis)
    batch_ndim, state = fit_state(net, xs, state)
    state, ys = run_layers(net, xs, state, run_neuron)
    back = partial(time_back, time_axis=time_axis, ndim=xs.ndim, batch_ndim=batch_ndim)
    return state, back(ys), jax.tree.map(back, outputs)


class LayerActivity(NamedTuple):
    """Activity of one layer of spiking neurons.

    Parameters
    ----------
    name
        Place in the network.
    rate
        Spikes in a step, averaged over time, batch and neurons.
    silent
        Share of the neurons that never fired.
    saturated
        Share of the neurons that fired in more than nine of ten steps.
    """

    name: str
    rate: float
    silent: float
    saturated: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.rate:.3f} spikes a step, {self.silent:.0%} silent, "
            f"{self.saturated:.0%} saturated"
        )


def layer_activity(
    net: Any, xs: jax.Array, *, time_axis: int = 0
) -> list[LayerActivity]:
    """Tell which layers of a network are silent or saturated.

    A network that does not learn often has a layer in which nothing fires, through
    which no gradient comes, or one in which everything does. Layers whose output is
    anything else than zeros and ones are left out.

    Parameters
    ----------
    net
        A network or a single neuron, as for `unroll`.
    xs
        Typical input, ``[T, *batch, *features]``, with at least one step.
    time_axis
        Where time is in `xs`, as for `unroll`.

    Returns
    -------
    list of LayerActivity
        One a layer of spiking neurons, in order; each can be printed.

    Raises
    ------
    TypeError, ValueError
        If a shape or a dtype does not fit, as of `unroll`, or `xs` has no steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, Sequential, layer_activity
    >>> for layer in layer_activity(Sequential(LIF(3), LIF(3)), 2 * jnp.ones((50, 3))):
    ...     print(layer)
    net.layers[0]: 0.060 spikes a step, 0% silent, 0% saturated
    net.layers[1]: 0.000 spikes a step, 100% silent, 0% saturated
    """
    if len(xs.shape) == 0 or time_first("xs", xs, time_axis).shape[0] == 0:
        raise ValueError(f"`xs` must have at least one step, got shape {xs.shape}")
    activity = []
    for name, output in _by_name(layer_outputs(net, xs, time_axis=time_axis)[2]):
        spikes = np.asarray(output, np.float32)
        if not np.isin(spikes, (0, 1)).all():
            continue
        # A user's neuron need not say which axes are features: the last one is.
        rates = spikes.reshape(-1, spikes.shape[-1]).mean(0)
        activity.append(
            LayerActivity(
                name,
                float(rates.mean()),
                float((rates == 0).mean()),
                float((rates > 0.9).mean()),
            )
        )
    return activity


def _by_name(outputs):
    for name, output in outputs.items():
        if isinstance(output, dict):
            yield from ((f"{name}[{inner!r}]", ys) for inner, ys in output.items())
        else:
            yield name, output


def rate_penalty(
    spikes: jax.Array, *, low: float = 0.0, high: float = 1.0
) -> jax.Array:
    r"""Penalise neurons that fire too rarely or too often.

    With the rate $r_j$ of neuron $j$ over time and batch,
    $\frac1N \sum_j \max(0, \mathrm{low} - r_j)^2 + \max(0, r_j - \mathrm{high})^2$.

    Parameters
    ----------
    spikes
        Output of a layer, ``[T, *batch, neurons]``, for example of `layer_outputs`.
    low, high
        Range of rates, in spikes a step, that costs nothing.

    Returns
    -------
    jax.Array
        A scalar.

    Raises
    ------
    TypeError
        If `spikes` is not floating.
    ValueError
        If `spikes` is empty or the range is not within 0 and 1.

    References
    ----------
    Zenke and Vogels, "The remarkable robustness of surrogate gradient learning",
    Neural Computation 33 (2021), section 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import rate_penalty
    >>> float(rate_penalty(jnp.array([[1.0, 0.0], [1.0, 0.0]]), high=0.5))
    0.125
    """
    _check.floating("spikes", spikes)
    if spikes.ndim < 2 or spikes.size == 0:
        raise ValueError(
            f"`spikes` must be [T, *batch, neurons] and not empty, got {spikes.shape}"
        )
    _check.number("low", low, least=0, most=1)
    _check.number("high", high, least=low, most=1)
    wide = spikes if spikes.dtype == jnp.float64 else spikes.astype(jnp.float32)
    rates = wide.reshape(-1, spikes.shape[-1]).mean(0)
    below, above = jnp.maximum(low - rates, 0), jnp.maximum(rates - high, 0)
    return jnp.mean(below**2 + above**2)
