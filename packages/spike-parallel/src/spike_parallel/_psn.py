r"""Parallel spiking neurons: the membrane is a learned mixture over time.

$$H = W X, \qquad S = H(H - \theta)$$

with $X$ the input of all steps. There is no reset and no recurrence, so all steps are
one matrix product. The three differ in $W$: free (`PSN`), causal and limited to the
last $k$ steps (`MaskedPSN`), or the same $k$ weights at every step (`SlidingPSN`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from spike_core import ATan, Surrogate

from . import _check


class PSN(nnx.Module):
    r"""Parallel spiking neuron: every step sees every other, later ones too.

    For sequences of one fixed length; see `MaskedPSN` for a causal one and
    `SlidingPSN` for any length. It is called with the whole sequence and has no state.

    Parameters
    ----------
    steps
        Number of steps $T$.
    surrogate
        The derivative of the spike.
    threshold
        $\theta$ at first; one a step, learned.
    param_dtype
        Dtype of the parameters, floating.
    rngs
        Random numbers for the weights.

    Raises
    ------
    ValueError
        If `steps` is not a positive integer.

    References
    ----------
    Fang et al., *Parallel spiking neurons with high efficiency and ability to learn
    long-term dependencies* (NeurIPS 2023), eqs. 6 and 7.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> neuron = PSN(steps=20, rngs=nnx.Rngs(0))
    >>> neuron(jnp.ones((20, 8, 3), jnp.float32)).shape
    (20, 8, 3)
    """

    def __init__(
        self,
        steps: int,
        *,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        threshold: float = 1.0,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ):
        self.steps = _check.positive_int("steps", steps)
        self.surrogate = surrogate
        initial = nnx.initializers.kaiming_uniform()
        self.weight = nnx.Param(initial(rngs.params(), (steps, steps), param_dtype))
        self.threshold = nnx.Param(jnp.full(steps, threshold, param_dtype))

    def mixing(self) -> Array:
        """Return the weights that mix the steps, ``[T, T]``."""
        return self.weight[...]

    def __call__(self, xs: Array) -> Array:
        """Return the spikes of a whole sequence.

        Parameters
        ----------
        xs
            Input, ``[T, ...]``, in the dtype of the parameters.

        Returns
        -------
        Array
            Spikes, of the shape and dtype of `xs`.

        Raises
        ------
        ValueError
            If `xs` has another number of steps or another dtype.
        """
        xs = _check.inexact("xs", xs)
        _check.same_dtype("xs", xs, "param_dtype", self.weight[...].dtype)
        if xs.shape[:1] != (self.steps,):
            raise ValueError(
                f"`xs` must have {self.steps} steps, as the neuron was built for, "
                f"got shape {xs.shape}"
            )
        membrane = jnp.tensordot(self.mixing(), xs, axes=1)
        threshold = self.threshold[...].reshape(-1, *(1,) * (xs.ndim - 1))
        return self.surrogate(membrane - threshold)


class MaskedPSN(PSN):
    r"""Parallel spiking neuron that sees only itself and the last $k - 1$ steps.

    During training the mask may come in gradually: with `strength` $\lambda$ the
    weights outside of it are multiplied by $1 - \lambda$. At 1, the default, the
    neuron is causal.

    Parameters
    ----------
    steps
        Number of steps $T$.
    window
        Number of steps $k$ that are seen, the present one included.
    strength
        $\lambda$ from 0 to 1; an attribute that may be set between training steps.
    surrogate, threshold, param_dtype, rngs
        As for `PSN`.

    Raises
    ------
    ValueError
        If `steps` or `window` is not a positive integer, or `strength` is out of range.

    References
    ----------
    Fang et al., *Parallel spiking neurons with high efficiency and ability to learn
    long-term dependencies* (NeurIPS 2023), eqs. 8 to 10.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> neuron = MaskedPSN(steps=20, window=4, rngs=nnx.Rngs(0))
    >>> xs = jnp.ones((20, 3), jnp.float32)
    >>> bool((neuron(xs)[:10] == neuron(xs.at[10:].set(9.0))[:10]).all())
    True
    """

    def __init__(
        self, steps: int, window: int, *, strength: float = 1.0, **kwargs: Any
    ):
        super().__init__(steps, **kwargs)
        self.window = _check.positive_int("window", window)
        if not 0 <= strength <= 1:
            raise ValueError(f"`strength` must be from 0 to 1, got {strength!r}")
        self.strength = float(strength)

    def mixing(self) -> Array:
        """Return the weights that mix the steps, ``[T, T]``, zero where masked."""
        weight = self.weight[...]
        age = jnp.arange(self.steps)[:, None] - jnp.arange(self.steps)[None]
        seen = (age >= 0) & (age < self.window)
        return jnp.where(seen, weight, weight * (1 - self.strength))


class SlidingPSNState(NamedTuple):
    """State of `SlidingPSN`.

    Parameters
    ----------
    recent
        The last ``window - 1`` inputs, oldest first,
        ``[*batch, *features, window - 1]``.
    """

    recent: Array


class SlidingPSN(nnx.Module):
    r"""Parallel spiking neuron with the same $k$ weights at every step.

    $$u_t = \sum_{i=0}^{k-1} w_i\, x_{t-i}, \qquad s_t = H(u_t - \theta)$$

    A neuron like any other: causal, for any number of steps, with the last inputs as
    its state, so `spike_core.unroll` runs it with every strategy; `Associative` and
    `Chunked` run all steps as one sum of $k$ shifted inputs.

    Parameters
    ----------
    features
        Number of neurons, or the shape of the block of them.
    window
        Number of steps $k$ that are seen, the present one included.
    surrogate
        The derivative of the spike.
    threshold
        $\theta$ at first; a scalar, learned.
    param_dtype
        Dtype of the parameters, floating.

    Raises
    ------
    ValueError
        If `features` or `window` is not positive.

    References
    ----------
    Fang et al., *Parallel spiking neurons with high efficiency and ability to learn
    long-term dependencies* (NeurIPS 2023), eqs. 11 and 12; the weights start at
    $2^{-i}$, as there.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import unroll
    >>> neuron = SlidingPSN(3, window=4)
    >>> state, spikes = unroll(neuron, jnp.ones((100, 8, 3), jnp.float32))
    >>> spikes.shape, state.recent.shape
    ((100, 8, 3), (8, 3, 3))
    """

    def __init__(
        self,
        features: int | Sequence[int],
        window: int,
        *,
        surrogate: Surrogate = ATan(),  # noqa: B008 -- immutable
        threshold: float = 1.0,
        param_dtype: Any = jnp.float32,
    ):
        sizes = (features,) if isinstance(features, int) else tuple(features)
        self.features = tuple(_check.positive_int("features", n) for n in sizes)
        self.window = _check.positive_int("window", window)
        self.surrogate = surrogate
        # Oldest first, as in the state.
        self.weight = nnx.Param(
            jnp.exp2(-jnp.arange(window - 1, -1, -1, dtype=param_dtype))
        )
        self.threshold = nnx.Param(jnp.asarray(threshold, param_dtype))

    def initial_state(self, batch_shape: Sequence[int] = ()) -> SlidingPSNState:
        """Return the state before the first step: inputs of zero.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        SlidingPSNState
            ``[*batch_shape, *features, window - 1]``.
        """
        shape = (*batch_shape, *self.features, self.window - 1)
        return SlidingPSNState(jnp.zeros(shape, self.weight[...].dtype))

    def __call__(
        self, state: SlidingPSNState, x: Array
    ) -> tuple[SlidingPSNState, Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            Input, ``[*batch, *features]``.

        Returns
        -------
        state, y
            The next state and the spikes, ``[*batch, *features]``.
        """
        state, ys = self.all_steps(state, x[None])
        return state, ys[0]

    def all_steps(
        self, state: SlidingPSNState, xs: Array
    ) -> tuple[SlidingPSNState, Array]:
        """Run over a sequence, all steps at once.

        Parameters
        ----------
        state
            State before the first step.
        xs
            Input, ``[T, *batch, *features]``.

        Returns
        -------
        state, ys
            The state after the last step, and the spikes, ``[T, *batch, *features]``.

        Raises
        ------
        ValueError
            If `xs` does not fit the state.
        """
        xs = _check.inexact("xs", xs)
        if xs.shape[1:] != state.recent.shape[:-1]:
            raise ValueError(
                f"`xs` must have steps of shape {state.recent.shape[:-1]}, as the "
                f"state has, got {xs.shape[1:]}"
            )
        weight = self.weight[...].astype(xs.dtype)
        steps = xs.shape[0]
        before = jnp.moveaxis(state.recent.astype(xs.dtype), -1, 0)
        seen = jnp.concatenate([before, xs])
        # In this order the sum rounds as that of one step does.
        membrane = sum(
            weight[i] * lax.slice_in_dim(seen, i, i + steps) for i in range(self.window)
        )
        recent = jnp.moveaxis(seen[steps:], 0, -1).astype(state.recent.dtype)
        spikes = self.surrogate(membrane - self.threshold[...].astype(xs.dtype))
        return SlidingPSNState(recent), spikes
