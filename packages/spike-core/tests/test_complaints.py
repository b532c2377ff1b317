"""What users of other libraries have run into, and do not run into here.

=============================================  ========================================
what they met                                  the test
=============================================  ========================================
"backward through the graph a second time"     `test_one_batch_after_the_other`
resetting one network wipes another            `test_networks_do_not_share_state`
a reset forgets nested neurons                 `test_nested_networks_start_at_rest`
every neuron ever made stays in memory         `test_neurons_are_freed`
checkpoints hold membranes of a batch size     `test_parameters_fit_any_batch_size`
setting the reset changes nothing              `test_the_reset_can_be_changed`
states given in the wrong order                `test_states_are_told_apart`
a reset forgets the recurrent spikes           `test_recurrent_spikes_are_state`
files whose parameters have no shape           `test_scalars_have_a_shape_in_a_file`
a state of another batch is broadcast          `test_a_state_of_another_batch`
truncated backpropagation crashes              `test_gradients_end_where_a_state_is_cut`
a state passed on breaks the gradient          `test_gradients_go_through_a_state`
two passes before one gradient                 `test_two_passes_before_one_gradient`
memory grows during inference                  `test_inference_keeps_nothing`
attention layers that cannot be called         `test_attention_is_a_layer`
a synapse that delays by a step                `test_input_counts_in_its_own_step`
recurrence detaches the reset                  `test_recurrence_leaves_the_reset_alone`
a neuron that was used cannot be copied        `test_a_used_neuron_can_be_copied`
parameters the optimiser does not see          `test_the_optimiser_sees_all_parameters`
a reset value moves neurons that did not fire  `test_silent_neurons_are_not_reset`
clipped time constants stop learning           `test_time_constants_have_no_dead_zone`
strong input kills the gradient                `test_strong_input_leaves_a_gradient`
mapping over samples gives something else      `test_mapping_over_samples`
=============================================  ========================================

Surrogates that overflow, memory that grows with time, wrong gradients of fused
kernels, float16 times, truncated downloads and files that lose nodes have tests beside
what they are about.
"""

import copy
import gc
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import (
    IF,
    LIF,
    CubaLIF,
    Frozen,
    Graph,
    Izhikevich,
    LeakyIntegrator,
    Recurrent,
    Scan,
    Sequential,
    unroll,
)

from .models import MODELS

XS = jnp.asarray(np.random.default_rng(0).normal(1.0, 3.0, (12, 3, 2)), jnp.float32)


def network(**settings):
    neuron = LIF(4, tau=5.0, threshold=0.2, **settings)
    return Sequential(nnx.Linear(2, 4, rngs=nnx.Rngs(0)), Sequential(neuron))


@partial(jax.jit, static_argnums=0)
def _compiled(graph, variables, xs, state):
    return unroll(nnx.merge(graph, variables), xs, state, strategy=Scan())


def run(net, xs, state=None):
    return _compiled(*nnx.split(net), xs, state)


def gradient(net, loss):
    """Return the gradients of `loss(net)` as a dictionary of arrays."""
    graph, trained, rest = nnx.split(net, nnx.Param, ...)
    of = jax.jit(jax.grad(lambda trained: loss(nnx.merge(graph, trained, rest))))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(of(trained))]


def assert_equal(some, others, **tolerance):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


def test_one_batch_after_the_other():
    net = network()
    first, again = (gradient(net, lambda n: run(n, XS)[1].sum()) for _ in range(2))
    assert any(np.abs(leaf).max() > 0 for leaf in first)
    assert_equal(first, again, rtol=0)


def test_networks_do_not_share_state():
    one, other = network(), network()
    state, _ = run(one, XS[:6])
    run(other, XS[:3])
    other.initial_state((3,))
    np.testing.assert_array_equal(run(one, XS[6:], state)[1], run(one, XS)[1][6:])


def test_nested_networks_start_at_rest():
    inner = Graph({"n": LIF(4)}, [("input", "n"), ("n", "output")])
    net = Sequential(network(), inner)
    net(net.initial_state((3,)), XS[0])
    leaves = jax.tree.leaves(net.initial_state((3,)))
    assert len(leaves) == 2
    assert all((leaf == 0).all() for leaf in leaves)


