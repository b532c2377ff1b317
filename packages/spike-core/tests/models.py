"""The built-in neurons and what a test has to know of each: a new one is one line."""

from typing import Any, NamedTuple

from spike_core import (
    ALIF,
    EIF,
    IF,
    LIF,
    QIF,
    AdEx,
    AlphaLIF,
    CubaLIF,
    Izhikevich,
    LeakyIntegrator,
    ResonateAndFire,
)


class Model(NamedTuple):
    """A neuron's class, its settings, and input and parameters that make it fire."""

    kind: Any
    settings: dict[str, Any] = {}  # noqa: RUF012
    low: float = -0.5
    high: float = 3.5
    parameter: str = "tau"
    values: tuple[float, float, float] = (5.0, 8.0, 20.0)

    def __call__(self, features, **more):
        return self.kind(features, **{**self.settings, **more})


MODELS = {
    "LIF": Model(LIF),
    "LIF zero": Model(LIF, {"reset": "zero"}),
    "LIF value": Model(LIF, {"reset": "value", "v_reset": -0.25}),
    "LIF none": Model(LIF, {"reset": "none"}),
    "LIF refractory": Model(LIF, {"refractory": 3}),
    "LeakyIntegrator": Model(LeakyIntegrator),
    "IF": Model(IF, {}, -0.2, 0.8, "threshold", (0.5, 1.0, 2.0)),
    "ALIF": Model(ALIF),
    "CubaLIF": Model(CubaLIF, {}, -0.5, 6.0),
    "AlphaLIF": Model(AlphaLIF, {"reset": "zero"}, -0.5, 6.0),
    "EIF": Model(EIF),
    "QIF": Model(QIF, {}, -0.5, 4.0),
    "AdEx": Model(AdEx, {}, 500.0, 3000.0, "conductance", (10.0, 30.0, 40.0)),
    "Izhikevich": Model(Izhikevich, {}, 0.0, 40.0, "a", (0.02, 0.05, 0.1)),
    "ResonateAndFire": Model(
        ResonateAndFire,
        {"input_gain": "unit"},
        -0.8,
        0.8,
        "frequency",
        (10.0, 20.0, 50.0),
    ),
}
