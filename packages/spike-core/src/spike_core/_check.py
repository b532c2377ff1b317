"""Checks at the border, so that messages look alike everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """Return an int or a sequence of ints as a shape of positive sizes."""
    sizes = (value,) if isinstance(value, int | np.integer) else value
    if (
        isinstance(sizes, str)
        or not isinstance(sizes, Sequence)
        or not all(isinstance(n, int | np.integer) and n > 0 for n in sizes)
    ):
        raise ValueError(
            f"`{name}` must be a positive integer or a tuple of them, got {value!r}"
        )
    return tuple(int(n) for n in sizes)


def one_of(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Refuse a value that is not among the choices."""
    choices = tuple(choices)
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}"
        )


def whole(name: str, value: Any, *, least: int) -> int:
    """Return an integer that is at least `least`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ValueError(f"`{name}` must be an integer >= {least}, got {value!r}")
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse what is not finite or out of range.

    Traced arrays pass: their values are not known while a program is built.
    """
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct):
        return
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must be a number or an array, got {value!r}"
        ) from None
    wanted = "finite"
    good = np.isfinite(values)
    if above is not None:
        wanted += f" and greater than {above:g}"
        good &= values > above
    if least is not None:
        wanted += f" and at least {least:g}"
        good &= values >= least
    if most is not None:
        wanted += f" and at most {most:g}"
        good &= values <= most
    if not good.all():
        seen = values[~good].flat[0]
        raise ValueError(f"`{name}` must be {wanted}, got {seen}")


def floating(name: str, value: Any) -> None:
    """Refuse arrays that are not of a real floating dtype."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise TypeError(f"`{name}` must be an array, got {type(value).__name__}")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(
            f"`{name}` must have a real floating dtype, got {value.dtype}; "
            "convert it, for example with .astype(jnp.float32)"
        )
