"""The plain strategy: one step after another."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from . import _check
from ._layers import run_layers
from ._neuron.base import Neuron
from ._reverse import scan_neuron
from ._strategy import Strategy


@dataclasses.dataclass(frozen=True)
class Scan(Strategy):
    """Run each neuron with `jax.lax.scan` over time.

    Layers without state are applied to all steps at once.

    Parameters
    ----------
    unroll
        Steps in one iteration of the compiled loop; by default 1 on a CPU, where more
        doubles the time, and 8 elsewhere, where an iteration is a kernel launch.
    autodiff
        Leave the derivative of the time loop to JAX. By default built-in neurons bring
        their own, which gives the same gradient out of a third of the memory, but only
        in reverse mode: `jax.grad` and `jax.vjp`, not `jax.jvp`.

    Raises
    ------
    ValueError
        If `unroll` is not a positive integer.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, Scan, unroll
    >>> state, spikes = unroll(LIF(2), jnp.ones((10, 2)), strategy=Scan(unroll=2))
    >>> spikes.shape
    (10, 2)
    """

    unroll: int | None = None
    autodiff: bool = False

    def __post_init__(self) -> None:
        _check.one_of("autodiff", self.autodiff, (False, True))
        if self.unroll is not None:
            _check.whole("unroll", self.unroll, least=1)

    def run(self, net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        """See `Strategy.run`."""
        return run_layers(net, xs, state, self.run_neuron)

    def run_neuron(
        self, name: str, neuron: Any, xs: Any, state: Any
    ) -> tuple[Any, Any]:
        """Run one neuron; see `run_layers`."""
        del name  # any neuron can be run
        unroll = self.unroll or (1 if jax.default_backend() == "cpu" else 8)
        if isinstance(neuron, Neuron) and not self.autodiff:
            return scan_neuron(neuron, xs, state, unroll=unroll)
        return jax.lax.scan(lambda state, x: neuron(state, x), state, xs, unroll=unroll)
