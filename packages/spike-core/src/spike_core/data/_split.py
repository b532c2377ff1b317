"""Which samples train, and which are held out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _check


def train_validation_split(
    labels: ArrayLike, *, fraction: float = 0.1, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of every class, at random.

    The protocol of published results: choose the epoch on a tenth of the training set,
    and report the test set once.

    Parameters
    ----------
    labels
        Class of each sample, ``[n]``, integers.
    fraction
        Part of each class to hold out, between 0 and 1; the number is rounded, and is
        at least one and not all of a class.
    seed
        Seed of the choice, at least 0.

    Returns
    -------
    tuple[np.ndarray, np.ndarray]
        Indices of the training and of the validation samples, each in order.

    Raises
    ------
    TypeError
        If labels are not integers.
    ValueError
        If `fraction` is not between 0 and 1, or a class has fewer than two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from spike_core.data import train_validation_split
    >>> labels = np.repeat([0, 1], 10)
    >>> train, validation = train_validation_split(labels, fraction=0.2, seed=0)
    >>> train.size, labels[validation].tolist()
    (16, [0, 0, 1, 1])
    """
    labels = _integers("labels", labels)
    _check.number("fraction", fraction, above=0)
    if np.ndim(fraction) != 0 or not fraction < 1:
        raise ValueError(f"`fraction` must be a number less than 1, got {fraction}")
    rng = np.random.default_rng(_check.whole("seed", seed, least=0))
    held_out = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if members.size < 2:
            raise ValueError(
                f"`labels` must have each class twice, got one sample of class {label}"
            )
        size = min(max(round(fraction * members.size), 1), members.size - 1)
        held_out.append(rng.choice(members, size, replace=False))
    validation = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(labels.size), validation), validation


def split_by_group(
    groups: ArrayLike, held_out: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out whole groups, such as speakers.

    Parameters
    ----------
    groups
        Group of each sample, ``[n]``, integers.
    held_out
        The group, or the groups, to hold out.

    Returns
    -------
    tuple[np.ndarray, np.ndarray]
        Indices of the samples of the other groups and of the held-out ones, in order.

    Raises
    ------
    TypeError
        If groups are not integers.
    ValueError
        If a group to hold out is not there, or no other is left.

    Examples
    --------
    >>> from spike_core.data import split_by_group
    >>> train, test = split_by_group([0, 2, 1, 2], held_out=2)
    >>> train.tolist(), test.tolist()
    ([0, 2], [1, 3])
    """
    groups = _integers("groups", groups)
    chosen = _integers("held_out", np.atleast_1d(held_out))
    missing = np.setdiff1d(chosen, groups)
    if missing.size:
        raise ValueError(
            f"`held_out` must be among {np.unique(groups).tolist()}, "
            f"got {missing.tolist()}"
        )
    out = np.isin(groups, chosen)
    if out.all():
        raise ValueError("`held_out` must leave a group to train on, got all of them")
    return np.flatnonzero(~out), np.flatnonzero(out)


def _integers(name: str, values: Any) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"`{name}` must be one row, at least one long, got shape {values.shape}"
        )
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"`{name}` must be integers, got {values.dtype}")
    return values
