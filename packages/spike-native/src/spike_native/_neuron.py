"""The description of a neuron that the kernels understand."""

import math
import operator
from dataclasses import dataclass

# Numbers are those of the enumerations in `spike_native.h`.
_MODELS = {"lif": 0, "leaky_integrator": 1}
_RESETS = {"none": 0, "subtract": 1, "value": 2, "zero": 3}
_SURROGATES = {"fast_sigmoid": 0, "atan": 1}


@dataclass(frozen=True)
class Neuron:
    r"""What a kernel has to know beside the arrays.

    `"lif"` is, for every neuron and step,

    $$u_t = \text{decay} \cdot v_{t-1} + \text{gain} \cdot x_t, \qquad
      s_t = H(u_t - \text{threshold})$$

    with the output $s_t$ and $v_t$ the membrane $u_t$ after the reset;
    `"leaky_integrator"` has the output $v_t = u_t$, and neither spikes nor resets.

    Parameters
    ----------
    model
        `"lif"` or `"leaky_integrator"`.
    reset
        `"subtract"`: $v = u - \text{threshold} \cdot s$. `"value"`:
        $v = (1 - s) u + s\, v_\text{reset}$. `"zero"`: the same at 0. `"none"`:
        $v = u$.
    detach_reset
        No gradient flows through the spike inside the reset.
    refractory
        Whole steps for which a neuron keeps its membrane and ignores its input after a
        spike.
    surrogate
        What stands for the derivative of $H$ at $d = u - \text{threshold}$:
        `"fast_sigmoid"` $(1 + k |d|)^{-2}$, `"atan"`
        $\frac{k}{2} (1 + (\frac{\pi}{2} k d)^2)^{-1}$.
    slope
        The surrogate's $k$, in one over the unit of the threshold. Positive.

    Raises
    ------
    ValueError
        If a name is unknown, `refractory` is negative, or `slope` not positive and
        finite.

    Examples
    --------
    >>> Neuron(reset="value", refractory=2).parameters
    ('decay', 'gain', 'threshold', 'v_reset')
    >>> Neuron(reset="value", refractory=2).states
    ('v', 'rest')
    """

    model: str = "lif"
    reset: str = "subtract"
    detach_reset: bool = False
    refractory: int = 0
    surrogate: str = "fast_sigmoid"
    slope: float = 25.0

    def __post_init__(self) -> None:
        for name, known in (
            ("model", _MODELS),
            ("reset", _RESETS),
            ("surrogate", _SURROGATES),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(repr, known))}, "
                    f"got {value!r}"
                )
        if operator.index(self.refractory) < 0:
            raise ValueError(f"`refractory` must be 0 or more, got {self.refractory}")
        if not (math.isfinite(self.slope) and self.slope > 0):
            raise ValueError(f"`slope` must be positive and finite, got {self.slope!r}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameter rows, in their order."""
        if self.model == "leaky_integrator":
            return ("decay", "gain")
        v_reset = ("v_reset",) if self.reset == "value" else ()
        return ("decay", "gain", "threshold", *v_reset)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the state rows, in their order."""
        if self.model == "lif" and self.refractory:
            return ("v", "rest")  # rest: the steps of rest that are left
        return ("v",)

    def as_attributes(self) -> dict[str, int | float]:
        """Return the fields as the numbers the library takes."""
        return {
            "model": _MODELS[self.model],
            "reset": _RESETS[self.reset],
            "detach_reset": int(self.detach_reset),
            "refractory": int(self.refractory),
            "surrogate": _SURROGATES[self.surrogate],
            "slope": float(self.slope),
        }
