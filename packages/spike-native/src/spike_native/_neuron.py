"""The description of a neuron that the kernels understand."""

import math
import operator
from dataclasses import dataclass

# Numbers are those of the enumerations in `spike_native.h`.
_MODELS = {"lif": 0, "leaky_integrator": 1, "alif": 2, "cuba_lif": 3}
_RESETS = {"none": 0, "subtract": 1, "value": 2}
_SURROGATES = {
    "fast_sigmoid": 0,
    "atan": 1,
    "sigmoid": 2,
    "tanh": 3,
    "erf": 4,
    "exponential": 5,
    "triangular": 6,
    "boxcar": 7,
    "multi_gaussian": 8,
    "power_law": 9,
    "logarithmic": 10,
    "straight_through": 11,
}
_SHAPES = {"multi_gaussian": 2, "power_law": 1}


@dataclass(frozen=True)
class Neuron:
    r"""What a kernel has to know beside the arrays.

    `"lif"` is, for every neuron and step,

    $$u_t = \text{decay} \cdot v_{t-1} + \text{gain} \cdot x_t, \qquad
      s_t = H(u_t - \text{threshold})$$

    with the output $s_t$ and $v_t$ the membrane $u_t$ after the reset. `"alif"` has the
    threshold $\text{threshold} + \beta a_{t-1}$ with $a_t = \rho a_{t-1} + s_t$.
    `"cuba_lif"` has in place of $x_t$ the current
    $i_t = \text{decay}_s i_{t-1} + \text{gain}_s x_t$. `"leaky_integrator"` has the
    output $v_t = u_t$, and neither spikes nor resets.

    Parameters
    ----------
    model
        `"lif"`, `"alif"`, `"cuba_lif"` or `"leaky_integrator"`.
    reset
        `"subtract"`: $v = u$ minus the threshold where it spikes. `"value"`:
        $v = (1 - s) u + s\, v_\text{reset}$. `"none"`: $v = u$.
    detach_reset
        No gradient flows through the spike inside the reset.
    refractory
        Whole steps for which a neuron keeps its membrane and ignores its input after a
        spike.
    surrogate
        What stands for the derivative of $H$ at $d = u - \text{threshold}$, with
        $z = k d$ and $\varphi$ the normal density:

        - `"fast_sigmoid"`: $(1 + |z|)^{-2}$
        - `"atan"`: $\frac{k}{2} (1 + (\frac{\pi}{2} z)^2)^{-1}$
        - `"sigmoid"`: $k\, \sigma(z) (1 - \sigma(z))$
        - `"tanh"`: $1 - \tanh^2 z$
        - `"erf"`: $\frac{k}{\sqrt\pi} e^{-z^2}$
        - `"exponential"`: $\frac{k}{2} e^{-|z|}$
        - `"triangular"`: $k \max(0, 1 - |z|)$
        - `"boxcar"`: $k$ for $|z| < \frac12$
        - `"multi_gaussian"`, shape $(h, w)$: $k\, ((1 + h) \varphi(z) - \frac{h}{w}
          (\varphi(\frac{z - 1}{w}) + \varphi(\frac{z + 1}{w})))$
        - `"power_law"`, shape $(p,)$: $(1 + \frac{2}{p - 1} |z|)^{-p}$
        - `"logarithmic"`: $k / (1 + |z|)$
        - `"straight_through"`: $k$
    slope
        The surrogate's $k$, in one over the unit of the threshold. Positive.
    shape
        The other numbers of a surrogate that has some.

    Raises
    ------
    ValueError
        If a name is unknown, `refractory` is negative, `slope` not positive and
        finite, or `shape` not what the surrogate takes.

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
    shape: tuple[float, ...] = ()

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
        wanted = _SHAPES.get(self.surrogate, 0)
        if len(self.shape) != wanted or not all(map(math.isfinite, self.shape)):
            raise ValueError(
                f"`shape` of {self.surrogate!r} must be {wanted} finite numbers, "
                f"got {self.shape!r}"
            )

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameter rows, in their order."""
        if self.model == "leaky_integrator":
            return ("decay", "gain")
        slow = {
            "alif": ("adaptation_decay", "beta"),
            "cuba_lif": ("synapse_decay", "synapse_gain"),
        }.get(self.model, ())
        v_reset = ("v_reset",) if self.reset == "value" else ()
        return ("decay", "gain", "threshold", *slow, *v_reset)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the state rows, in their order."""
        slow = {"alif": ("a",), "cuba_lif": ("i",)}.get(self.model, ())
        # rest: the steps of rest that are left
        rests = self.refractory and self.model != "leaky_integrator"
        return ("v", *slow, *(("rest",) if rests else ()))

    def as_attributes(self) -> dict[str, int | float]:
        """Return the fields as the numbers the library takes."""
        shape = (*map(float, self.shape), 0.0, 0.0)
        return {
            "model": _MODELS[self.model],
            "reset": _RESETS[self.reset],
            "detach_reset": int(self.detach_reset),
            "refractory": self.refractory,
            "surrogate": _SURROGATES[self.surrogate],
            "slope": float(self.slope),
            "shape_0": shape[0],
            "shape_1": shape[1],
        }
