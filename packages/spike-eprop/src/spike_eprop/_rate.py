"""A price on firing too much or too little."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from ._local import Path


@dataclasses.dataclass(frozen=True)
class RatePenalty:
    r"""Pull the mean rate of each hidden neuron towards a target.

    $$E_\mathrm{rate} = \frac{c}{2} \sum_j (f_j - f^*)^2$$

    where $f_j$ is the mean output of neuron $j$ over steps and examples, weighted as
    the loss is. Its gradient is exact in the parameters of the neuron's own layer, and
    is not sent further down.

    Parameters
    ----------
    target
        The $f^*$: spikes a step, in [0, 1].
    strength
        The $c$, nonnegative.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    Bellec et al., Nature Communications 11, 3625 (2020), eqs. 32 to 34.

    Examples
    --------
    >>> from spike_eprop import RatePenalty
    >>> RatePenalty(target=0.02, strength=10.0)
    RatePenalty(target=0.02, strength=10.0)
    """

    target: float
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.target <= 1:
            raise ValueError(
                f"`target` must be spikes a step, in [0, 1], got {self.target!r}"
            )
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(
                f"`strength` must be finite and nonnegative, got {self.strength!r}"
            )

    def value_and_grad(
        self, rate: jax.Array, traces: dict[Path, jax.Array]
    ) -> tuple[jax.Array, dict[Path, jax.Array]]:
        """Return the penalty of one block and its gradient by the block's parameters.

        Parameters
        ----------
        rate
            Mean output of the neurons, ``[*features]``.
        traces
            Mean of the unfiltered traces: ``[*features]``, or of weights
            ``[*positions, q, c]``.

        Returns
        -------
        value, gradients
            The gradients by unit, ``[*features]``, or of weights ``[q, c]``.
        """
        excess = rate - self.target
        gradients = {}
        for path, e in traces.items():
            if e.shape == rate.shape:
                gradients[path] = self.strength * excess * e
            else:
                by_position = self.strength * excess[..., None, :] * e
                gradients[path] = by_position.sum(tuple(range(e.ndim - 2)))
        return 0.5 * self.strength * jnp.square(excess).sum(), gradients
