"""Rules against their papers' equations, in NumPy, and against each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, LeakyIntegrator, Recurrent, Sequential
from spike_eprop import (
    Learner,
    Rule,
    decolle,
    eprop,
    es_d_rtrl,
    memory_estimate,
    ostl,
    ottt,
    rtrl,
    sltt,
    value_and_grad,
)

DT = jnp.float64
STEPS, BATCH, INPUTS, HIDDEN, OUTPUTS = 25, 3, 5, 6, 2
DECAY = 0.9
TAU = -1 / np.log(DECAY)
THRESHOLD = 0.3
draw = np.random.default_rng(0)
SPIKES = (draw.random((STEPS, BATCH, INPUTS)) < 0.4).astype(np.float64)
TARGETS = draw.normal(size=(STEPS, BATCH, OUTPUTS))


def squared(y, target):
    return 0.5 * ((y - target) ** 2).sum(-1)


@functools.cache
def network(leaky=False, detach_reset=False):
    """One hidden layer under a readout with or without memory."""
    rngs = nnx.Rngs(0)
    layers = [
        nnx.Linear(INPUTS, HIDDEN, rngs=rngs, param_dtype=DT),
        LIF(
            HIDDEN, tau=TAU, threshold=THRESHOLD, input_gain="unit", param_dtype=DT,
            detach_reset=detach_reset,
        ),
        nnx.Linear(HIDDEN, OUTPUTS, rngs=rngs, param_dtype=DT),
    ]  # fmt: skip
    # Small enough for the pseudo-derivatives not to vanish.
    layers[0].kernel[...] = 0.5 * layers[0].kernel[...]
    if leaky:
        layers += [
            LeakyIntegrator(OUTPUTS, tau=5.0, trainable=("tau",), param_dtype=DT)
        ]
    return Sequential(*layers)


def compiled(net, rule):
    return jax.jit(lambda xs, t: value_and_grad(net, xs, t, squared, rule=rule))


@functools.cache
def gradients(net, rule):
    _, found = compiled(net, rule)(SPIKES, TARGETS)
    return jax.tree.map(np.asarray, nnx.to_pure_dict(found)["layers"])


def assert_close(found, wanted, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-12),
        found,
        wanted,
    )


def trajectory(net):
    """Run the network in NumPy; yield what the papers' equations are made of."""
    w, b = (np.asarray(p[...]) for p in (net.layers[0].kernel, net.layers[0].bias))
    w_out = np.asarray(net.layers[2].kernel[...])
    b_out = np.asarray(net.layers[2].bias[...])
    v = np.zeros((BATCH, HIDDEN))
    for x, target in zip(SPIKES, TARGETS, strict=True):
        u = DECAY * v + x @ w + b
        # ATan with slope 2.
        psi = 1 / (1 + (np.pi * (u - THRESHOLD)) ** 2)
        z = (u > THRESHOLD).astype(float)
        v = u - THRESHOLD * z
        yield x, z, psi, z @ w_out + b_out - target, w_out


def test_ottt_is_its_equation():
    net = network()
    wanted, trace = 0, np.zeros((BATCH, INPUTS))
    for x, _, psi, error, w_out in trajectory(net):
        trace = DECAY * trace + x
        wanted += trace.T @ (error @ w_out.T * psi)
    found = gradients(net, ottt())[0]["kernel"]
    np.testing.assert_allclose(found, wanted / (STEPS * BATCH), rtol=1e-10)


def test_sltt_is_its_equation():
    net = network()
    wanted = sum(x.T @ (e @ w.T * psi) for x, _, psi, e, w in trajectory(net))
    found = gradients(net, sltt())[0]["kernel"]
    np.testing.assert_allclose(found, wanted / (STEPS * BATCH), rtol=1e-10)


def test_es_d_rtrl_is_its_equation():
    net, alpha = network(), 0.8
    wanted = 0
    of_inputs, of_neurons = np.zeros((BATCH, INPUTS)), np.zeros((BATCH, HIDDEN))
    for x, _, psi, error, w_out in trajectory(net):
        # z_t by the state before the step, and by the input of the step.
        signal = error @ w_out.T * psi
        wanted += of_inputs.T @ (signal * DECAY * of_neurons) + x.T @ signal
        own = 1 - THRESHOLD * psi
        of_neurons = alpha * DECAY * own * of_neurons + (1 - alpha) * own
        of_inputs = alpha * of_inputs + x
    found = gradients(net, es_d_rtrl(alpha))[0]["kernel"]
    np.testing.assert_allclose(found, wanted / (STEPS * BATCH), rtol=1e-10)


