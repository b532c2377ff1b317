"""What it takes to be an execution strategy."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Strategy(abc.ABC):
    """How the time axis is run: base class of frozen dataclasses with one method.

    Strategies give the same outputs, states and gradients and differ in time and
    memory. One that cannot run a network raises an error that names the layer.
    """

    @abc.abstractmethod
    def run(self, net: Any, xs: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        """Run a network over a sequence; `unroll` has checked and prepared the input.

        Parameters
        ----------
        net
            A network or a single neuron.
        xs
            Input, ``[T, *batch, *features]``.
        state
            State before the first step, in the dtypes that steps give it.

        Returns
        -------
        state, ys
            The state after the last step, and the output of each step.
        """
