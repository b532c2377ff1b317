"""The exact trace against backpropagation with the gradient stopped at own spikes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import ALIF, LIF, LeakyIntegrator, Recurrent, Sequential
from spike_eprop import value_and_grad

TOLERANCE = {jnp.float32: 1e-5, jnp.float64: 1e-11}
STEPS, BATCH, INPUTS, HIDDEN, OUTPUTS = 25, 3, 5, 6, 2
PARAMETERS = {
    LIF: ("tau", "threshold"),
    ALIF: ("tau", "threshold", "beta", "tau_adaptation"),
}


class Deaf(Recurrent):
    """Hears itself without a gradient: the oracle."""

    def __call__(self, state, x):
        return super().__call__(state._replace(y=jax.lax.stop_gradient(state.y)), x)


def squared(y, target):
    return ((y - target) ** 2).mean(-1)


def network(kind, draw, neuron, dtype, **settings):
    """Random in what the grid does not fix."""
    rngs = nnx.Rngs(0)
    return Sequential(
        nnx.Linear(INPUTS, HIDDEN, rngs=rngs, param_dtype=dtype),
        kind(
            neuron(
                HIDDEN,
                tau=draw.uniform(5, 20, HIDDEN),
                threshold=draw.uniform(0.1, 0.3),
                trainable=PARAMETERS[neuron],
                param_dtype=dtype,
                **settings,
            ),
            nnx.Linear(HIDDEN, HIDDEN, rngs=rngs, param_dtype=dtype),
        ),
        nnx.Linear(HIDDEN, OUTPUTS, rngs=rngs, param_dtype=dtype),
        LeakyIntegrator(
            OUTPUTS, tau=draw.uniform(3, 20), trainable=("tau",), param_dtype=dtype
        ),
    )


def backprop(net, xs, targets):
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def loss(params):
        module = nnx.merge(graphdef, params, rest)
        state = module.initial_state((BATCH,))
        state = jax.tree.map(
            lambda leaf: leaf.astype(xs.dtype) if leaf.dtype.kind == "f" else leaf,
            state,
        )
        _, ys = jax.lax.scan(lambda s, x: module(s, x), state, xs)
        return jax.vmap(squared)(ys, targets).mean()

    return jax.jit(jax.value_and_grad(loss))(params)


def by_rule(net, xs, targets, **settings):
    run = jax.jit(lambda xs, t: value_and_grad(net, xs, t, squared, **settings))
    return run(xs, targets)


def assert_same(found, wanted, tolerance):
    np.testing.assert_allclose(found[0], wanted[0], rtol=tolerance)
    wanted = dict(nnx.to_flat_state(wanted[1]))
    for path, gradient in nnx.to_flat_state(found[1]):
        reference = np.asarray(wanted.pop(path)[...])
        scale = np.abs(reference).max()
        assert scale > 0, f"{path}: a reference of zeros tests nothing"
        error = np.abs(np.asarray(gradient[...]) - reference).max() / scale
        assert error < tolerance, f"{path}: relative error {error:.1e}"
    assert not wanted


def data(draw, dtype):
    xs = draw.normal(0.5, 1, (STEPS, BATCH, INPUTS))
    targets = draw.normal(size=(STEPS, BATCH, OUTPUTS))
    return jnp.asarray(xs, dtype), jnp.asarray(targets, dtype)


@pytest.mark.parametrize(
    ("neuron", "dtype", "settings"),
    [
        (LIF, jnp.float32, {"reset": "subtract"}),
        (LIF, jnp.float64, {"reset": "none"}),
        (ALIF, jnp.float32, {"reset": "zero", "refractory": 2}),
        (ALIF, jnp.float64, {"reset": "subtract"}),
        (ALIF, jnp.float64, {"reset": "value", "v_reset": -0.1, "detach_reset": True}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or value.get("reset"),
)
def test_the_trace_is_backpropagation_but_for_own_spikes(neuron, dtype, settings):
    # Other values in every case, the same ones in every run.
    seed = list(settings["reset"].encode())
    xs, targets = data(np.random.default_rng(seed), dtype)
    oracle, net = (
        network(kind, np.random.default_rng(seed), neuron, dtype, **settings)
        for kind in (Deaf, Recurrent)
    )
    wanted = backprop(oracle, xs, targets)
    assert_same(by_rule(net, xs, targets), wanted, TOLERANCE[dtype])


def test_a_feedback_that_no_trace_covers_is_named():
    net = Sequential(Recurrent(LIF(INPUTS), jnp.tanh))
    xs = jnp.ones((STEPS, BATCH, INPUTS), jnp.float32)
    with pytest.raises(ValueError, match=r"layers\[0\] \(Recurrent\).*`feedback`"):
        value_and_grad(net, xs, xs, squared)
