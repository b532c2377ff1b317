"""Checks of arguments that several functions share."""

import operator
from typing import Any

import jax.numpy as jnp
from jax import Array


def inexact(name: str, value: Any, scalar: Any = None) -> Array:
    """Return `value` as an array of a floating (or complex) dtype.

    A Python number, which has no dtype of its own, takes the dtype `scalar`.
    """
    if scalar is not None and type(value) in (int, float):
        return jnp.asarray(value, scalar)
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of floats, got {type(value).__name__}"
        ) from error
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        raise ValueError(f"`{name}` must have a floating dtype, got {array.dtype}")
    return array


def same_dtype(name: str, array: Array, other: str, dtype: Any) -> None:
    """Raise unless `array` has `dtype`, the dtype of the argument `other`."""
    if array.dtype != dtype:
        raise ValueError(
            f"`{name}` must have the dtype of `{other}`, {dtype}, got {array.dtype}"
        )


def broadcastable(name: str, shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raise unless `shape` broadcasts to exactly `target`."""
    aligned = target[len(target) - len(shape) :]
    if len(shape) > len(target) or any(
        mine not in (1, theirs) for mine, theirs in zip(shape, aligned, strict=True)
    ):
        raise ValueError(f"`{name}` must broadcast to {target}, got shape {shape}")


def positive_int(name: str, value: Any) -> int:
    """Return `value` as a Python int of at least one."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"`{name}` must be an integer, got {value!r}") from error
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"`{name}` must be an integer of at least 1, got {value!r}")
    return number
