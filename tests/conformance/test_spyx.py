"""Neurons of Spyx beside the ones here: spikes one step late, as documented."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

spyx = pytest.importorskip("spyx.nn", reason="Spyx is not installed")
axn = pytest.importorskip("spyx.axn")

from spike_core import FastSigmoid, LeakyIntegrator, Scan, Tanh, unroll  # noqa: E402
from spike_core.compat import from_peer  # noqa: E402
from spike_core.nir import Delay  # noqa: E402

NEURONS = 6
KINDS = {
    "IF": (0.2, 0.3),
    "LIF": (0.5, 0.5),
    "RLIF": (0.5, 0.5),
    "ALIF": (0.6, 0.5),
    "CuBaLIF": (0.3, 0.3),
    "PSU_LIF": (0.4, 0.5),
}


def _peer(kind, **settings):
    return getattr(spyx, kind)((NEURONS,), rngs=nnx.Rngs(0), **settings)


def _run(peer, xs, by_jax):
    def step(state, x):
        y, state = peer(x, state)
        return state, y

    return by_jax(step, peer.initial_state(xs.shape[1]), xs)


@pytest.mark.parametrize("kind", KINDS)
def test_spikes_and_gradients(kind, drive, by_jax, agrees):
    peer, xs = _peer(kind), drive(*KINDS[kind])
    agrees(from_peer(peer, NEURONS), xs, *_run(peer, xs, by_jax))


def test_the_shift_is_one_step(drive, by_jax):
    peer, xs = _peer("LIF"), drive(*KINDS["LIF"])
    layer = from_peer(peer, NEURONS)
    assert isinstance(layer.layers[1], Delay)
    outputs, _ = _run(peer, xs, by_jax)
    early = unroll(layer.layers[0], jnp.asarray(xs), strategy=Scan())[1]
    np.testing.assert_array_equal(early[:-1], outputs[1:])


def test_readout(drive, by_jax, agrees):
    peer, xs = _peer("LI"), drive(0.2, 0.5)
    outputs, gradient = _run(peer, xs, by_jax)
    layer = from_peer(peer, NEURONS)
    assert isinstance(layer, LeakyIntegrator)
    agrees(layer, xs, outputs, gradient, spiking=False)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(axn.superspike(10), FastSigmoid(10.0)), (axn.tanh(3), Tanh(3.0))],
)
def test_surrogates(theirs, ours):
    peer = _peer("PSU_LIF", activation=theirs)
    assert from_peer(peer, NEURONS).surrogate == ours


def test_what_cannot_be_expressed():
    with pytest.raises(ValueError, match="surrogate"):
        from_peer(_peer("LIF", activation=axn.arctan()), NEURONS)
    with pytest.raises(ValueError, match="beta"):
        from_peer(_peer("LIF", beta=1.2), NEURONS)
    with pytest.raises(ValueError, match="features"):
        from_peer(_peer("LIF"), NEURONS + 1)
