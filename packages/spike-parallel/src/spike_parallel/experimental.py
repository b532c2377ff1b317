"""Results that are no fast path: what is here may change in any version."""

import jax
import jax.numpy as jnp
from jax import Array
from spike_core import LIF, LIFState

from . import _check
from ._successor import ResetTrajectory as ResetTrajectory
from ._successor import successor_pointers as successor_pointers
from ._verified import Verified, verify


def pointer_scan(
    neuron: LIF,
    state: LIFState,
    xs: Array,
    *,
    chunk: int,
    max_sweeps: int | None = None,
) -> Verified:
    """Run a `spike_core.LIF` that resets to a value by pointers, and prove the result.

    `successor_pointers` gives the state at every chunk border; from there the chunks
    run side by side, until the certificate of `verified_scan` holds. What comes back
    is the result of the sequential scan, bit for bit, in float32 too. One or two sweeps
    are usual; a neuron that never fires under constant drive settles on another last
    digit in every chunk and takes as many sweeps as there are chunks.

    Parameters
    ----------
    neuron
        A neuron with ``reset="value"`` or ``"zero"``.
    state
        The state before the first step; no neuron may be resting in it.
    xs
        Input, ``[T, *batch, *features]``.
    chunk
        Steps in a chunk.
    max_sweeps
        Sweeps after which the sequential scan takes over; by default the number of
        chunks, which always suffices.

    Returns
    -------
    Verified
        As from `verified_scan`.

    Raises
    ------
    ValueError
        If the neuron does not reset to a value or `chunk` is not a positive integer.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF
    >>> neuron = LIF(8, reset="zero", input_gain="unit")
    >>> xs = jax.random.normal(jax.random.key(0), (1000, 8), jnp.float32)
    >>> result = pointer_scan(neuron, neuron.initial_state(), xs, chunk=100)
    >>> result.ys.shape, bool(result.sequential)
    ((1000, 8), False)
    """
    if getattr(neuron, "reset", None) not in ("value", "zero"):
        raise ValueError(
            '`neuron` must be a LIF with `reset="value"` or "zero", got '
            f"{type(neuron).__name__} with reset={getattr(neuron, 'reset', None)!r}"
        )
    chunk = _check.positive_int("chunk", chunk)
    chunks = xs.shape[0] // chunk
    if max_sweeps is None:
        max_sweeps = max(1, chunks)
    max_sweeps = _check.positive_int("max_sweeps", max_sweeps)
    if chunks < 2:
        state, ys = jax.lax.scan(neuron, state, xs)
        return Verified(state, ys, jnp.asarray(0), jnp.asarray(True))
    parameters = neuron.parameters
    # The same neuron without reset says what its drive and decay are.
    free = LIF(
        neuron.features,
        tau=jnp.exp(parameters.log_tau),
        reset="none",
        input_gain=neuron.input_gain,
        dt=neuron.dt,
        param_dtype=parameters.log_tau.dtype,
    )
    decay, drive = free.linear_form(xs)
    trajectory = successor_pointers(
        decay,
        drive,
        parameters.threshold.astype(drive.dtype),
        v0=state.v.astype(drive.dtype),
        v_reset=(
            parameters.v_reset.astype(drive.dtype) if neuron.reset == "value" else 0.0
        ),
        refractory=neuron.refractory,
    )
    borders = slice(chunk - 1, (chunks - 1) * chunk, chunk)
    v = trajectory.v[borders].astype(state.v.dtype)
    resting = trajectory.resting[borders] if neuron.refractory else ()
    guess = LIFState(v, resting)
    return verify(neuron, state, xs, guess, chunk=chunk, max_sweeps=max_sweeps)
