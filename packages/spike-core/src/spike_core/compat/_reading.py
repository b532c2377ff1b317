"""What the readers of all libraries share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flax import nnx

from .._surrogate import Surrogate
from ._surrogate import Derivative, find_surrogate

Reader = Callable[[Any, "Wanted"], Any]
#: By the name of the library, and then of the class.
READERS: dict[str, dict[str, Reader]] = {}


def reads(library: str, *names: str) -> Callable[[Reader], Reader]:
    """Register a reader of these classes."""

    def register(reader: Reader) -> Reader:
        for name in names:
            READERS.setdefault(library, {})[name] = reader
        return reader

    return register


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the caller wants to have beside what the peer's neuron says."""

    features: tuple[int, ...]
    dt: float
    surrogate: Surrogate | None

    def value(self, name: str, value: Any) -> Any:
        """Return a parameter as a number or as one number a neuron."""
        array = numbers(value)
        if array.size == 1:
            return float(array.reshape(()))
        if array.shape != self.features:
            raise ValueError(
                f"`neuron.{name}` has shape {array.shape}, "
                f"which is not that of `features` {self.features}"
            )
        return array

    def tau(self, name: str, decay: Any) -> Any:
        """Return the time constant with which a membrane keeps `decay` a step."""
        decay = self.value(name, decay)
        if not (np.greater(decay, 0).all() and np.less(decay, 1).all()):
            raise ValueError(
                f"`neuron.{name}` keeps {decay} of the membrane in a step, which "
                "no time constant does: it must be between 0 and 1"
            )
        return -self.dt / np.log(decay)

    def find(self, name: str, derivative: Derivative) -> Surrogate:
        """Return the surrogate to use."""
        return self.surrogate or find_surrogate(name, derivative)


def numbers(value: Any) -> np.ndarray:
    """Return a number, an array or a tensor as float64."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, np.float64)


def refuse(neuron: Any, name: str, seen: Any, why: str) -> None:
    """Say that a setting cannot be expressed."""
    raise ValueError(
        f"`neuron` is a {type(neuron).__name__} with `{name}={seen}`, which cannot be "
        f"expressed here: {why}"
    )


def just_below(threshold: Any) -> Any:
    """Return the threshold to exceed for what fires when it reaches `threshold`."""
    below = np.nextafter(np.asarray(threshold, np.float32), np.float32(-math.inf))
    return float(below) if below.ndim == 0 else below


def linear(weight: Any, bias: Any = None, *, factor: float = 1.0) -> Any:
    """Return a layer of PyTorch's weights."""
    # ``[outputs, inputs]`` there, ``[inputs, outputs]`` here
    weights = (numbers(weight).T * factor).astype(np.float32)
    layer: Any = nnx.Linear(
        *weights.shape,
        use_bias=bias is not None,
        kernel_init=nnx.initializers.zeros,
        rngs=nnx.Rngs(0),
    )
    layer.kernel[...] = weights
    if bias is not None:
        layer.bias[...] = numbers(bias).astype(np.float32) * np.float32(factor)
    return layer
