"""Find out by trial what a neuron's derivatives are like.

A neuron may be anybody's: nothing is declared about it. So its step is differentiated
at random states, inputs and parameters, once, before anything is run.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ._local import add_up, float_leaves, linearise, step_function

# It runs once, so that compiling it well would take longer than running it.
_IN_HASTE = {"xla_backend_optimization_level": 0}


class Probe(NamedTuple):
    """What holds at all states and inputs, as far as a few hundred of them show."""

    features: tuple[int, ...]
    variables: int  # floating state variables of a unit
    # The state's own Jacobian is one constant for all units: one trace serves them all.
    shared: bool
    # State and output are linear in state and input, with constant coefficients ...
    linear: bool
    # ... that are the same for all units.
    linear_shared: bool


# What was found before: a network is read anew by everything that runs it.
_found: dict[Any, Probe] = {}


def probe(neuron: Any, name: str) -> Probe:
    """Differentiate a step at random places, once for the same neuron.

    Raises
    ------
    ValueError
        If the neuron is not covered by a trace; the message begins with `name`.
    """
    key = _identity(neuron)
    if key is None:
        return _probe(neuron, name)
    if key not in _found:
        if len(_found) >= 256:
            _found.clear()
        _found[key] = _probe(neuron, name)
    return _found[key]


def _identity(neuron):
    """Return what a neuron of Flax is made of, None for any other."""
    if not isinstance(neuron, nnx.Module):
        return None
    graphdef, variables = nnx.split(neuron)
    leaves = jax.tree.leaves(variables)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    try:
        values = tuple((a.shape, str(a.dtype), np.asarray(a).tobytes()) for a in leaves)
        hash(graphdef)
    except TypeError:  # random keys, or an attribute that cannot be a key
        return None
    return graphdef, values


def _probe(neuron: Any, name: str) -> Probe:
    shapes = jax.eval_shape(lambda: neuron.initial_state(()))
    floats = float_leaves(shapes)
    if not floats:
        raise ValueError(f"{name}: its state has no floating leaf, so nothing to trace")
    features = floats[0].shape
    if any(leaf.shape != features for leaf in floats):
        raise ValueError(
            f"{name}: all floating leaves of its state must have one shape, that of "
            f"its features, got {[leaf.shape for leaf in floats]}"
        )
    _check_parameters(neuron, features, name)
    draw = np.random.default_rng(0)
    places = max(8, min(256, 4096 // max(1, math.prod(features))))
    state = jax.tree.map(
        lambda leaf: _random(draw, (places, *leaf.shape), leaf.dtype), shapes
    )
    x = _random(draw, (places, *features), floats[0].dtype)
    try:
        derivatives, mixed = _differentiate(neuron, state, x, draw)
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
        raise ValueError(
            f"{name}: its step cannot be differentiated forwards, which a trace "
            "needs; define its surrogate with jax.custom_jvp, not jax.custom_vjp"
        ) from error
    if not all(np.allclose(seen, wanted, 1e-3, 1e-4) for seen, wanted in mixed):
        raise ValueError(
            f"{name}: its units affect each other inside a step, which no "
            "eligibility trace covers"
        )
    own = [*itertools.chain(*derivatives.state_by_state), *derivatives.state_by_input]
    everything = [*own, *derivatives.output_by_state, derivatives.output_by_input]
    linear = all(map(_same_everywhere, everything))
    return Probe(
        features=features,
        variables=len(floats),
        shared=all(map(_one_value, own)),
        linear=linear,
        linear_shared=linear and all(map(_one_value, everything)),
    )


def _check_parameters(neuron, features, name):
    if not isinstance(neuron, nnx.Module):
        return
    for path, variable in nnx.to_flat_state(nnx.state(neuron, nnx.Param)):
        if not _broadcasts(variable.shape, features):
            raise ValueError(
                f"{name}: its parameter {'.'.join(map(str, path))} of shape "
                f"{variable.shape} is not one of single units, of shape {features}, "
                "so no eligibility trace covers it"
            )


def _differentiate(neuron, state, x, draw):
    """Return the derivatives, and pairs that agree if units are independent.

    A pair is a derivative in a random direction: as it is, and as the sum of the
    derivatives of single units.
    """
    graphdef, variables = nnx.split(neuron) if _is_module(neuron) else (None, {})
    # What one value for all units is must follow from the shape of a parameter, not
    # from the values it happens to start with.
    variables = jax.tree.map(lambda value: _jitter(draw, value), variables)
    noise = np.random.default_rng(1)

    def run(variables, state, x):
        twin = neuron if graphdef is None else nnx.merge(graphdef, variables)
        local = linearise(twin, state, x)
        step = step_function(twin, state)
        primals = (step.parameters, step.floats, x)
        tangents = jax.tree.map(
            lambda a: jnp.asarray(noise.uniform(0.5, 1.5, a.shape), a.dtype), primals
        )
        _, (moved, output), _ = jax.jvp(step.function, primals, tangents, has_aux=True)
        by_parameter, by_state, by_input = tangents

        def total(parameter_columns, state_columns, input_column):
            terms = [input_column * by_input]
            terms += [c * t for c, t in zip(state_columns, by_state, strict=True)]
            terms += [
                c * _expand(t, c)
                for c, t in zip(parameter_columns, by_parameter, strict=True)
            ]
            return add_up(terms)

        wanted = [
            total([local.state_by_parameter[path][i] for path in step.paths], row, own)
            for i, (row, own) in enumerate(
                zip(local.state_by_state, local.state_by_input, strict=True)
            )
        ]
        wanted.append(
            total(
                [local.output_by_parameter[path] for path in step.paths],
                local.output_by_state,
                local.output_by_input,
            )
        )
        return local, list(zip([*moved, output], wanted, strict=True))

    # Also where the network's own arrays are being traced.
    with jax.ensure_compile_time_eval():
        return jax.jit(run, compiler_options=_IN_HASTE)(variables, state, x)


def _is_module(neuron) -> bool:
    return isinstance(neuron, nnx.Module)


def _jitter(draw, value):
    dtype = jnp.result_type(value)
    if not jnp.issubdtype(dtype, jnp.floating):
        return value
    noise = draw.uniform(0.5, 1.0, jnp.shape(value))
    if not isinstance(value, jax.core.Tracer):
        noise = noise * np.asarray(value, np.float64)
    return noise.astype(dtype)


def _broadcasts(shape, features) -> bool:
    try:
        return np.broadcast_shapes(shape, features) == tuple(features)
    except ValueError:
        return False


def _expand(value, like):
    return value.reshape((1,) * (like.ndim - value.ndim) + value.shape)


def _random(draw, shape, dtype):
    if jnp.issubdtype(dtype, jnp.floating):
        return draw.uniform(-2, 2, shape).astype(dtype)
    return draw.integers(0, 2, shape).astype(dtype)


def _same_everywhere(values) -> bool:
    values = np.asarray(values)
    return np.allclose(values, values[:1], 1e-5, 1e-6)


def _one_value(values) -> bool:
    values = np.asarray(values)
    return np.allclose(values, values.flat[0], 1e-5, 1e-6)
