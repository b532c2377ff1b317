"""What a rule will take, before anything is run."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from . import _check, _step
from ._engine import Engine, make_engine
from ._fit import fit
from ._layer import merge
from ._local import float_leaves
from ._plan import layer_name, make_plan
from ._rule import Rule, eprop


class MemoryEstimate(NamedTuple):
    """Bytes that a rule keeps, against those of backpropagation through time.

    Parameters
    ----------
    traces
        Of each layer's parameters, by the name of the layer that has them.
    total
        All that goes from step to step: traces, the network's state, feedback weights
        and the sum of the gradient.
    backprop_per_step
        What backpropagation through time keeps of one step: the residuals of its
        derivative that the batch is in.
    crossover
        The number of steps from which `total` is the smaller.
    """

    traces: dict[str, int]
    total: int
    backprop_per_step: int
    crossover: int


def memory_estimate(
    net: Any, x: jax.Array | jax.ShapeDtypeStruct, *, rule: Rule | None = None
) -> MemoryEstimate:
    """Estimate the memory of a rule, without computing anything.

    Parameters
    ----------
    net
        A `spike_core.Sequential`, as for `value_and_grad`.
    x
        Input of a step, ``[*batch, *features]``, or a `jax.ShapeDtypeStruct` like it.
    rule
        The learning rule; `eprop()` if None. For ``"auto"`` it is the exact trace.

    Returns
    -------
    MemoryEstimate

    Raises
    ------
    TypeError, ValueError
        As `value_and_grad` does.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from flax import nnx
    >>> from spike_core import LIF, LeakyIntegrator, Sequential
    >>> from spike_eprop import memory_estimate
    >>> rngs = nnx.Rngs(0)
    >>> net = Sequential(
    ...     nnx.Linear(700, 128, rngs=rngs), LIF(128),
    ...     nnx.Linear(128, 20, rngs=rngs), LeakyIntegrator(20),
    ... )
    >>> x = jax.ShapeDtypeStruct((32, 700), jnp.float32)
    >>> estimate = memory_estimate(net, x)
    >>> estimate.traces["layers[0] (Linear)"] // 2**20  # MiB
    21
    >>> estimate.crossover > 100
    True
    """
    rule = eprop() if rule is None else rule
    x = _check.one_step("x", x)
    _, params, _ = nnx.split(net, nnx.Param, ...)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        x = jax.ShapeDtypeStruct(x.shape, _step.sum_dtype(params))
    x = jax.ShapeDtypeStruct(x.shape, x.dtype)
    engine = make_engine(net, rule, lambda y, target: y, None)
    batch, _ = fit(net, x, None)
    return _estimate(engine, net, x, batch)


def choose(
    engine: Engine,
    net: Any,
    x: jax.ShapeDtypeStruct,
    batch: tuple[int, ...],
    steps: int,
) -> Engine:
    """Take factored traces where exact ones are larger than what backprop keeps."""
    if steps >= _estimate(engine, net, x, batch).crossover:
        return engine
    rule = dataclasses.replace(engine.rule, trace="factored")
    return engine._replace(plan=make_plan(net, rule), rule=rule)


def _estimate(engine, net, x, batch) -> MemoryEstimate:
    carry = jax.eval_shape(
        lambda x: _step.start(engine, net, net.initial_state(batch), x, batch), x
    )
    traces = {}
    if engine.plan is None:
        traces["network"] = _bytes(carry.traces)
    else:
        for block in carry.traces:
            for (_, index, *_), trace in block.items():
                name = layer_name(net, index)
                traces[name] = traces.get(name, 0) + _bytes(trace)
    total, per_step = _bytes(carry), _residuals(net, x, batch)
    return MemoryEstimate(traces, total, per_step, -(-total // max(1, per_step)))


def _residuals(net, x, batch):
    """Return the bytes of one step's residuals that grow with the batch."""
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def residuals(examples):
        state = net.initial_state((examples,))
        like = jnp.zeros((examples, *x.shape[len(batch) :]), x.dtype)

        def step(params, state, x):
            new, y = merge(graphdef, params, rest)(state, x)
            return (float_leaves(new), y), ()

        return jax.vjp(step, params, state, like, has_aux=True)[1]

    # Parameters are residuals too, but there is one of them for all steps.
    one, two = (_bytes(jax.eval_shape(lambda n=n: residuals(n))) for n in (1, 2))
    return (two - one) * math.prod(batch)


def _bytes(tree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
