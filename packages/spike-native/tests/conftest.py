"""A plain float64 twin of the kernels: each model's step, once, on dual numbers.

The twin gives outputs and, along a direction, their derivative. The kernels' reverse
pass is checked by <y_grad, J d> = <J^T y_grad, d>, lane by lane, with no second set of
hand-written derivatives.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import spike_native


@dataclass
class Dual:
    """A value and its derivative along the direction that is followed."""

    value: np.ndarray
    slope: np.ndarray

    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other):
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other):
        return Dual(
            self.value * other.value,
            self.slope * other.value + self.value * other.slope,
        )

    def detached(self):
        return constant(self.value)


def constant(value):
    return Dual(np.asarray(value, np.float64), np.zeros_like(value, np.float64))


def normal(z):
    return np.exp(-(z**2) / 2) / (2 * np.pi) ** 0.5


SURROGATES = {
    "fast_sigmoid": lambda d, k: 1 / (1 + k * np.abs(d)) ** 2,
    "atan": lambda d, k: k / 2 / (1 + (np.pi / 2 * k * d) ** 2),
    "sigmoid": lambda d, k: k / 4 / np.cosh(k * d / 2) ** 2,
    "tanh": lambda d, k: 1 / np.cosh(k * d) ** 2,
    "erf": lambda d, k: k / np.pi**0.5 * np.exp(-((k * d) ** 2)),
    "exponential": lambda d, k: k / 2 * np.exp(-k * np.abs(d)),
    "triangular": lambda d, k: k * np.maximum(0, 1 - k * np.abs(d)),
    "boxcar": lambda d, k: k * (np.abs(k * d) < 0.5),
    "multi_gaussian": lambda d, k, h, w: (
        k
        * (
            (1 + h) * normal(k * d)
            - h / w * (normal((k * d - 1) / w) + normal((k * d + 1) / w))
        )
    ),
    "power_law": lambda d, k, p: (1 + 2 * k / (p - 1) * np.abs(d)) ** -p,
    "logarithmic": lambda d, k: k / (1 + k * np.abs(d)),
    "straight_through": lambda d, k: k + 0 * d,
}


def heaviside(distance, neuron):
    psi = Twin().surrogate(neuron, distance.value)
    return Dual((distance.value > 0).astype(np.float64), psi * distance.slope)


def reset(u, spike, threshold, v_reset, neuron):
    spike = spike.detached() if neuron.detach_reset else spike
    match neuron.reset:
        case "subtract":
            return u - threshold * spike
        case "value":
            one = constant(np.ones_like(u.value))
            return u * (one - spike) + v_reset * spike
        case _:
            return u


def choose(condition, yes, no):
    return Dual(
        np.where(condition, yes.value, no.value),
        np.where(condition, yes.slope, no.slope),
    )


def lif(neuron, state, parameters, x):
    s = dict(zip(neuron.states, state, strict=True))
    p = dict(zip(neuron.parameters, parameters, strict=True))
    if neuron.model == "cuba_lif":
        x = s["i"] = p["synapse_decay"] * s["i"] + p["synapse_gain"] * x
    u = p["decay"] * s["v"] + p["gain"] * x
    threshold = p["threshold"]
    if neuron.model == "alif":
        threshold = threshold + p["beta"] * s["a"]
    spike = heaviside(u - threshold, neuron)
    after = reset(u, spike, threshold, p.get("v_reset"), neuron)
    if neuron.refractory:
        resting = s["rest"].value > 0
        spike = choose(resting, constant(np.zeros_like(x.value)), spike)
        after = choose(resting, s["v"], after)
        left = np.maximum(s["rest"].value - 1, neuron.refractory * spike.value)
        s["rest"] = constant(left)
    if neuron.model == "alif":
        s["a"] = p["adaptation_decay"] * s["a"] + spike
    s["v"] = after
    return tuple(s[name] for name in neuron.states), spike


def leaky_integrator(neuron, state, parameters, x):
    (v,), (decay, gain) = state, parameters
    v = decay * v + gain * x
    return (v,), v


STEPS = {
    "lif": lif,
    "alif": lif,
    "cuba_lif": lif,
    "leaky_integrator": leaky_integrator,
}


class Twin:
    """Runs the plain loop on `xs [T, lanes]`, `parameters [P, features]`."""

    def surrogate(self, neuron, distance):
        return SURROGATES[neuron.surrogate](distance, neuron.slope, *neuron.shape)

    def run(self, neuron, xs, parameters, state, direction=None):
        """Return outputs and last state, as values and as slopes along `direction`."""
        lanes = xs.shape[1]
        arrays = [np.asarray(a, np.float64) for a in (xs, parameters, state)]
        slopes = direction or [np.zeros_like(a) for a in arrays]
        repeats = lanes // parameters.shape[1]
        xs, parameters, state = (
            Dual(a, s) for a, s in zip(arrays, slopes, strict=True)
        )
        rows = [
            Dual(np.tile(v, repeats), np.tile(s, repeats))
            for v, s in zip(parameters.value, parameters.slope, strict=True)
        ]
        now = tuple(Dual(v, s) for v, s in zip(state.value, state.slope, strict=True))
        ys = []
        for x, slope in zip(xs.value, xs.slope, strict=True):
            now, y = STEPS[neuron.model](neuron, now, rows, Dual(x, slope))
            ys.append(y)
        stack = [
            np.stack([getattr(a, kind) for a in part]) if part else np.zeros((0, lanes))
            for kind in ("value", "slope")
            for part in (ys, now)
        ]
        return stack[:2], stack[2:]

    def problem(self, neuron, steps, lanes, features, dtype=np.float64, seed=0):
        """Random input that makes every branch happen: (xs, parameters, state)."""
        rng = np.random.default_rng(seed)
        rows = {
            "decay": rng.uniform(0.5, 0.99, features),
            "gain": rng.uniform(0.2, 1.0, features),
            "threshold": rng.uniform(0.4, 1.0, features),
            "v_reset": rng.uniform(-0.5, 0.2, features),
            "adaptation_decay": rng.uniform(0.8, 0.99, features),
            "beta": rng.uniform(-0.05, 0.3, features),
            "synapse_decay": rng.uniform(0.3, 0.9, features),
            "synapse_gain": rng.uniform(0.2, 1.0, features),
        }
        parameters = np.stack([rows[name] for name in neuron.parameters])
        xs = rng.normal(0.3, 1.0, (steps, lanes))
        state = rng.normal(0, 0.5, (len(neuron.states), lanes))
        if "rest" in neuron.states:
            state[neuron.states.index("rest")] = rng.integers(0, 4, lanes)
        return xs.astype(dtype), parameters.astype(dtype), state.astype(dtype)


@pytest.fixture(scope="session")
def twin():
    return Twin()


def neurons():
    """Return every model in every mode."""
    found = [spike_native.Neuron(model="leaky_integrator")]
    modes = itertools.product(
        ("lif", "alif", "cuba_lif"), ("subtract", "value", "none"), (False, True)
    )
    for k, (model, reset, rests) in enumerate(modes):
        found.append(
            spike_native.Neuron(
                model,
                reset=reset,
                detach_reset=k % 4 == 0,
                refractory=3 if rests else 0,
                slope=4.0,
            )
        )
    return found


def surrogate_neurons():
    """Return one neuron for every surrogate."""
    shapes = {"multi_gaussian": (0.15, 6.0), "power_law": (2.5,)}
    return [
        spike_native.Neuron(surrogate=name, slope=1.7, shape=shapes.get(name, ()))
        for name in SURROGATES
    ]


def pytest_generate_tests(metafunc):
    if "surrogate_neuron" in metafunc.fixturenames:
        metafunc.parametrize(
            "surrogate_neuron", surrogate_neurons(), ids=lambda n: n.surrogate
        )
    if "neuron" in metafunc.fixturenames:
        every = {
            "-".join(
                (
                    n.model,
                    n.reset,
                    n.surrogate,
                    *["detached"] * n.detach_reset,
                    *["refractory"] * bool(n.refractory),
                )
            ): n
            for n in neurons()
        }
        metafunc.parametrize("neuron", every.values(), ids=every.keys())
