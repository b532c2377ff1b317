"""The description of a neuron that the kernels understand."""

import math
from dataclasses import dataclass

# Numbers are those of the enumerations in `spike_native.h`.
_MODELS = {"lif": 0, "leaky_integrator": 1}
_RESETS = {"none": 0, "subtract": 1, "value": 2}
_SURROGATES = {"fast_sigmoid": 0, "arctan": 1, "triangular": 2}
_PARAMETERS = {
    "lif": ("decay", "gain", "threshold"),
    "leaky_integrator": ("decay", "gain"),
}
_STATES = {"lif": ("v",), "leaky_integrator": ("v",)}


@dataclass(frozen=True)
class Neuron:
    r"""What a kernel has to know beside the arrays.

    `"lif"` is, for every neuron and step,

    $$u_t = \text{decay} \cdot v_{t-1} + \text{gain} \cdot x_t, \qquad
      s_t = H(u_t - \text{threshold})$$

    with the output $s_t$ and $v_t$ the membrane $u_t$ after the reset;
    `"leaky_integrator"` has the output $v_t = u_t$ and neither threshold nor reset.

    Parameters
    ----------
    model
        `"lif"` or `"leaky_integrator"`.
    reset
        `"subtract"`: $v = u - \text{threshold} \cdot s$. `"value"`:
        $v = (1 - s) u + s\, v_\text{reset}$. `"none"`: $v = u$.
    v_reset
        Membrane after a spike for `reset="value"`, in the unit of the threshold.
    detach_reset
        No gradient flows through the spike inside the reset.
    surrogate
        What stands for the derivative of $H$ at $d = u - \text{threshold}$:
        `"fast_sigmoid"` $(1 + k |d|)^{-2}$, `"arctan"`
        $\frac{k}{2} (1 + (\frac{\pi}{2} k d)^2)^{-1}$, `"triangular"`
        $k \max(0, 1 - k |d|)$.
    slope
        The surrogate's $k$, in one over the unit of the threshold. Positive.

    Raises
    ------
    ValueError
        If a name is unknown or a number is not finite, or `slope` not positive.

    Examples
    --------
    >>> Neuron(reset="value", v_reset=-0.2).parameters
    ('decay', 'gain', 'threshold')
    """

    model: str = "lif"
    reset: str = "subtract"
    v_reset: float = 0.0
    detach_reset: bool = False
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
        if not (math.isfinite(self.slope) and self.slope > 0):
            raise ValueError(f"`slope` must be positive and finite, got {self.slope!r}")
        if not math.isfinite(self.v_reset):
            raise ValueError(f"`v_reset` must be finite, got {self.v_reset!r}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameter rows, in their order."""
        return _PARAMETERS[self.model]

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the state rows, in their order."""
        return _STATES[self.model]

    def as_attributes(self) -> dict[str, int | float]:
        """Return the fields as the numbers the library takes."""
        return {
            "model": _MODELS[self.model],
            "reset": _RESETS[self.reset],
            "detach_reset": int(self.detach_reset),
            "surrogate": _SURROGATES[self.surrogate],
            "slope": float(self.slope),
            "v_reset": float(self.v_reset),
        }