def test_decolle_is_its_equation():
    net = network()
    learner = Learner(net, squared, rule=decolle(seed=3))
    state = learner.init(SPIKES[0])
    readout = np.asarray(state.carry.feedback["layers[1]"])
    wanted, trace = 0, np.zeros((BATCH, INPUTS))
    for (x, z, psi, *_), target in zip(trajectory(net), TARGETS, strict=True):
        trace = DECAY * trace + x
        wanted += trace.T @ ((z @ readout - target) @ readout.T * psi)
    found = gradients(net, decolle(seed=3))[0]["kernel"]
    np.testing.assert_allclose(found, wanted / (STEPS * BATCH), rtol=1e-10)


@pytest.mark.parametrize(
    ("rule", "detach_reset"),
    [(ostl(), False), (eprop(trace="presynaptic"), True)],
    ids=["ostl", "presynaptic"],
)
def test_what_is_exact_is_real_time_recurrent_learning(rule, detach_reset):
    net = network(detach_reset=detach_reset)
    assert_close(gradients(net, rule), gradients(net, rtrl()), 1e-9)


def test_presynaptic_is_taken_where_it_is_exact():
    x = jax.ShapeDtypeStruct((BATCH, INPUTS), DT)
    detached = memory_estimate(network(detach_reset=True), x)
    size = DT(0).dtype.itemsize
    assert detached.traces["layers[0] (Linear)"] == size * BATCH * (INPUTS + HIDDEN)
    attached = memory_estimate(network(), x)
    assert attached.traces["layers[0] (Linear)"] == size * BATCH * (INPUTS + 1) * HIDDEN


def cosine(a, b):
    a, b = np.ravel(a), np.ravel(b)
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        (eprop(trace="presynaptic"), 0.99),
        (eprop(trace="factored"), 0.9),
        (Rule(trace="none"), 0.8),
    ],
    ids=["presynaptic", "factored", "none"],
)
def test_a_filter_of_factors_keeps_the_direction(rule, least):
    net = network(leaky=True, detach_reset=True)
    found, wanted = gradients(net, rule), gradients(net, eprop())
    assert cosine(found[0]["kernel"], wanted[0]["kernel"]) > least


def test_full_rtrl_covers_what_no_trace_does():
    rngs = nnx.Rngs(1)
    net = Sequential(
        nnx.Linear(INPUTS, 4, rngs=rngs, param_dtype=DT),
        jnp.tanh,
        nnx.Linear(4, 4, rngs=rngs, param_dtype=DT),
        Recurrent(
            LIF(4, threshold=0.02, param_dtype=DT),
            nnx.Linear(4, 4, rngs=rngs, param_dtype=DT),
        ),
        nnx.Linear(4, 4, rngs=rngs, param_dtype=DT),
        LIF(4, threshold=0.02, trainable=("tau",), param_dtype=DT),
        nnx.Linear(4, OUTPUTS, rngs=rngs, param_dtype=DT),
    )
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def loss(params, state):
        module = nnx.merge(graphdef, params, rest)
        _, ys = jax.lax.scan(lambda s, x: module(s, x), state, SPIKES)
        return jax.vmap(squared)(ys, TARGETS).mean()

    state = jax.tree.map(lambda leaf: leaf.astype(DT), net.initial_state((BATCH,)))
    wanted = nnx.to_pure_dict(jax.jit(jax.grad(loss))(params, state))["layers"]
    found = gradients(net, rtrl())
    assert all(np.abs(leaf).max() > 1e-9 for leaf in jax.tree.leaves(found))
    assert_close(found, wanted, 1e-8)


def test_auto_takes_the_exact_trace_for_long_sequences_only():
    net = network(leaky=True)
    x = jax.ShapeDtypeStruct((BATCH, INPUTS), DT)
    enough = memory_estimate(net, x).crossover
    assert 1 < enough <= STEPS

    def program(trace, steps):
        run = compiled(net, eprop(trace=trace))
        return run.lower(SPIKES[:steps], TARGETS[:steps]).as_text()

    assert program("auto", enough) == program("exact", enough)
    assert program("auto", enough - 1) == program("factored", enough - 1)


