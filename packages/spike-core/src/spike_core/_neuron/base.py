"""What the built-in neurons share; a neuron of one's own needs none of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .. import _check
from .._variable import parameter

InputGain = Literal["leak", "unit"]
#: What a neuron works out of its parameters before the first step, by name.
Prepared = dict[str, jax.Array]


def state_dtype(*arrays: jax.Array) -> jnp.dtype:
    """Return the dtype to compute in: that of the widest, at least float32."""
    # Not `jnp.result_type`: with strict promotion it refuses to choose.
    wide = any(a.dtype == jnp.float64 for a in arrays)
    return jnp.dtype(jnp.float64 if wide else jnp.float32)


def broadcast(value: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """Give a parameter the dtype and, unless it is a scalar, the rank of `like`."""
    if value.ndim:
        value = value.reshape((1,) * (like.ndim - value.ndim) + value.shape)
    return value.astype(like.dtype)


def along_time(value: jax.Array) -> jax.Array:
    """Put a time axis before a coefficient that fits the state of one step."""
    return value[None] if value.ndim else value


class Neuron(nnx.Module):
    """Base of the built-in neurons.

    A subclass names its state and parameters, both NamedTuples, and writes `prepare`
    and `advance`, which make `step`, a pure function. A parameter is kept in an
    attribute of the same name, positive ones as their log in ``log_<name>``: no value
    that an optimiser may step to is out of range, and nothing has to be clipped, which
    would stop the gradient.
    """

    State: ClassVar[Any]
    Parameters: ClassVar[Any]

    def __init__(
        self,
        features: int | Sequence[int],
        *,
        dt: float,
        trainable: Collection[str],
        param_dtype: Any,
        positive: dict[str, Any],
        free: dict[str, Any],
    ):
        self.features = _check.shape_of("features", features)
        _check.number("dt", dt, above=0)
        self.dt = float(dt)
        dtype = jnp.dtype(param_dtype)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"`param_dtype` must be a floating dtype, got {dtype}")
        if isinstance(trainable, str):
            raise ValueError(
                f"`trainable` must be a tuple of names, got the string {trainable!r}"
            )
        for name in trainable:
            _check.one_of("trainable", name, (*positive, *free))
        for name, value in positive.items():
            _check.number(name, value, above=0)
            variable = parameter(
                name,
                _log(value, dtype),
                self.features,
                dtype,
                trained=name in trainable,
            )
            setattr(self, f"log_{name}", variable)
        for name, value in free.items():
            _check.number(name, value)
            variable = parameter(
                name, value, self.features, dtype, trained=name in trainable
            )
            setattr(self, name, variable)

    @property
    def parameters(self) -> Any:
        """The parameters as stored: a NamedTuple of arrays, `()` for one not used."""
        return self.Parameters(
            *(
                getattr(self, name)[...] if hasattr(self, name) else ()
                for name in self.Parameters._fields
            )
        )

    def initial_state(self, batch_shape: Sequence[int] = ()) -> Any:
        """Return the state before the first step: everything zero.

        Parameters
        ----------
        batch_shape
            Sizes of the batch axes; empty for a single sample.

        Returns
        -------
        NamedTuple
            Leaves of shape ``[*batch_shape, *features]``.
        """
        shape = (*batch_shape, *self.features)
        dtype = state_dtype(*jax.tree.leaves(self.parameters))
        return self.State(*(jnp.zeros(shape, dtype) for _ in self.State._fields))

    def prepare(self, parameters: Any, like: Any) -> Any:
        """Work out of the parameters what all steps use, once.

        Parameters
        ----------
        parameters
            As `parameters` gives them.
        like
            Array, or its shape and dtype, that the results must broadcast with.

        Returns
        -------
        Any
            A pytree of arrays, scalars or of the rank of `like`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `prepare`")

    def advance(self, prepared: Any, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        """Advance by one step; see `step`.

        Parameters
        ----------
        prepared
            As `prepare` gives it for the dtype of the state.
        state, x
            As for `step`.

        Returns
        -------
        state, y
            As of `step`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `advance`")

    def step(self, parameters: Any, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        """Advance by one step: a pure function, which reads no variable of the module.

        Parameters
        ----------
        parameters
            As `parameters` gives them.
        state
            As `initial_state` gives it.
        x
            Input, ``[*batch, *features]``.

        Returns
        -------
        state, y
            The next state and the output, ``[*batch, *features]`` in the dtype of `x`.
        """
        like = jax.ShapeDtypeStruct(x.shape, state_dtype(state.v, x))
        return self.advance(self.prepare(parameters, like), state, x)

    def __call__(self, state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        """Advance by one step.

        Parameters
        ----------
        state
            As `initial_state` or the step before gives it.
        x
            Input, ``[*batch, *features]``, floating.

        Returns
        -------
        state, y
            The next state, at least float32, and the output, ``[*batch, *features]``
            in the dtype of `x`.

        Raises
        ------
        TypeError
            If `x` is not floating, or `state` is not of this neuron.
        ValueError
            If the shape of `x` does not end in `features`, or differs from that of
            the state.
        """
        self.check_input(state, x)
        return self.step(self.parameters, state, x)

    def check_input(self, state: Any, x: jax.Array) -> None:
        """Refuse a `state` or `x` that does not fit this neuron."""
        self._check_features("x", x, axes=0)
        if not isinstance(state, self.State):
            raise TypeError(
                f"`state` must be a {self.State.__name__}, as `initial_state` gives "
                f"it, got {type(state).__name__}"
            )
        for leaf in jax.tree.leaves(state):
            if jnp.shape(leaf) != x.shape:
                raise ValueError(
                    f"`state` must have the shape {x.shape} of the input of one step, "
                    f"got {jnp.shape(leaf)}; take it from `initial_state(batch_shape)`"
                )

    def check_sequence(self, xs: jax.Array) -> None:
        """Refuse an `xs` that is not ``[T, *batch, *features]`` of this neuron."""
        self._check_features("xs", xs, axes=1)

    def _check_features(self, name, x, *, axes):
        _check.floating(name, x)
        rank = len(self.features)
        if x.ndim < rank + axes or x.shape[x.ndim - rank :] != self.features:
            raise ValueError(
                f"`{name}` must end in the features {self.features} of this "
                f"{type(self).__name__}{' after the time axis' * axes}, "
                f"got shape {x.shape}"
            )


def _log(value, dtype):
    if isinstance(value, jax.Array):
        return jnp.log(value.astype(dtype))
    # In float64, and without compiling anything.
    return np.log(np.asarray(value, np.float64))


def decay_and_gain(
    log_tau: jax.Array,
    like: jax.Array | jax.ShapeDtypeStruct,
    *,
    dt: float,
    input_gain: str,
) -> tuple[jax.Array, jax.Array]:
    r"""Return $\alpha = e^{-dt/\tau}$ and the factor of the input, ready for `like`."""
    rate = dt * jnp.exp(-broadcast(log_tau, like))
    decay = jnp.exp(-rate)
    # 1 - exp(-rate) would lose the digits of a slow leak.
    gain = -jnp.expm1(-rate) if input_gain == "leak" else jnp.ones_like(decay)
    return decay, gain
