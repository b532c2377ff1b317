"""Plasticity against closed forms and plain loops in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, Frozen, Sequential, is_neuron, unroll
from spike_core.plasticity import STDP, RewardSTDP, TsodyksMarkram

RNG = np.random.default_rng(0)

# ---- Tsodyks-Markram


@pytest.mark.parametrize("dt", [0.5, 2.0])
def test_regular_spikes_reach_the_steady_state(dt):
    release = np.array([0.2, 0.5, 0.1])
    tau_f, tau_d = np.array([150.0, 50.0, 1e-3]), np.array([20.0, 80.0, 30.0])
    synapse = TsodyksMarkram(
        3,
        release=release,
        tau_facilitation=tau_f,
        tau_depression=tau_d,
        dt=dt,
        param_dtype=jnp.float64,
    )
    spikes = np.zeros((9600, 3))
    spikes[31::32] = 1
    state, ys = unroll(synapse, jnp.asarray(spikes))
    f, d = np.exp(-32 * dt / tau_f), np.exp(-32 * dt / tau_d)
    u = release / (1 - (1 - release) * f)
    r = (1 - d) / (1 - (1 - u) * d)
    np.testing.assert_allclose(ys[-1], u * r, rtol=1e-9)
    np.testing.assert_allclose(state.r, r * (1 - u), rtol=1e-9)
    np.testing.assert_allclose(ys[31], release, rtol=1e-12)  # the first
    assert np.count_nonzero(ys) == spikes.sum()


def test_is_the_solution_of_the_differential_equation():
    release, tau_f, tau_d, fine = 0.3, 40.0, 90.0, 2000
    spikes = (RNG.uniform(size=60) < 0.2).astype(float)
    u, r, want = 0.0, 1.0, []
    for s in spikes:
        for _ in range(fine):  # the midpoint rule, one millisecond in `fine` parts
            h = 1 / fine
            u -= h / tau_f * (u - h / 2 * u / tau_f)
            r += h / tau_d * ((1 - r) - h / 2 * (1 - r) / tau_d)
        u += release * (1 - u) * s
        want.append(u * r * s)
        r -= u * r * s
    synapse = TsodyksMarkram(
        1,
        release=release,
        tau_facilitation=tau_f,
        tau_depression=tau_d,
        param_dtype=jnp.float64,
    )
    _, ys = unroll(synapse, jnp.asarray(spikes)[:, None])
    np.testing.assert_allclose(ys[:, 0], want, rtol=1e-8)


def test_synapse_stands_in_a_network_and_learns():
    rngs = nnx.Rngs(0)
    synapse = TsodyksMarkram(
        5, release=np.linspace(0.1, 0.6, 5), trainable=("release", "tau_depression")
    )
    net = Sequential(synapse, nnx.Linear(5, 2, rngs=rngs), LIF(2))
    assert is_neuron(synapse)
    assert sorted(nnx.state(synapse, nnx.Param)) == [
        "log_tau_depression",
        "logit_release",
    ]
    assert list(nnx.state(synapse, Frozen)) == ["log_tau_facilitation"]
    xs = jnp.asarray(RNG.integers(0, 2, (20, 3, 5)), jnp.float32)
    state, ys = unroll(net, xs)
    assert ys.shape == (20, 3, 2) and state[0].u.shape == (3, 5)
    after, y = synapse(state[0], xs[0].astype(jnp.bfloat16))
    assert after.u.dtype == jnp.float32 and y.dtype == jnp.bfloat16
    assert jax.eval_shape(lambda: TsodyksMarkram(3).initial_state((2,))).u.shape == (
        2,
        3,
    )


def test_gradients_are_those_of_finite_differences():
    xs = jnp.asarray(RNG.integers(0, 2, (15, 2)), jnp.float64)

    def total(logs):
        release, tau_f, tau_d = nnx.sigmoid(logs[0]), jnp.exp(logs[1]), jnp.exp(logs[2])
        synapse = TsodyksMarkram(
            2,
            release=release,
            tau_facilitation=tau_f,
            tau_depression=tau_d,
            param_dtype=jnp.float64,
        )
        return jnp.square(unroll(synapse, xs)[1]).sum()

    total = jax.jit(total)
    logs = jnp.array([-0.5, 2.0, 3.0])
    grads = jax.grad(total)(logs)
    for i, e in enumerate(np.eye(3) * 1e-5):
        want = (total(logs + e) - total(logs - e)) / 2e-5
        np.testing.assert_allclose(grads[i], want, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"release": 1.0}, "`release` must be less than 1"),
        ({"release": 0.0}, "`release`"),
        ({"release": [0.1, 0.2]}, "`release` must be a scalar or"),
        ({"tau_facilitation": 0.0}, "`tau_facilitation`"),
        ({"tau_depression": np.nan}, "`tau_depression`"),
        ({"dt": -1.0}, "`dt`"),
        ({"features": 0}, "`features`"),
        ({"trainable": "release"}, "tuple of names"),
        ({"trainable": ("u",)}, "`trainable`"),
        ({"param_dtype": jnp.int32}, "`param_dtype`"),
    ],
)
def test_refuses_a_bad_synapse(settings, message):
    with pytest.raises(ValueError, match=message):
        TsodyksMarkram(**{"features": 3, **settings})


def test_refuses_bad_input_of_a_synapse():
    synapse = TsodyksMarkram(3)
    state = synapse.initial_state((2,))
    with pytest.raises(TypeError, match="`x` must have a real floating"):
        synapse(state, jnp.ones((2, 3), jnp.int32))
    with pytest.raises(ValueError, match="`x` must end in the features"):
        synapse(state, jnp.ones((2, 4)))
    with pytest.raises(ValueError, match="`state` must have the shape"):
        synapse(state, jnp.ones((5, 3)))
    with pytest.raises(TypeError, match="`state` must be a TsodyksMarkramState"):
        synapse(None, jnp.ones((2, 3)))


# ---- pairs of spikes


def run(rule, weights, pre, post, *more, batch_shape=()):
    state = rule.initial_state(jnp.asarray(weights), batch_shape)
    inputs = jax.tree.map(jnp.asarray, (pre, post, *more))

    @jax.jit
    def over_time(state):
        return jax.lax.scan(lambda s, xs: (rule.step(s, *xs), None), state, inputs)[0]

    return over_time(state)


def one_spike_each(steps, n_steps):
    spikes = np.zeros((n_steps, len(steps)))
    spikes[steps, np.arange(len(steps))] = 1
    return spikes


WIDE = {"w_min": -100.0, "w_max": 100.0}


def window(delay, rule):
    """Return the change by one pair, from the definition."""
    later = rule.a_plus * np.exp(-np.abs(delay) / rule.tau_plus)
    earlier = -rule.a_minus * np.exp(-np.abs(delay) / rule.tau_minus)
    return np.select([delay > 0, delay < 0], [later, earlier], 0.0)


@pytest.mark.parametrize("dt", [1.0, 0.25])
def test_pairs_measure_the_window(dt):
    rule = STDP(0.03, 0.02, tau_plus=15.0, tau_minus=35.0, dt=dt, **WIDE)
    pre_steps, post_steps = RNG.integers(0, 80, 9), RNG.integers(0, 80, 11)
    state = run(
        rule,
        np.zeros((9, 11)),
        one_spike_each(pre_steps, 80),
        one_spike_each(post_steps, 80),
    )
    delay = (post_steps[None, :] - pre_steps[:, None]) * dt
    np.testing.assert_allclose(state.weights, window(delay, rule), atol=1e-15)
    assert (delay > 0).any() and (delay < 0).any()


def test_all_pairs_count():
    rule = STDP(0.03, 0.05, tau_plus=10.0, tau_minus=20.0, **WIDE)
    pre, post = (RNG.uniform(size=(70, n)) < 0.2 for n in (3, 4))
    state = run(rule, np.zeros((3, 4)), pre * 1.0, post * 1.0)
    steps = np.arange(70)
    change = window(steps[None, :] - steps[:, None], rule)  # pre by post
    want = np.einsum("ti,tu,uj->ij", pre, change, post)
    np.testing.assert_allclose(state.weights, want, rtol=1e-10)


def test_a_batch_shares_its_weights_and_averages():
    rule = STDP(0.03, 0.05, **WIDE)
    pre, post = (RNG.uniform(size=(40, 2, 5, n)) < 0.2 for n in (3, 2))
    state = run(rule, np.zeros((3, 2)), pre * 1.0, post * 1.0, batch_shape=(2, 5))
    steps = np.arange(40)
    change = window(steps[None, :] - steps[:, None], rule)
    want = np.einsum("tabi,tu,uabj->ij", pre, change, post) / 10
    np.testing.assert_allclose(state.weights, want, rtol=1e-10)
    assert state.pre.shape == (2, 5, 3) and state.post.shape == (2, 5, 2)


@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_soft_bounds_hold_the_weight_between(mu):
    # Pairs of 4 ms either way, so far apart that nothing else counts.
    rule = STDP(0.08, 0.04, 5.0, 5.0, w_min=-1.0, w_max=3.0, mu=mu)
    pre, post = np.zeros((2, 200, 1))
    pre[[0, 104]] = post[[4, 100]] = 1
    repeated = [np.tile(x, (500, 1)) for x in (pre, post)]
    state = run(rule, np.full((1, 1), -0.9), *repeated)
    scaled = 0.1 / 4
    for _ in range(500):
        scaled += 0.08 * (1 - scaled) ** mu * np.exp(-4 / 5) / 4
        scaled -= 0.04 * scaled**mu * np.exp(-4 / 5) / 4
    np.testing.assert_allclose(state.weights[0, 0], -1 + 4 * scaled, rtol=1e-6)
    # Where both balance: a_plus (1 - w)^mu = a_minus w^mu.
    balance = 2 ** (1 / mu) / (1 + 2 ** (1 / mu))
    np.testing.assert_allclose(scaled, balance, atol=0.05)


def test_hard_bounds_are_kept():
    rule = STDP(a_plus=0.4, a_minus=0.4)
    spikes = one_spike_each([0, 3, 6], 9)
    state = run(rule, np.full((3, 3), 0.5), spikes * 1.0, spikes)
    weights = np.asarray(state.weights)
    assert weights.min() >= 0 and weights.max() <= 1
    np.testing.assert_array_equal(np.diag(weights), 0.5)  # the same step
    assert weights[0, 1] > 0.5 > weights[1, 0]


# ---- with a reward


@pytest.mark.parametrize("dt", [2.0, 0.5])
def test_a_late_reward_pays_what_is_left_of_the_pair(dt):
    rule = RewardSTDP(
        0.03, 0.02, tau_eligibility=80.0, tau_dopamine=20.0, dt=dt, **WIDE
    )
    n = int(800 / dt)
    pre_ms, post_ms, reward_ms = np.array([10, 14, 40]), np.array([12, 30]), 70
    reward = np.zeros(n)
    reward[int(reward_ms / dt)] = 0.5
    state = run(
        rule,
        np.zeros((3, 2)),
        one_spike_each((pre_ms / dt).astype(int), n),
        one_spike_each((post_ms / dt).astype(int), n),
        reward,
    )
    delay = post_ms[None, :] - pre_ms[:, None]
    wait = reward_ms - np.maximum(post_ms[None, :], pre_ms[:, None])
    joint = 1 / (1 / 80 + 1 / 20)  # of the product of eligibility and dopamine
    want = window(delay, rule) * np.exp(-wait / 80) * 0.5 * joint
    np.testing.assert_allclose(state.weights, want, rtol=1e-6)


def test_nothing_is_learned_without_reward_and_all_is_reversed_by_blame():
    rule = RewardSTDP(0.02, 0.01, w_min=-1.0, w_max=1.0)
    pre, post = ((RNG.uniform(size=(60, n)) < 0.2) * 1.0 for n in (3, 2))
    runs = {
        sign: run(rule, np.zeros((3, 2)), pre, post, np.full(60, sign * 1e-3)).weights
        for sign in (-1.0, 0.0, 1.0)
    }
    np.testing.assert_array_equal(runs[0.0], 0)
    np.testing.assert_allclose(runs[-1.0], -runs[1.0], rtol=1e-12)
    assert np.abs(runs[1.0]).max() > 0


def test_each_sample_has_its_own_reward():
    rule = RewardSTDP(0.02, 0.01, **WIDE)
    pre, post = ((RNG.uniform(size=(30, 2, n)) < 0.3) * 1.0 for n in (3, 2))
    reward = np.zeros((30, 2))
    reward[20, 1] = 1.0
    both = run(rule, np.zeros((3, 2)), pre, post, reward, batch_shape=(2,))
    paid = run(rule, np.zeros((3, 2)), pre[:, 1], post[:, 1], reward[:, 1])
    np.testing.assert_allclose(both.weights, paid.weights / 2, rtol=1e-12)
    np.testing.assert_allclose(both.eligibility[1], paid.eligibility, rtol=1e-12)
    assert both.dopamine.shape == (2,) and both.dopamine[0] == 0


@pytest.mark.parametrize("kind", [STDP, RewardSTDP])
def test_float32_weights_stay_float32(kind):
    rule = kind()
    state = rule.initial_state(jnp.zeros((2, 3), jnp.float32))
    reward = () if kind is STDP else (0.5,)
    after = jax.jit(rule.step)(state, np.ones(2, bool), np.ones(3, np.float16), *reward)
    assert {leaf.dtype for leaf in jax.tree.leaves(after)} == {jnp.dtype(jnp.float32)}
    jax.tree.map(lambda a, b: np.testing.assert_equal(a.shape, b.shape), after, state)


@pytest.mark.parametrize("kind", [STDP, RewardSTDP])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a_plus": -1.0}, "`a_plus`"),
        ({"a_minus": np.nan}, "`a_minus`"),
        ({"tau_plus": 0.0}, "`tau_plus`"),
        ({"tau_minus": np.inf}, "`tau_minus`"),
        ({"dt": 0}, "`dt`"),
        ({"w_min": 1.0}, "`w_min` must be less than `w_max`"),
        ({"w_max": np.nan}, "`w_max`"),
    ],
)
def test_refuses_a_bad_rule(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


def test_refuses_bad_input_of_a_rule():
    for rule in (STDP(), RewardSTDP()):
        with pytest.raises(TypeError, match="`weights`"):
            rule.initial_state(jnp.zeros((2, 3), jnp.int32))
        with pytest.raises(ValueError, match="`weights` must be presynaptic by"):
            rule.initial_state(jnp.zeros(3))
        state = rule.initial_state(jnp.zeros((2, 3)), (4,))
        more = () if isinstance(rule, STDP) else (0.0,)
        with pytest.raises(ValueError, match="`pre` must have the shape"):
            rule.step(state, jnp.ones(2), jnp.ones((4, 3)), *more)
        with pytest.raises(ValueError, match="`post` must have the shape"):
            rule.step(state, jnp.ones((4, 2)), jnp.ones((4, 2)), *more)
    with pytest.raises(ValueError, match="`reward` must be a number or"):
        rule.step(state, jnp.ones((4, 2)), jnp.ones((4, 3)), jnp.ones(3))
    with pytest.raises(ValueError, match="`mu`"):
        STDP(mu=-1.0)
    with pytest.raises(ValueError, match="`tau_dopamine`"):
        RewardSTDP(tau_dopamine=0.0)
