"""Neurons of jaxpike beside the ones here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

jaxpike = pytest.importorskip("jaxpike", reason="jaxpike is not installed")

import spike_core  # noqa: E402
from spike_core import Scan, unroll  # noqa: E402
from spike_core.compat import from_peer  # noqa: E402

NEURONS = 6
SPIKING = {
    "LIF": lambda: jaxpike.LIF(20.0),
    "LIF, zero": lambda: jaxpike.LIF(20.0, reset="zero"),
    "LIF, one tau a neuron": lambda: jaxpike.LIF(jnp.linspace(5.0, 40.0, NEURONS)),
    "LIF, short steps": lambda: jaxpike.LIF(10.0, dt=0.5),
    "no reset": lambda: jaxpike.LinearLIF(20.0),
    "ALIF": lambda: jaxpike.ALIF(20.0, 100.0, beta=0.5),
    "ALIF, zero": lambda: jaxpike.ALIF(20.0, 100.0, beta=0.5, reset="zero"),
}


@pytest.mark.parametrize("name", SPIKING)
def test_spikes_and_gradients(name, drive, by_jax, agrees):
    peer, xs = SPIKING[name](), drive(1.5, 4.0)
    agrees(
        from_peer(peer, NEURONS), xs, *by_jax(peer, peer.init_state(xs[0].shape), xs)
    )


def test_readout(drive, by_jax, agrees):
    peer, xs = jaxpike.LeakyIntegrator(20.0), drive(1.0, 2.0)
    outputs, gradient = by_jax(peer, peer.init_state(xs[0].shape), xs)
    agrees(from_peer(peer, NEURONS), xs, outputs, gradient, spiking=False)


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_the_gradient_of_the_time_constant(reset, drive):
    peer = jaxpike.LIF(jnp.full(NEURONS, 15.0), reset=reset)
    xs = jnp.asarray(drive(1.5, 4.0))
    weights = jnp.asarray(np.random.default_rng(3).normal(size=xs.shape), jnp.float32)

    def theirs(peer):
        _, ys = jax.lax.scan(lambda s, x: peer(s, x), peer.init_state(xs[0].shape), xs)
        return (ys * weights).sum()

    graph, trained, rest = nnx.split(from_peer(peer, NEURONS), nnx.Param, ...)

    def ours(trained):
        return (
            unroll(nnx.merge(graph, trained, rest), xs, strategy=Scan())[1] * weights
        ).sum()

    np.testing.assert_allclose(
        jax.grad(ours)(trained)["log_tau"][...],
        jax.grad(theirs)(peer).log_tau,
        rtol=2e-3,
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (lambda: jaxpike.FastSigmoid(slope=25.0), spike_core.FastSigmoid(25.0)),
        (lambda: jaxpike.ATan(alpha=2.0), spike_core.ATan(2.0)),
        (lambda: jaxpike.Triangular(width=0.5), spike_core.Triangular(2.0)),
        (lambda: jaxpike.Boxcar(width=0.5), spike_core.Boxcar(2.0)),
    ],
)
def test_surrogates(theirs, ours):
    assert from_peer(jaxpike.LIF(surrogate=theirs()), 2).surrogate == ours


def test_the_first_spike_of_an_izhikevich_neuron(drive):
    # From there on the libraries differ: what the recovery hears of the spike's peak.
    peer = jaxpike.Izhikevich.preset("chattering", substeps=2)
    xs = jnp.asarray(drive(6.0, 6.0))
    settings = spike_core.IZHIKEVICH_PRESETS["chattering"]
    start = peer.init_state(xs[0].shape)
    theirs = jax.lax.scan(lambda state, x: peer(state, x), start, xs)[1]
    neuron = spike_core.Izhikevich(NEURONS, **settings)
    state = neuron.initial_state(xs.shape[1:2])._replace(v=start.v, u=start.u)
    ours = unroll(neuron, xs, state, strategy=Scan())[1]
    assert theirs.any(axis=0).all()
    np.testing.assert_array_equal(theirs.argmax(axis=0), ours.argmax(axis=0))


def test_what_cannot_be_expressed():
    with pytest.raises(ValueError, match="Izhikevich"):
        from_peer(jaxpike.Izhikevich(), 2)
