"""The settings of a run, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from spike_core import is_neuron

from ._plan import Plan, make_plan
from ._rate import RatePenalty
from ._rule import Rule, describe

# One number an example: `loss(y, target) -> [*batch]`.
Loss = Callable[[jax.Array, Any], jax.Array]


class Engine(NamedTuple):
    """What stays the same from step to step."""

    plan: Plan | None  # None for real-time recurrent learning, which covers any network
    rule: Rule
    loss: Loss
    penalty: RatePenalty | None


def make_engine(
    net: Any, rule: Rule, loss: Loss, penalty: RatePenalty | None
) -> Engine:
    """Check the settings and read the network."""
    if not isinstance(rule, Rule):
        raise TypeError(
            f"`rule` must be a Rule, such as eprop(), got {type(rule).__name__}"
        )
    if not callable(loss):
        raise TypeError(f"`loss` must be callable, got {type(loss).__name__}")
    if penalty is not None and not isinstance(penalty, RatePenalty):
        raise TypeError(
            f"`penalty` must be a RatePenalty, got {type(penalty).__name__}"
        )
    if rule.trace != "rtrl":
        try:
            plan = make_plan(net, rule)
        except ValueError as error:
            raise ValueError(f"{error} (the rule is {describe(rule)})") from error
        return Engine(plan, rule, loss, penalty)
    if not is_neuron(net):
        raise TypeError(
            "`net` must have `initial_state(batch_shape)` and be callable as "
            f"net(state, x), got {type(net).__name__}"
        )
    if penalty is not None:
        raise ValueError("`penalty` is not covered by the rule rtrl()")
    return Engine(None, rule, loss, None)
