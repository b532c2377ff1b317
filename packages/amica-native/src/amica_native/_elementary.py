"""The kernels' elementary functions, to see how exact and how fast they are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._library import library

# Largest errors in units in the last place, for results that are normal numbers.
ERROR_ULP = {
    ("exp2", "float32"): 2.0,
    ("exp2", "float64"): 2.0,
    ("log2", "float32"): 4.0,
    ("log2", "float64"): 4.0,
}


def exp2(x: ArrayLike) -> NDArray[Any]:
    """Return 2 to the power `x`, within 2 units in the last place.

    Parameters
    ----------
    x
        Array of float32, or of anything that NumPy turns into float64.

    Returns
    -------
    ndarray
        Same shape as `x`. Results below the smallest normal number are 0.

    Raises
    ------
    TypeError
        If `x` is not real.

    Examples
    --------
    >>> import amica_native
    >>> amica_native.exp2([0.0, 10.0, -2000.0]).tolist()
    [1.0, 1024.0, 0.0]
    """
    return _map("exp2", x)


def log2(x: ArrayLike) -> NDArray[Any]:
    """Return the logarithm to base 2, within 4 units in the last place.

    Parameters
    ----------
    x
        Array of float32, or of anything that NumPy turns into float64; at least 0.
        0 counts as half the smallest normal number. The result for negative numbers is
        meaningless.

    Returns
    -------
    ndarray
        Same shape as `x`.

    Raises
    ------
    TypeError
        If `x` is not real.

    Examples
    --------
    >>> import amica_native
    >>> amica_native.log2([0.25, 1.0, 1024.0]).tolist()
    [-2.0, 0.0, 10.0]
    """
    return _map("log2", x)


def _map(function: str, x: ArrayLike) -> NDArray[Any]:
    values = np.asarray(x)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"`x` must be real numbers, got {values.dtype}")
    precision = "float" if values.dtype == np.float32 else "double"
    dtype = np.float32 if precision == "float" else np.float64
    values = np.ascontiguousarray(values, dtype).reshape(values.shape)
    result = np.empty_like(values)
    compiled = getattr(library, f"amica_{function}_{precision}")
    compiled(values.ctypes.data, result.ctypes.data, values.size)
    return result
