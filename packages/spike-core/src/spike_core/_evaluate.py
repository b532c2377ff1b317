"""Scores of a network over a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from flax import nnx

from ._strategy import Strategy
from ._training import as_floats, scalar
from ._unroll import unroll

#: Batches ``(xs, *targets)``, or a function from the number of an epoch to them.
Data = Iterable[Any] | Callable[[int], Iterable[Any]]
Metric = Callable[..., jax.Array]


def evaluate(
    net: nnx.Module,
    data: Iterable[Any],
    metrics: Mapping[str, Metric],
    *,
    strategy: Strategy | Literal["auto"] = "auto",
    time_axis: int = 0,
) -> dict[str, float]:
    """Average scores over a data set, each sample counted once.

    Leaves the network in evaluation mode, as ``net.eval()`` does: without dropout, and
    with the running statistics of norms.

    Parameters
    ----------
    net
        A network, as for `unroll`.
    data
        Batches ``(xs, *targets)``, such as `spike_core.data.batches` gives; the axis of
        `xs` after time, or before it with ``time_axis=1``, runs over samples.
    metrics
        Functions by name, called as ``metric(ys, *targets)`` with the output of each
        step. Each returns a scalar, a mean over the samples of the batch. Defined
        once: what is new is compiled anew.
    strategy
        How to run, as for `unroll`.
    time_axis
        Where time is in `xs`, and in what metrics are given, as for `unroll`.

    Returns
    -------
    dict of str to float
        The mean of each metric over all samples.

    Raises
    ------
    TypeError
        If an argument is not what it should be.
    ValueError
        If there is no batch, or a metric does not return a scalar.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LeakyIntegrator, Sequential, accuracy
    >>> from spike_core import evaluate, time_mean
    >>> net = Sequential(nnx.Linear(4, 3, rngs=nnx.Rngs(0)), LeakyIntegrator(3))
    >>> def score(ys, labels):
    ...     return accuracy(time_mean(ys), labels)
    >>> batch = jnp.ones((20, 6, 4), jnp.float32), jnp.array([0, 1, 2, 0, 1, 2])
    >>> evaluate(net, [batch], {"accuracy": score})
    {'accuracy': 0.3333333432674408}
    """
    check_net(net)
    named = check_metrics(metrics)
    if not named:
        raise ValueError("`metrics` must not be empty")
    net.eval()
    totals, samples = dict.fromkeys(metrics, 0.0), 0
    for xs, targets in batches_of("data", data, 0):
        scores = _scores(
            net, xs, *targets, metrics=named, strategy=strategy, time_axis=time_axis
        )
        n = n_samples(xs, time_axis)
        samples += n
        for name, value in scores.items():
            totals[name] += n * float(value)
    return {name: total / samples for name, total in totals.items()}


@partial(nnx.jit, static_argnames=("metrics", "strategy", "time_axis"))
def _scores(net, xs, *targets, metrics, strategy, time_axis):
    ys = unroll(net, as_floats(xs), strategy=strategy, time_axis=time_axis)[1]
    return {
        name: scalar(f"metrics[{name!r}]", metric(ys, *targets))
        for name, metric in metrics
    }


def check_net(net: Any) -> None:
    """Refuse what has no variables to look after."""
    if not isinstance(net, nnx.Module):
        raise TypeError(f"`net` must be an nnx.Module, got {type(net).__name__}")


def check_metrics(metrics: Any) -> tuple[tuple[str, Metric], ...]:
    """Return metrics in a form that can be a static argument."""
    if not isinstance(metrics, Mapping) or not all(map(callable, metrics.values())):
        raise TypeError(
            "`metrics` must be a mapping from names to functions, such as "
            f'{{"accuracy": score}}, got {metrics!r}'
        )
    return tuple(metrics.items())


def batches_of(name: str, data: Data, epoch: int) -> Iterator[tuple[Any, tuple]]:
    """Go through the batches of an epoch, as pairs ``(xs, targets)``."""
    batches = data(epoch) if callable(data) else data
    if not isinstance(batches, Iterable):
        raise TypeError(
            f"`{name}` must be an iterable of batches (xs, *targets), or a function of "
            f"the epoch that returns one, got {type(batches).__name__}"
        )
    empty = True
    for batch in batches:
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            seen = f"{len(batch)} entries" if isinstance(batch, tuple | list) else ""
            raise TypeError(
                f"a batch of `{name}` must be a tuple (xs, *targets), "
                f"got {seen or type(batch).__name__}"
            )
        xs, *targets = batch
        if not hasattr(xs, "shape") or len(xs.shape) == 0:
            raise TypeError(
                f"`xs` in a batch of `{name}` must be an array [T, batch, *features], "
                f"got {getattr(xs, 'shape', type(xs).__name__)}"
            )
        empty = False
        yield xs, tuple(targets)
    if empty:
        hint = (
            "; an iterator can be gone through only once: give a function of the epoch"
            if isinstance(batches, Iterator)
            else ""
        )
        raise ValueError(f"`{name}` must have at least one batch, got none{hint}")


def n_samples(xs: Any, time_axis: int) -> int:
    """Return the number of sequences in a batch."""
    shape = np.shape(xs)
    if len(shape) < 3:
        return 1  # [T, features]
    return shape[1 if time_axis % len(shape) == 0 else 0]