def test_neurons_are_freed():
    neuron = LIF(3)
    neuron(neuron.initial_state(), jnp.ones(3))
    seen = weakref.ref(neuron)
    del neuron
    gc.collect()
    assert seen() is None


def test_parameters_fit_any_batch_size():
    net, fresh = network(trainable=("tau",)), network(trainable=("tau",))
    run(net, XS)
    saved = nnx.state(net)
    shapes = {leaf.shape for leaf in jax.tree.leaves(saved)}
    assert shapes == {(), (2, 4), (4,)}
    nnx.update(fresh, saved)
    one = XS[:, :1]
    np.testing.assert_array_equal(run(fresh, one)[1], run(net, one)[1])


def test_the_reset_can_be_changed():
    changed, wanted = LIF(2, tau=5.0), LIF(2, tau=5.0, reset="zero")
    subtracted = run(changed, XS)[1]
    changed.reset = "zero"
    np.testing.assert_array_equal(run(changed, XS)[1], run(wanted, XS)[1])
    assert (run(changed, XS)[1] != subtracted).any()


def test_states_are_told_apart():
    neuron = CubaLIF(2)
    state = neuron.initial_state()._replace(i=jnp.ones(2))
    assert (state.v.tolist(), state.i.tolist()) == ([0, 0], [1, 1])
    with pytest.raises(TypeError, match="CubaLIFState"):
        neuron((state.i, state.v), jnp.ones(2))


def test_recurrent_spikes_are_state():
    feedback = nnx.Linear(2, 2, use_bias=False, rngs=nnx.Rngs(0))
    feedback.kernel[...] = jnp.full((2, 2), 10.0, jnp.float32)
    net = Recurrent(LIF(2, tau=5.0), feedback)
    # Cut right behind a spike: its feedback belongs to the second part.
    whole = run(net, XS)[1]
    cut = 1 + int(jnp.flatnonzero(whole.any((1, 2)))[0])
    state, _ = run(net, XS[:cut])
    assert state.y.any()
    np.testing.assert_array_equal(run(net, XS[cut:], state)[1], whole[cut:])
    forgetful = state._replace(y=jnp.zeros_like(state.y))
    assert (run(net, XS[cut:], forgetful)[1] != whole[cut:]).any()


def test_scalars_have_a_shape_in_a_file(tmp_path):
    nir = pytest.importorskip("nir", reason="the library nir is not installed")
    from spike_core.nir import to_nir

    nir.write(tmp_path / "net.nir", to_nir(LIF(3, reset="zero"), dt=1.0))
    node = nir.read(tmp_path / "net.nir").nodes["lif"]
    assert {node.tau.shape, node.v_threshold.shape, node.v_reset.shape} == {(3,)}


def test_a_state_of_another_batch():
    state, _ = run(network(), XS)
    with pytest.raises(ValueError, match="`state`"):
        run(network(), XS[:, :1], state)
    with pytest.raises(ValueError, match="`state`"):
        LIF(2)(LIF(2).initial_state((12,)), XS[0])


def _in_two_parts(net, cut):
    state, first = run(net, XS[:5])
    if cut:
        state = jax.lax.stop_gradient(state)
    _, second = run(net, XS[5:], state)
    return (first**2).sum() + (second**2).sum()


def test_gradients_go_through_a_state():
    whole = gradient(network(), lambda net: (run(net, XS)[1] ** 2).sum())
    parts = gradient(network(), lambda net: _in_two_parts(net, cut=False))
    assert_equal(parts, whole, rtol=1e-4, atol=1e-6)


def test_gradients_end_where_a_state_is_cut():
    net = network()
    state, _ = run(net, XS[:5])
    alone = gradient(net, lambda net: (run(net, XS[:5])[1] ** 2).sum())
    rest = gradient(net, lambda net: (run(net, XS[5:], state)[1] ** 2).sum())
    both = gradient(net, lambda net: _in_two_parts(net, cut=True))
    assert_equal(both, map(np.add, alone, rest), rtol=1e-4, atol=1e-6)


def test_two_passes_before_one_gradient():
    net = network()
    one, other = (
        gradient(net, lambda net, xs=xs: run(net, xs)[1].sum()) for xs in (XS, -XS)
    )
    both = gradient(net, lambda net: run(net, XS)[1].sum() + run(net, -XS)[1].sum())
    assert_equal(both, map(np.add, one, other), rtol=1e-4, atol=1e-6)


