"""The neuron here that does what another library's neuron does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _check
from .._surrogate import Surrogate

# Imported for what they register.
from . import _jaxpike, _norse, _snntorch, _spikingjelly, _spyx  # noqa: F401
from ._reading import READERS, Wanted


def from_peer(
    neuron: Any,
    features: int | Sequence[int],
    *,
    dt: float = 1.0,
    surrogate: Surrogate | None = None,
) -> Any:
    r"""Return a layer that gives the spikes another library's neuron gives.

    On the same input, step by step, from the initial state: the same spikes, and the
    same gradients with respect to the input, where the peer has a surrogate that is
    here too. What differs between the libraries is made up for:

    - **jaxpike**: `LIF`, `LinearLIF`, `ALIF`, `LeakyIntegrator`, with the gain
      ``"leak"``.
    - **snnTorch**: `Leaky`, `RLeaky`, `Synaptic`, `RSynaptic`, with the gain
      ``"unit"``. The reset by subtraction takes its threshold off one step late and
      whole (`LateResetLIF`), and is cut from the gradient; ``reset_delay=False`` is the
      reset of `LIF`, as long as a reset leaves no membrane above the threshold.
      `Synaptic` and the recurrent ones with the reset ``"zero"`` rest for one step.
    - **SpikingJelly**: `IFNode`, `LIFNode`, `ParametricLIFNode`, `CUBALIFNode`,
      `EIFNode`, `QIFNode`, `RAFNode`, `NonSpikingLIFNode`, `NonSpikingIFNode`. The
      threshold is the next float32 below, since reaching it is enough to fire; the
      membrane is measured from where it leaks to.
    - **Norse**: `IAFCell`, `LIFBoxCell`, `LIFCell`, `LIFRecurrentCell`, `LIFExCell`,
      `LIFAdExCell`, `LIBoxCell`, `LICell`. The decay is $1 - dt/\tau$ (forward Euler).
      The cells that are not called Box have a synapse that adds its input, whose gain
      is made up for. The membrane is measured from ``v_leak``, where it starts. The
      recurrent cell brings the weights of its input, and detaches its reset.
    - **Spyx**: `IF`, `LIF`, `RLIF`, `ALIF`, `CuBaLIF`, `PSU_LIF`, `LI`, with the gain
      ``"unit"``. The spike comes one step late (a `Delay` behind the neuron), except
      for `PSU_LIF`; the reset is late and whole, except for `CuBaLIF` and `IF`.

    Parameters
    ----------
    neuron
        The neuron. No library is imported that is not installed: yours is.
    features
        Number of neurons, or the shape of the block of them; the peers' own neurons
        do not know it before the first input.
    dt
        Length of a step here, in milliseconds: time constants are given in it. Spikes
        do not depend on it.
    surrogate
        To use in place of the neuron's own.

    Returns
    -------
    flax.nnx.Module
        A neuron or a `Sequential` that ends in one. What the peer trains is trainable,
        everything else `Frozen`.

    Raises
    ------
    TypeError
        If the neuron is of no known class; a subclass of a known one is not.
    ValueError
        If it is set up in a way that cannot be expressed here; the message names the
        setting. Or if its surrogate has no equivalent and `surrogate` is not given.

    Examples
    --------
    With snnTorch installed:

    >>> import snntorch  # doctest: +SKIP
    >>> from spike_core.compat import from_peer
    >>> layer = from_peer(snntorch.Leaky(beta=0.9), 128)  # doctest: +SKIP
    """
    shape = _check.shape_of("features", features)
    _check.number("dt", dt, above=0)
    if surrogate is not None and not isinstance(surrogate, Surrogate):
        raise TypeError(
            f"`surrogate` must be a Surrogate, such as ATan(), got {surrogate!r}"
        )
    kind = type(neuron)
    library = kind.__module__.partition(".")[0]
    readers = READERS.get(library, {})
    if kind.__name__ not in readers:
        known = readers or sorted(READERS)
        raise TypeError(
            f"`neuron` must be one of {', '.join(known)}, "
            f"got {kind.__module__}.{kind.__name__}"
        )
    return readers[kind.__name__](neuron, Wanted(shape, float(dt), surrogate))
