"""Checks of arguments; every message names the argument, the wish and what was seen."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array


def check_integer(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {value!r}")
    if value < minimum:
        raise ValueError(f"`{name}` must be at least {minimum}, got {value}")
    return int(value)


def check_number(
    name: str,
    value: Any,
    low: float = 0.0,
    high: float = float("inf"),
    *,
    closed: bool = False,
) -> float:
    """Return `value` as a float in `(low, high)`, borders included if `closed`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, got {value!r}")
    number = float(value)
    inside = low <= number <= high if closed else low < number < high
    if not inside:
        brackets = "[]" if closed else "()"
        raise ValueError(
            f"`{name}` must lie in {brackets[0]}{low}, {high}{brackets[1]}, got {value}"
        )
    return number


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value`, which must be one of `choices`."""
    if value not in choices:
        wanted = ", ".join(repr(c) for c in choices)
        raise ValueError(f"`{name}` must be one of {wanted}, got {value!r}")
    return value


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise if `value` is not an instance of `kind`."""
    if not isinstance(value, kind):
        raise TypeError(
            f"`{name}` must be an instance of {kind.__name__}, got {value!r}"
        )


def check_samples(X: ArrayLike) -> NDArray:
    """Return `X` as a real float array of samples by channels, copied only if need be.

    Raises
    ------
    ValueError
        If `X` is not two-dimensional, or has no more samples than channels.
    """
    data = check_array(
        X,
        dtype=[np.float64, np.float32],
        # Checked block by block, with the place. Old stubs do not know the argument.
        ensure_all_finite=False,  # pyrefly: ignore[unexpected-keyword]
        ensure_min_samples=2,
        estimator="AMICA",
        input_name="X",
        allow_nd=True,
    )
    if data.ndim != 2:
        raise ValueError(
            f"`X` must be (samples, channels), got {data.ndim} dimensions of sizes "
            f"{data.shape}; join epochs along time first, for MNE's as "
            "`epochs.transpose(0, 2, 1).reshape(-1, n_channels)`"
        )
    n_samples, n_channels = data.shape
    if n_samples <= n_channels:
        raise ValueError(
            f"`X` must have more samples (rows) than channels (columns), got "
            f"{n_samples} x {n_channels}; pass `X.T` if it is (channels, samples)"
        )
    return data


def check_matrix(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as a finite float64 matrix that is not empty."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(
            f"`{name}` must be a matrix with entries, got shape {matrix.shape}"
        )
    if not (np.issubdtype(matrix.dtype, np.number) or matrix.dtype == bool):
        raise TypeError(f"`{name}` must hold numbers, got {matrix.dtype}")
    if np.iscomplexobj(matrix):
        raise TypeError(f"`{name}` must be real, got {matrix.dtype}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"`{name}` must be finite, got NaN or infinity")
    return matrix.astype(np.float64)
