"""What the comparisons with other libraries share.

Each runs the other library's neuron and the layer that `from_peer` makes of it on the
same random input, from the initial state, and looks at the spikes and at the gradient
of a random weighted sum of them with respect to the input.

`AlphaLIF` has no counterpart: snnTorch's `Alpha` has no membrane of its own.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import Scan, unroll

STEPS, BATCH, NEURONS = 150, 3, 6
#: Several spikes can only agree by chance if nearly none or nearly all fire.
LEAST_RATE, MOST_RATE = 0.02, 0.9


@pytest.fixture
def drive():
    """Make input current: mean and spread that suit the neuron."""

    def make(mean, spread):
        rng = np.random.default_rng(1)
        return rng.normal(mean, spread, (STEPS, BATCH, NEURONS)).astype(np.float32)

    return make


@pytest.fixture
def by_torch():
    """Run a step function of PyTorch; return outputs and the input's gradient."""

    def run(step, xs):
        import torch

        inputs = torch.tensor(xs, requires_grad=True)
        ys, state = [], None
        for x in inputs:
            y, state = step(x, state)
            ys.append(y)
        ys = torch.stack(ys)
        (ys * torch.tensor(_weights(ys.shape))).sum().backward()
        return ys.detach().numpy(), inputs.grad.numpy()

    return run


@pytest.fixture
def by_jax():
    """Run a step function of JAX; return outputs and the input's gradient."""

    def run(step, state, xs):
        def outputs(xs):
            return jax.lax.scan(lambda state, x: step(state, x), state, xs)[1]

        ys, pull = jax.vjp(outputs, jnp.asarray(xs))
        return np.asarray(ys), np.asarray(pull(jnp.asarray(_weights(ys.shape)))[0])

    return run


@pytest.fixture
def agrees():
    """Compare a layer of ours with what a peer gave."""

    def compare(layer, xs, outputs, gradient, *, spiking=True):
        run = jax.jit(lambda xs: unroll(layer, xs, strategy=Scan())[1])
        ys, pull = jax.vjp(run, jnp.asarray(xs))
        if spiking:
            assert LEAST_RATE < outputs.mean() < MOST_RATE
            np.testing.assert_array_equal(ys, outputs)
        else:
            np.testing.assert_allclose(ys, outputs, rtol=1e-4, atol=1e-5)
        if gradient is None:
            return
        assert np.abs(gradient).max() > 0
        (ours,) = pull(jnp.asarray(_weights(ys.shape)))
        np.testing.assert_allclose(
            ours, gradient, rtol=2e-3, atol=1e-4 * np.abs(gradient).max()
        )

    return compare


@pytest.fixture
def by_decay():
    """Return the gradient with respect to what the membrane keeps in a step."""

    def gradient(layer, xs):
        graph, trained, rest = nnx.split(layer, nnx.Param, ...)
        xs = jnp.asarray(xs)
        weights = jnp.asarray(_weights(xs.shape))

        def weighted(trained):
            layer = nnx.merge(graph, trained, rest)
            return (unroll(layer, xs, strategy=Scan())[1] * weights).sum()

        by_log_tau = jax.grad(weighted)(trained)["log_tau"][...]
        tau = jnp.exp(layer.log_tau[...])
        return float(by_log_tau * tau / jnp.exp(-1 / tau))

    return gradient


def _weights(shape):
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)
