r"""The backward pass of neurons with reset, in parallel over time.

Going forward a reset makes the step nonlinear. Going backward the trajectory is known,
and the cotangent of the state obeys a linear recurrence,

$$\mu_t = J_t^\top \mu_{t+1} + \Big(\frac{\partial y_t}{\partial h_{t-1}}\Big)^\top g_t,
\qquad J_t = \frac{\partial h_t}{\partial h_{t-1}},$$

with $\mu_t$ the cotangent of $h_{t-1}$ and $g_t$ that of the output. A neuron's state
touches no other neuron's, so $J_t$ is one number for each neuron, or a 2x2 block where
the state has two parts, and comes from the step itself by differentiation: the reset,
detached or not, and adaptation are in it.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax
from spike_core import Strategy, run_layers

from ._recurrence import linear_recurrence


@dataclasses.dataclass(frozen=True)
class ParallelBackward(Strategy):
    """Run forward step by step and backward in parallel over time.

    For every built-in neuron, with reset or without: outputs are those of
    `spike_core.Scan` bit for bit, gradients equal to rounding. The state before each
    step is kept. On a CPU the backward pass of the plain scan is faster.

    A neuron of one's own takes part if it has `parameters` and a pure
    ``step(parameters, state, x)`` that treats every element of the state alike and
    apart from the others, with one or two floating leaves in its state.

    Parameters
    ----------
    forward
        What each neuron runs forward with: the scan if None, or another strategy, such
        as `spike_core.Fused()`, with its outputs. It keeps no states, so the backward
        pass begins with a scan for them.

    Raises
    ------
    ValueError
        If `forward` is not a strategy; when it runs a neuron that is not of this kind,
        or that `forward` does not run: the message names it.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from spike_core import LIF, unroll
    >>> def loss(xs):
    ...     _, spikes = unroll(LIF(3), xs, strategy=ParallelBackward())
    ...     return spikes.sum()
    >>> jax.grad(loss)(jnp.ones((100, 8, 3))).shape
    (100, 8, 3)
    """

    forward: Strategy | None = None

    def __post_init__(self) -> None:
        if not (self.forward is None or isinstance(self.forward, Strategy)):
            raise ValueError(
                "`forward` must be a spike_core.Strategy or None, "
                f"got {type(self.forward).__name__}"
            )

    def run(self, net: Any, xs: Array, state: Any) -> tuple[Any, Array]:
        """See `spike_core.Strategy.run`."""
        run_neuron = functools.partial(_run_neuron, self.forward)
        return run_layers(net, xs, state, run_neuron)


def _run_neuron(
    strategy: Strategy | None, name: str, neuron: Any, xs: Array, state: Any
) -> tuple[Any, Array]:
    if not hasattr(neuron, "step") or not hasattr(neuron, "parameters"):
        raise ValueError(
            f"{name}, a {type(neuron).__name__}, has no `parameters` and "
            "`step(parameters, state, x)` to differentiate; run it with "
            "`spike_core.Scan()`"
        )
    leaves, structure = jax.tree.flatten(state)
    floating = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
    if sum(floating) not in (1, 2):
        raise ValueError(
            f"{name}, a {type(neuron).__name__}, has {sum(floating)} floating leaves "
            "in its state; the parallel backward pass takes one or two. Run it with "
            "`spike_core.Scan()`"
        )

    def merge(moving: list, still: list) -> Any:
        first, second = iter(moving), iter(still)
        return structure.unflatten(
            next(first if is_floating else second) for is_floating in floating
        )

    def split(state: Any, wanted: bool) -> list:
        pairs = zip(structure.flatten_up_to(state), floating, strict=True)
        return [leaf for leaf, is_floating in pairs if is_floating == wanted]

    graph: Any = None
    variables: Any = ()
    if strategy is not None:
        graph, variables = nnx.split(neuron)

    def by_strategy(variables, state, xs):
        assert strategy is not None
        try:
            return strategy.run(nnx.merge(graph, variables), xs, state)
        except ValueError as error:
            raise ValueError(f"{name}, a {type(neuron).__name__}: {error}") from error

    def by_scan(parameters, state, xs):
        def step(before, x):
            after, y = neuron.step(parameters, before, x)
            return after, (before, y)

        last, (before, ys) = lax.scan(step, state, xs)
        return before, (last, ys)

    @jax.custom_vjp
    def through_time(parameters, variables, state, xs):
        if strategy is not None:
            return by_strategy(variables, state, xs)
        return lax.scan(lambda s, x: neuron.step(parameters, s, x), state, xs)

    def forward(parameters, variables, state, xs):
        if strategy is not None:
            return by_strategy(variables, state, xs), (parameters, state, xs)
        before, outputs = by_scan(parameters, state, xs)
        return outputs, (parameters, before, xs)

    def backward(kept, cotangents):
        parameters, before, xs = kept
        last, ys = cotangents
        if strategy is not None:
            before, _ = by_scan(parameters, before, xs)

        # All steps at once: time is one more batch axis.
        def step(parameters, moving, xs):
            state, ys = neuron.step(parameters, merge(moving, split(before, False)), xs)
            return split(state, True), ys

        moving = split(before, True)
        (_, ys_like), pull = jax.vjp(step, parameters, moving, xs)
        nothing = [jnp.zeros_like(leaf) for leaf in moving]

        def row(i):
            return pull(
                (
                    [
                        jnp.ones_like(m) if i == j else n
                        for j, (m, n) in enumerate(zip(moving, nothing, strict=True))
                    ],
                    jnp.zeros_like(ys_like),
                )
            )[1]

        rows = [row(i) for i in range(len(moving))]
        inflow = pull((nothing, ys))[1]
        after_last = split(last, True)
        if len(moving) == 1:
            to_before = [
                linear_recurrence(rows[0][0], inflow[0], after_last[0], reverse=True)
            ]
        else:
            transposed = jnp.stack([jnp.stack(r, -1) for r in rows], -1)
            both = linear_recurrence(
                transposed,
                jnp.stack(inflow, -1),
                jnp.stack(after_last, -1),
                reverse=True,
            )
            to_before = [both[..., 0], both[..., 1]]
        to_after = [
            jnp.concatenate([t[1:], end[None]])
            for t, end in zip(to_before, after_last, strict=True)
        ]
        to_parameters, _, to_xs = pull((to_after, ys))
        to_state = merge([t[0] for t in to_before], split(last, False))
        # The variables are the parameters over again.
        return to_parameters, None, to_state, to_xs

    through_time.defvjp(forward, backward)
    run = through_time if xs.shape[0] else through_time.fun
    return run(neuron.parameters, variables, state, xs)