def test_inference_keeps_nothing():
    net = network()
    step = jax.jit(lambda state, x: net(state, x))
    state, counts = net.initial_state((3,)), []
    for _ in range(6):
        state, _ = step(state, XS[0])
        counts.append(len(jax.live_arrays()))
    assert counts[-1] == counts[1]


def test_attention_is_a_layer():
    attention = nnx.MultiHeadAttention(
        num_heads=1, in_features=2, decode=False, rngs=nnx.Rngs(0)
    )
    net = Sequential(attention, LIF((3, 2), tau=5.0))
    # Time, batch, tokens, features.
    _, spikes = run(net, jnp.stack([XS, XS], axis=1))
    assert spikes.shape == (12, 2, 3, 2)
    np.testing.assert_array_equal(spikes[:, 0], spikes[:, 1])


# The alpha function is zero at zero, and says so.
PROMPT = [name for name in MODELS if name not in ("AlphaLIF", "ResonateAndFire")]


@pytest.mark.parametrize("name", PROMPT)
def test_input_counts_in_its_own_step(name):
    neuron = MODELS[name](1)
    _, y = neuron(neuron.initial_state(), jnp.full(1, 1e5))
    assert y[0] > 0


def test_recurrence_leaves_the_reset_alone():
    weights = jnp.arange(12.0, dtype=jnp.float32)[:, None, None]

    def by_input(layer):
        return jax.jit(jax.grad(lambda xs: (run(layer, xs)[1] * weights).sum()))(XS)

    silent = nnx.Linear(2, 2, use_bias=False, rngs=nnx.Rngs(0))
    silent.kernel[...] = jnp.zeros((2, 2), jnp.float32)
    alone, detached = (LIF(2, tau=5.0, detach_reset=d) for d in (False, True))
    np.testing.assert_allclose(
        by_input(Recurrent(alone, silent)), by_input(alone), rtol=1e-4, atol=1e-6
    )
    assert np.abs(by_input(alone) - by_input(detached)).max() > 1e-3


def test_a_used_neuron_can_be_copied():
    neuron = LIF(2, tau=5.0, trainable=("tau",))
    spikes = run(neuron, XS)[1]
    twin = copy.deepcopy(neuron)
    neuron.log_tau[...] = neuron.log_tau[...] + 1
    np.testing.assert_array_equal(run(twin, XS)[1], spikes)


def test_the_optimiser_sees_all_parameters():
    inner = Recurrent(
        LIF(2, trainable=("tau", "threshold")), nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    )
    net = Graph({"a": Sequential(inner)}, [("input", "a"), ("a", "output")])
    names = {path[-1] for path, _ in nnx.to_flat_state(nnx.state(net, nnx.Param))}
    assert names == {"log_tau", "threshold", "kernel", "bias"}
    assert not jax.tree.leaves(nnx.state(net, Frozen))


def test_silent_neurons_are_not_reset():
    neuron = IF(2, reset="value", v_reset=-0.5)
    state, spikes = neuron(neuron.initial_state(), jnp.array([0.25, 2.0]))
    assert (spikes.tolist(), state.v.tolist()) == ([0, 1], [0.25, -0.5])


@pytest.mark.parametrize("tau", [0.05, 1.0, 1e4])
def test_time_constants_have_no_dead_zone(tau):
    neuron = LeakyIntegrator(2, tau=tau, trainable=("tau",))
    (by_log_tau,) = gradient(neuron, lambda n: (run(n, XS)[1] ** 2).sum())
    assert np.isfinite(by_log_tau)
    assert by_log_tau != 0


@pytest.mark.parametrize("drive", [50.0, 500.0])
def test_strong_input_leaves_a_gradient(drive):
    xs = jnp.full((20, 1), drive)
    by_input = jax.jit(jax.grad(lambda xs: run(Izhikevich(1), xs)[1].sum()))(xs)
    assert np.isfinite(by_input).all()
    assert np.abs(by_input).max() > 0


def test_mapping_over_samples():
    net = network()
    each = jax.jit(jax.vmap(lambda xs: run(net, xs)[1], in_axes=1, out_axes=1))(XS)
    np.testing.assert_allclose(each, run(net, XS)[1], rtol=1e-5, atol=1e-6)