@pytest.mark.parametrize(
    ("feedback", "leaky", "layer"),
    [
        ("random", True, "layers[2]"),
        ("random", False, "layers[2]"),
        ("broadcast", True, "layers[1]"),
    ],
)
def test_feedback_by_the_weights_themselves_is_symmetric(feedback, leaky, layer):
    net = network(leaky=leaky)
    learner = Learner(net, squared, rule=eprop(feedback=feedback))
    state = learner.init(SPIKES[0])
    assert list(state.carry.feedback) == [layer]
    drawn = state.carry.feedback[layer]
    weights = net.layers[2].kernel[...]
    # The seed is the network's own, and still it is not the same draw.
    assert abs(cosine(drawn, weights)) < 0.9
    carry = state.carry._replace(feedback={layer: weights})
    state, _ = learner.run(state._replace(carry=carry), SPIKES, TARGETS)
    _, found = learner.value_and_grad(state)
    wanted = gradients(net, eprop() if leaky else ostl())
    assert_close(nnx.to_pure_dict(found)["layers"], wanted, 1e-9)


@pytest.mark.parametrize(
    ("net", "rule", "message"),
    [
        (lambda: network(), eprop(trace="presynaptic"), r"layers\[1\] \(LIF\).*presyn"),
        (
            lambda: Sequential(lambda x: x, Own()),
            ottt(),
            r'layers\[1\] \(Own\).*jacobian="leak"',
        ),
        (lambda: network(), eprop(feedback="adaptive"), "`rule`.*adaptive.*Learner"),
    ],
)
def test_what_a_rule_does_not_cover_is_named(net, rule, message):
    with pytest.raises(ValueError, match=message):
        value_and_grad(net(), SPIKES, TARGETS, squared, rule=rule)


RULES = {
    "eprop()": eprop(),
    "Rule(trace='presynaptic')": eprop(trace="presynaptic"),
    "Rule(trace='factored')": eprop(trace="factored"),
    "Rule(trace='auto')": eprop(trace="auto"),
    "Rule(feedback='random')": eprop(feedback="random", seed=3),
    "Rule(feedback='adaptive')": eprop(feedback="adaptive"),
    "Rule(feedback='broadcast')": eprop(feedback="broadcast"),
    "Rule(jacobian='leak')": Rule(jacobian="leak"),
    "ostl()": ostl(),
    "ottt()": ottt(),
    "sltt()": sltt(),
    "es_d_rtrl()": es_d_rtrl(0.8),
    "decolle()": decolle(seed=2),
}


@pytest.mark.parametrize("name", RULES)
def test_every_refusal_names_the_layer_and_the_rule(name):
    hidden = LIF(INPUTS, detach_reset=True, reset="subtract")
    readout = nnx.Linear(INPUTS, INPUTS, rngs=nnx.Rngs(0))
    for layers, layer in (
        ([nnx.LayerNorm(INPUTS, rngs=nnx.Rngs(0)), hidden], "layers[0] (LayerNorm)"),
        ([hidden, Sequential(LIF(INPUTS)), readout], "layers[1] (Sequential)"),
        ([hidden, Recurrent(LIF(INPUTS), jnp.tanh)], "layers[1] (Recurrent)"),
    ):
        with pytest.raises(ValueError) as caught:
            Learner(Sequential(*layers), squared, rule=RULES[name])
        message = str(caught.value)
        assert layer in message and f"(the rule is {name})" in message


def test_full_rtrl_names_what_it_cannot_run():
    with pytest.raises(TypeError, match="`net` must have `initial_state"):
        Learner(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), squared, rule=rtrl())


class Own:
    def initial_state(self, batch_shape=()):
        return jnp.zeros((*batch_shape, INPUTS), DT)

    def __call__(self, state, x):
        state = 0.9 * state + jnp.tanh(x * state)
        return state, state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trace": "best"}, "`trace` must be one of 'auto', .*got 'best'"),
        ({"feedback": "none"}, "`feedback` must be one of"),
        ({"jacobian": None}, "`jacobian` must be one of"),
        ({"filter": "yes"}, "`filter` must be one of"),
        ({"smoothing": 1.0}, "`smoothing` must be between 0 and 1, got 1.0"),
        ({"smoothing": float("nan")}, "`smoothing` must be"),
        ({"seed": -1}, "`seed` must be an integer >= 0"),
        ({"seed": 1.5}, "`seed` must be an integer >= 0"),
        ({"trace": "rtrl", "feedback": "random"}, '`trace="rtrl"` needs'),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Rule(**change)


def test_a_rule_must_be_a_rule():
    with pytest.raises(TypeError, match=r"`rule` must be a Rule.*got str"):
        value_and_grad(network(), SPIKES, TARGETS, squared, rule="eprop")


@pytest.mark.parametrize("x", [3.0, jnp.zeros((0, 5)), jnp.float32(1)])
def test_memory_estimate_refuses_what_is_no_step(x):
    with pytest.raises((TypeError, ValueError), match="`x` must"):
        memory_estimate(network(), x)
