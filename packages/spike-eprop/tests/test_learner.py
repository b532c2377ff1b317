"""Learning from a stream."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from spike_core import LIF, LeakyIntegrator, Recurrent, Sequential
from spike_eprop import Learner, RatePenalty, eprop, fptt, rtrl, sltt, value_and_grad

DT = jnp.float64
STEPS = 12
draw = np.random.default_rng(0)
XS = (draw.random((STEPS, 3, 5)) < 0.4).astype(np.float64)
TARGETS = draw.normal(size=(STEPS, 3, 2))


def squared(y, target):
    return ((y - target) ** 2).mean(-1)


def network(*before):
    rngs = nnx.Rngs(0)
    return Sequential(
        *before,
        nnx.Linear(5, 6, rngs=rngs, param_dtype=DT),
        LIF(6, tau=9.0, threshold=0.1, trainable=("tau",), param_dtype=DT),
        nnx.Linear(6, 2, rngs=rngs, param_dtype=DT),
        LeakyIntegrator(2, tau=5.0, trainable=("tau",), param_dtype=DT),
    )


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def assert_close(a, b, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-14), a, b
    )


def in_chunks(learner, sizes, state=None):
    state = learner.init(XS[0]) if state is None else state
    losses, start = [], int(state.steps)
    for size in sizes:
        stop = start + size
        state, out = learner.run(state, XS[start:stop], TARGETS[start:stop])
        losses.append(out.loss)
        start = stop
    return state, np.concatenate(losses)


@pytest.fixture(scope="module")
def summing():
    """A learner without an optimiser, to sum up gradients with."""
    return Learner(network(), squared, rule=rtrl())


@pytest.mark.usefixtures("fully_optimised")
def test_chunks_of_any_size_give_the_gradient_of_one_pass_bit_for_bit():
    rngs = nnx.Rngs(0)
    net = Sequential(
        lambda x: x[..., None],
        nnx.Conv(1, 2, (3,), rngs=rngs, param_dtype=DT),
        LIF((5, 2), threshold=0.05, param_dtype=DT),
        lambda x: x.reshape(*x.shape[:-2], -1),
        nnx.Linear(10, 6, rngs=rngs, param_dtype=DT),
        Recurrent(
            LIF(6, threshold=0.05, refractory=1, param_dtype=DT),
            nnx.Linear(6, 6, rngs=rngs, param_dtype=DT),
        ),
        nnx.Linear(6, 2, rngs=rngs, param_dtype=DT),
        LeakyIntegrator(2, tau=5.0, trainable=("tau",), param_dtype=DT),
    )
    learner = Learner(net, squared)
    whole, losses = in_chunks(learner, [STEPS])
    value, gradients = learner.value_and_grad(whole)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradients))
    for sizes in ([1] * STEPS, [5, 1, 1, 5]):
        state, again = in_chunks(learner, sizes)
        assert_equal(losses, again)
        assert_equal(learner.value_and_grad(state), (value, gradients))


@pytest.mark.usefixtures("fully_optimised")
def test_chunks_give_full_rtrl_bit_for_bit(summing):
    whole, losses = in_chunks(summing, [STEPS])
    state, again = in_chunks(summing, [1] * STEPS)
    assert_equal(losses, again)
    assert_equal(state.carry.sums, whole.carry.sums)


@pytest.mark.usefixtures("fully_optimised")
def test_a_step_is_a_run_of_one(summing):
    start = summing.init(XS[0])
    mask = np.array([1.0, 0.0, 2.0])
    state, out = summing.step(start, XS[0], TARGETS[0], mask)
    after, outs = summing.run(start, XS[:1], TARGETS[:1], mask[None])
    assert_equal(state, after)
    assert_equal(out, jax.tree.map(lambda a: a[0], outs))
    expected = (mask * squared(out.y, TARGETS[0])).sum() / mask.sum()
    np.testing.assert_allclose(out.loss, expected, rtol=1e-12)


def test_updates_are_those_of_the_optimiser():
    optimizer = optax.sgd(0.1, momentum=0.9)
    penalty = RatePenalty(target=0.1, strength=3.0)
    learner = Learner(network(), squared, optimizer=optimizer, every=4, penalty=penalty)
    state = learner.init(XS[0])
    # By hand: the same learner without an optimiser gives the gradients of a window.
    summing = Learner(network(), squared, penalty=penalty)
    by_hand = summing.init(XS[0])
    opt = optimizer.init(by_hand.params)
    for start in range(0, STEPS, 4):
        window = XS[start : start + 4], TARGETS[start : start + 4]
        state, _ = learner.run(state, *window)
        by_hand, _ = summing.run(by_hand, *window)
        _, gradients = summing.value_and_grad(by_hand)
        updates, opt = optimizer.update(gradients, opt, by_hand.params)
        sums = jax.tree.map(jnp.zeros_like, by_hand.carry.sums)
        by_hand = by_hand._replace(
            params=optax.apply_updates(by_hand.params, updates),
            carry=by_hand.carry._replace(sums=sums),
        )
    assert_close(state.params, by_hand.params, 1e-12)
    kernel = learner.network(state).layers[0].kernel[...]
    assert not np.array_equal(kernel, network().layers[0].kernel[...])


def test_a_stream_is_learned_and_nothing_grows():
    learner = Learner(network(), squared, optimizer=optax.adam(0.01), every=5)
    state = learner.init(XS[0])
    shapes = jax.tree.map(jnp.shape, state)
    target = np.broadcast_to([0.5, -0.5], (STEPS, 3, 2))
    losses = []
    for _ in range(80):
        state, out = learner.run(state, XS, target)
        losses.append(float(out.loss.mean()))
    assert losses[-1] < 0.2 * losses[0]
    assert jax.tree.map(jnp.shape, state) == shapes
    assert learner._run._cache_size() == 1


def test_a_checkpoint_resumes_to_the_same_numbers(tmp_path):
    # Dropout has a count of its own, which goes on too.
    drop = nnx.Dropout(0.3, rngs=nnx.Rngs(1))
    learner = Learner(network(drop), squared, optimizer=optax.adam(0.01), every=4)
    half = STEPS // 2
    state, _ = in_chunks(learner, [half])
    whole, losses = in_chunks(learner, [half], state)
    leaves, tree = jax.tree.flatten(state)
    is_key = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    plain = [
        jax.random.key_data(leaf) if key else leaf
        for leaf, key in zip(leaves, is_key, strict=True)
    ]
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", plain)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "state", plain)
    loaded = tree.unflatten(
        jax.random.wrap_key_data(leaf) if key else leaf
        for leaf, key in zip(restored, is_key, strict=True)
    )
    resumed, again = in_chunks(learner, [half], loaded)
    assert_equal(losses, again)
    assert_equal(resumed.params, whole.params)


def test_adaptive_feedback_comes_to_resemble_the_weights():
    # With equal updates and weight decay the difference decays (Kolen and Pollack).
    learner = Learner(
        network(), squared, rule=eprop(feedback="adaptive"),
        optimizer=optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.5)),
    )  # fmt: skip
    state = learner.init(XS[0])

    def cosine(state):
        w = np.ravel(learner.network(state).layers[2].kernel[...])
        b = np.ravel(state.carry.feedback["layers[2]"])
        return w @ b / (np.linalg.norm(w) * np.linalg.norm(b))

    assert cosine(state) < 0.5
    for _ in range(20):
        state, _ = learner.run(state, XS, np.broadcast_to([2.0, -1.0], (STEPS, 3, 2)))
    assert cosine(state) > 0.99


def test_fptt_is_its_equation():
    alpha, rate = 0.5, 0.1
    optimizer = optax.chain(fptt(alpha), optax.sgd(rate))
    learner = Learner(network(), squared, rule=sltt(), optimizer=optimizer)
    state, _ = in_chunks(learner, [3])
    summing = Learner(network(), squared, rule=sltt())
    by_hand = summing.init(XS[0])
    average, last = by_hand.params, jax.tree.map(jnp.zeros_like, by_hand.params)
    for step in range(3):
        theta = by_hand.params
        by_hand, _ = summing.step(by_hand, XS[step], TARGETS[step])
        _, gradient = summing.value_and_grad(by_hand)
        average = jax.tree.map(
            lambda m, t, g: (m + t) / 2 - g / (2 * alpha), average, theta, last
        )
        theta = jax.tree.map(
            lambda t, g, m, g0: t - rate * (g + alpha * (t - m) - g0 / 2),
            theta, gradient, average, last,
        )  # fmt: skip
        last = gradient
        sums = jax.tree.map(jnp.zeros_like, by_hand.carry.sums)
        by_hand = by_hand._replace(
            params=theta, carry=by_hand.carry._replace(sums=sums)
        )
    assert_close(state.params, by_hand.params, 1e-10)


def test_fptt_refuses_bad_input():
    with pytest.raises(ValueError, match="`alpha` must be positive, got 0"):
        fptt(0)
    transform = fptt()
    with pytest.raises(ValueError, match="`params` must be given"):
        transform.update(1.0, transform.init(1.0))


def test_a_rate_penalty_has_the_gradient_of_backpropagation():
    net, target, strength = network(), 0.2, 5.0
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def reference(params):
        below, lif, above, readout = nnx.merge(graphdef, params, rest).layers

        def step(state, x):
            hidden, z = lif(state[0], below(x))
            out, y = readout(state[1], above(z))
            return (hidden, out), (z, y)

        start = tuple(layer.initial_state((3,)) for layer in (lif, readout))
        _, (zs, ys) = jax.lax.scan(step, start, XS)
        excess = zs.mean((0, 1)) - target
        return jax.vmap(squared)(ys, TARGETS).mean() + strength / 2 * (excess**2).sum()

    wanted = jax.jit(jax.value_and_grad(reference))(params)
    penalty = RatePenalty(target, strength)
    run = jax.jit(
        lambda xs, targets: value_and_grad(net, xs, targets, squared, penalty=penalty)
    )
    assert_close(run(XS, TARGETS), wanted, 1e-10)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RatePenalty(-0.1), ValueError, "`target` must be spikes a step"),
        (lambda: RatePenalty(float("nan")), ValueError, "`target` must be"),
        (lambda: RatePenalty(0.1, -1.0), ValueError, "`strength` must be"),
        (lambda: Learner(network(), squared, every=0), ValueError, "`every` must be"),
        (lambda: Learner(network(), squared, every=2.0), ValueError, "`every` must be"),
        (
            lambda: Learner(network(), squared, optimizer="adam"),
            TypeError,
            "`optimizer` must be an optax.GradientTransformation, got str",
        ),
        (lambda: Learner(LIF(5), squared), TypeError, "`net` must be"),
        (lambda: Learner(network(), None), TypeError, "`loss` must be callable"),
        (
            lambda: Learner(network(), squared, penalty=0.1),
            TypeError,
            "`penalty` must be a RatePenalty, got float",
        ),
        (
            lambda: Learner(
                network(), squared, rule=rtrl(), penalty=RatePenalty(0.1)
            ),
            ValueError,
            r"`penalty` is not covered by the rule rtrl\(\)",
        ),
        (lambda: Learner(network(), squared).init(3), TypeError, "`x` must be an arr"),
        (
            lambda: Learner(network(), squared).init(np.zeros((0, 5))),
            ValueError,
            "`x` must have at least one example",
        ),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_input_is_refused():
    learner = Learner(network(), squared)
    state = learner.init(XS[0])
    for args, error, message in [
        ((None, XS, TARGETS), TypeError, "`state` must be a LearnerState"),
        ((state, XS[:0], TARGETS[:0]), ValueError, "`xs` must have at least one step"),
        ((state, XS[:, :2], TARGETS[:, :2]), ValueError, "`xs` must have the shape"),
        ((state, XS, TARGETS[:3]), ValueError, "`targets` must have one entry a step"),
        ((state, np.full_like(XS, np.nan), TARGETS), ValueError, "`xs` must be finite"),
        ((state, XS, TARGETS, np.ones(3)), ValueError, "`mask` must have shape"),
    ]:
        with pytest.raises(error, match=message):
            learner.run(*args)
