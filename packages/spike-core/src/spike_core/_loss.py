"""Losses and scores for classification."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from . import _check


def cross_entropy(
    logits: jax.Array, labels: jax.Array, *, label_smoothing: float = 0.0
) -> jax.Array:
    r"""Mean cross-entropy of the softmax of a readout.

    The target puts $1 - \varepsilon$ on the label and spreads the smoothing
    $\varepsilon$ evenly over all classes, the label's included.

    Parameters
    ----------
    logits
        Readout, ``[*batch, classes]``, floating; for example `time_mean` of a network's
        output.
    labels
        Class of each sample, ``[*batch]``, integers in ``[0, classes)``.
    label_smoothing
        $\varepsilon$, in ``[0, 1)``.

    Returns
    -------
    jax.Array
        A scalar, in nats.

    Raises
    ------
    TypeError
        If `logits` is not floating or `labels` are not integers.
    ValueError
        If shapes do not fit, a label is out of range, or `label_smoothing` is.

    References
    ----------
    Szegedy et al., "Rethinking the inception architecture for computer vision",
    CVPR 2016, section 7.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import cross_entropy
    >>> round(float(cross_entropy(jnp.zeros((5, 4)), jnp.zeros(5, int))), 4)  # ln 4
    1.3863
    """
    _check_labels(logits, labels)
    _check.number("label_smoothing", label_smoothing, least=0)
    if label_smoothing >= 1:
        raise ValueError(f"`label_smoothing` must be below 1, got {label_smoothing}")
    targets = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    if label_smoothing:
        targets = optax.smooth_labels(targets, label_smoothing)
    return optax.softmax_cross_entropy(logits, targets).mean()


def accuracy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Share of the samples whose largest readout is that of their class.

    Parameters
    ----------
    logits
        Readout, ``[*batch, classes]``, floating.
    labels
        Class of each sample, ``[*batch]``, integers in ``[0, classes)``.

    Returns
    -------
    jax.Array
        A scalar between 0 and 1.

    Raises
    ------
    TypeError
        If `logits` is not floating or `labels` are not integers.
    ValueError
        If shapes do not fit or a label is out of range.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from spike_core import accuracy
    >>> float(accuracy(jnp.array([[0.1, 0.9], [0.8, 0.2]]), jnp.array([1, 1])))
    0.5
    """
    _check_labels(logits, labels)
    guesses = jnp.argmax(logits, -1)
    labels = jnp.asarray(labels).astype(guesses.dtype)
    return jnp.mean(guesses == labels, dtype=jnp.float32)


def _check_labels(logits, labels):
    _check.floating("logits", logits)
    if not hasattr(labels, "dtype") or not jnp.issubdtype(labels.dtype, jnp.integer):
        seen = getattr(labels, "dtype", type(labels).__name__)
        raise TypeError(f"`labels` must be an array of integers, got {seen}")
    if logits.ndim < 1 or labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"`labels` must have the shape of `logits` without its last axis, "
            f"{logits.shape[:-1]}, got {labels.shape}"
        )
    if labels.size == 0:
        raise ValueError("`labels` must not be empty")
    _check.number("labels", labels, least=0, most=logits.shape[-1] - 1)
