"""Neurons whose reset takes the whole threshold off the membrane one step later."""

from __future__ import annotations

import jax

from .._neuron.alif import ALIF
from .._neuron.base import Prepared
from .._neuron.cuba_lif import CubaLIF
from .._neuron.lif import LIF


class _LateReset:
    """Take off more than the threshold: what is left of it a step later is one."""

    detach_reset: bool

    def reset_membrane(
        self, p: Prepared, v: jax.Array, threshold: jax.Array, spikes: jax.Array
    ) -> jax.Array:
        """See `SpikingNeuron.reset_membrane`."""
        if self.detach_reset:
            spikes = jax.lax.stop_gradient(spikes)
        return v - threshold / p["decay"] * spikes


class LateResetLIF(_LateReset, LIF):
    r"""Leaky integrate-and-fire neurons whose reset does not leak.

    $$u_t = \alpha u_{t-1} + g x_t - \theta s_{t-1}, \qquad s_t = H(u_t - \theta)$$

    In `LIF` the reset happens in the step of the spike, and what it takes off leaks
    with the membrane; here the next step takes off the whole threshold. The membrane
    in the state is $u_t - \theta s_t / \alpha$. The arguments are those of `LIF` with
    ``reset="subtract"``.

    References
    ----------
    Eshraghian et al., "Training spiking neural networks using lessons from deep
    learning", Proceedings of the IEEE 111 (2023), eq. 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.compat import LateResetLIF
    >>> neuron = LateResetLIF(1, tau=9.5, input_gain="unit")
    >>> unroll(neuron, jnp.full((12, 1), 0.3))[1][:, 0].astype(int).tolist()
    [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    """


class LateResetCubaLIF(_LateReset, CubaLIF):
    """`CubaLIF` with the reset of `LateResetLIF`; the arguments are those of `CubaLIF`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.compat import LateResetCubaLIF
    >>> neuron = LateResetCubaLIF(1, input_gain="unit")
    >>> unroll(neuron, jnp.full((5, 1), 0.3))[1][:, 0].astype(int).tolist()
    [0, 0, 1, 1, 1]
    """


class LateResetALIF(_LateReset, ALIF):
    """`ALIF` with the reset of `LateResetLIF`; the arguments are those of `ALIF`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> from spike_core.compat import LateResetALIF
    >>> neuron = LateResetALIF(1, input_gain="unit", beta=1.0)
    >>> unroll(neuron, jnp.full((8, 1), 0.5))[1][:, 0].astype(int).tolist()
    [0, 0, 1, 0, 0, 0, 1, 0]
    """
