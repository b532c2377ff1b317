import numpy as np
import pytest
import spike_native
from spike_native import Neuron, backward, border_stride, forward

SHAPES = [(1, 1, 1), (0, 3, 3), (33, 6, 3), (70, 301, 7), (35, 1100, 1100)]


def cotangents(xs, state, seed=1):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=a.shape).astype(a.dtype) for a in (xs, state))


@pytest.mark.parametrize("steps, lanes, features", SHAPES)
def test_forward_equals_the_twin(neuron, twin, steps, lanes, features):
    xs, parameters, state = twin.problem(neuron, steps, lanes, features)
    got = forward(neuron, xs, parameters, state)
    (ys, last), _ = twin.run(neuron, xs, parameters, state)
    np.testing.assert_allclose(got.ys, ys, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.state, last, rtol=0, atol=1e-12)
    if neuron.model != "leaky_integrator" and steps > 30:
        assert 0.01 < ys.mean() < 0.99


@pytest.mark.parametrize("steps, lanes, features", SHAPES)
def test_backward_is_the_transpose(neuron, twin, steps, lanes, features):
    xs, parameters, state = twin.problem(neuron, steps, lanes, features)
    ys_grad, state_grad = cotangents(xs, state)
    borders = forward(neuron, xs, parameters, state).borders
    grads = backward(neuron, xs, parameters, borders, ys_grad, state_grad)
    rng = np.random.default_rng(2)
    # One kind of input at a time, and one row of it, so that no error hides.
    for which, rows in (
        (0, [...]),
        (1, range(len(parameters))),
        (2, range(len(state))),
    ):
        for row in rows:
            if which == 2 and neuron.states[row] == "rest":
                continue  # a count
            direction = [np.zeros_like(a) for a in (xs, parameters, state)]
            direction[which][row] = rng.normal(size=direction[which][row].shape)
            _, (dys, dlast) = twin.run(neuron, xs, parameters, state, direction)
            expected = (ys_grad * dys).sum(0) + (state_grad * dlast).sum(0)
            along = direction[which]
            if which == 1:
                along = np.tile(along, lanes // features)
            got = (grads[which] * along).sum(0)
            scale = 1 + np.abs(expected).max(initial=0)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11 * scale)


def test_float32_is_float64_rounded(neuron, twin):
    problem = twin.problem(neuron, 70, 50, 10)
    results = []
    for dtype in (np.float32, np.float64):
        xs, parameters, state = (a.astype(np.float32).astype(dtype) for a in problem)
        ys_grad, state_grad = (
            a.astype(np.float32).astype(dtype)
            for a in cotangents(problem[0], problem[2])
        )
        run = forward(neuron, xs, parameters, state)
        grads = backward(neuron, xs, parameters, run.borders, ys_grad, state_grad)
        assert {a.dtype for a in (*run, *grads)} == {np.dtype(dtype)}
        results.append((*run, *grads))
    for single, double in zip(*results, strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(neuron, twin, dtype):
    xs, parameters, state = twin.problem(neuron, 40, 2051, 7, dtype)
    ys_grad, state_grad = cotangents(xs, state)

    def run(threads):
        run = forward(neuron, xs, parameters, state, threads=threads)
        return *run, *backward(
            neuron,
            xs,
            parameters,
            run.borders,
            ys_grad,
            state_grad,
            threads=threads,
        )

    one = run(1)
    for threads in (2, 3, 16):
        for a, b in zip(one, run(threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_lanes_are_independent(neuron, twin):
    """A lane's bits do not depend on its neighbours or on its place in the row."""
    xs, parameters, state = twin.problem(neuron, 40, 37, 37, np.float32)
    whole = forward(neuron, xs, parameters, state)
    for lane in (0, 5, 36):
        part = slice(lane, lane + 1)
        alone = forward(neuron, xs[:, part], parameters[:, part], state[:, part])
        np.testing.assert_array_equal(alone.ys, whole.ys[:, part])
        np.testing.assert_array_equal(alone.state, whole.state[:, part])


@pytest.mark.parametrize("lanes", [1 << 17, (1 << 17) + 3])
@pytest.mark.parametrize("model", ["lif", "leaky_integrator"])
def test_large_outputs_are_those_of_small_ones(model, lanes, twin):
    """Outputs above 16 MiB go past the caches, if rows lie where that is possible."""
    neuron = Neuron(model)
    xs, parameters, state = twin.problem(neuron, 35, lanes, 1, np.float32)
    ys_grad, state_grad = cotangents(xs, state)
    whole = forward(neuron, xs, parameters, state)
    grads = backward(neuron, xs, parameters, whole.borders, ys_grad, state_grad)
    assert whole.ys.nbytes > 16 << 20
    for part in (slice(None, 1000), slice(1000, lanes // 2), slice(lanes // 2, None)):
        run = forward(neuron, xs[:, part], parameters, state[:, part])
        np.testing.assert_array_equal(run.ys, whole.ys[:, part])
        np.testing.assert_array_equal(run.state, whole.state[:, part])
        xs_grad, _, first = backward(
            neuron,
            xs[:, part],
            parameters,
            run.borders,
            ys_grad[:, part],
            state_grad[:, part],
        )
        # The last lanes of a row are computed one at a time: rounded as they may be.
        np.testing.assert_allclose(xs_grad, grads[0][:, part], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(first, grads[2][:, part], rtol=1e-5, atol=1e-6)


def test_borders_are_the_states_between_chunks(neuron, twin):
    stride = border_stride()
    xs, parameters, state = twin.problem(neuron, 2 * stride + 3, 9, 3)
    borders = forward(neuron, xs, parameters, state).borders
    assert len(borders) == 3
    np.testing.assert_array_equal(borders[0], state)
    for k in (1, 2):
        part = forward(neuron, xs[: k * stride], parameters, state)
        np.testing.assert_array_equal(borders[k], part.state)


def test_outer_axes_are_separate_sequences(neuron, twin):
    problems = [twin.problem(neuron, 35, 6, 3, seed=s) for s in range(3)]
    xs, parameters, state = (np.stack(arrays) for arrays in zip(*problems, strict=True))
    run = forward(neuron, xs, parameters, state)
    ys_grad, state_grad = cotangents(xs, state)
    grads = backward(neuron, xs, parameters, run.borders, ys_grad, state_grad)
    for k, problem in enumerate(problems):
        one = forward(neuron, *problem)
        for a, b in zip(run, one, strict=True):
            np.testing.assert_array_equal(a[k], b)
        alone = backward(neuron, *problem[:2], one.borders, ys_grad[k], state_grad[k])
        for a, b in zip(grads, alone, strict=True):
            np.testing.assert_array_equal(a[k], b)


def test_threshold_is_strict():
    xs, parameters = np.array([[1.0], [0.5]]), np.array([[0.5], [1.0], [1.0]])
    ys = forward(Neuron(), xs, parameters, np.zeros((1, 1))).ys
    np.testing.assert_array_equal(ys, 0)


def test_nan_stays_in_its_lane(twin):
    xs, parameters, state = twin.problem(Neuron(), 50, 4, 4)
    clean = forward(Neuron(), xs, parameters, state)
    xs[10, 2] = np.nan
    dirty = forward(Neuron(), xs, parameters, state)
    assert np.isnan(dirty.state[0, 2])
    keep = [0, 1, 3]
    np.testing.assert_array_equal(dirty.ys[:, keep], clean.ys[:, keep])


def test_denormals_are_flushed_and_the_caller_keeps_its_mode():
    xs = np.zeros((2000, 8), np.float32)
    parameters = np.array([[0.5], [1.0], [1.0]], np.float32)
    last = forward(Neuron(), xs, parameters, np.ones((1, 8), np.float32)).state
    np.testing.assert_array_equal(last, 0)
    assert np.float32(1e-38) * np.float32(0.1) > 0


def test_read_only_and_strided_input(twin):
    xs, parameters, state = twin.problem(Neuron(), 20, 6, 3)
    expected = forward(Neuron(), xs, parameters, state).ys
    wide = np.repeat(xs, 2, axis=1)
    wide.setflags(write=False)
    strided = forward(Neuron(), wide[:, ::2], parameters, state).ys
    np.testing.assert_array_equal(strided, expected)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"xs": np.zeros((3, 4), int)}, TypeError, "`xs` must be float32 or float64"),
        ({"xs": np.zeros((3, 4), np.float16)}, TypeError, "got float16"),
        ({"xs": np.zeros(4)}, ValueError, "`xs` must be .* got shape"),
        ({"parameters": np.zeros((2, 4))}, ValueError, "decay, gain, threshold"),
        ({"parameters": np.zeros((3, 3))}, ValueError, "4 lanes of `xs`"),
        ({"parameters": np.zeros((3, 0))}, ValueError, "`parameters` must be"),
        (
            {"parameters": np.zeros((3, 4), np.float32)},
            TypeError,
            "`parameters` must be of the dtype of `xs`",
        ),
        ({"state": np.zeros(4)}, ValueError, r"`state` must be of shape \(1, 4\)"),
        ({"threads": 0}, ValueError, "`threads` must be at least 1, got 0"),
    ],
)
def test_forward_explains_bad_input(change, error, message):
    good = {
        "xs": np.zeros((3, 4)),
        "parameters": np.ones((3, 4)),
        "state": np.zeros((1, 4)),
    }
    with pytest.raises(error, match=message):
        forward(Neuron(), **(good | change))


@pytest.mark.parametrize("name", ["borders", "ys_grad", "state_grad"])
def test_backward_explains_bad_input(name):
    good = {
        "xs": np.zeros((3, 4)),
        "parameters": np.ones((3, 4)),
        "borders": np.zeros((1, 1, 4)),
        "ys_grad": np.zeros((3, 4)),
        "state_grad": np.zeros((1, 4)),
    }
    backward(Neuron(), **good)
    with pytest.raises(ValueError, match=f"`{name}` must be of shape"):
        backward(Neuron(), **(good | {name: np.zeros((2, 2))}))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"model": "hodgkin_huxley"}, "`model` must be one of 'lif'"),
        ({"reset": "hard"}, "`reset` must be one of"),
        ({"surrogate": "none"}, "`surrogate` must be one of"),
        ({"slope": 0.0}, "`slope` must be positive"),
        ({"slope": float("nan")}, "`slope` must be positive"),
        ({"shape": (1.0,)}, "`shape` of 'fast_sigmoid' must be 0"),
        ({"surrogate": "power_law"}, "`shape` of 'power_law' must be 1"),
        ({"refractory": -1}, "`refractory` must be 0 or more"),
    ],
)
def test_neuron_explains_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        Neuron(**arguments)


def test_names_and_counts_agree_with_the_library(neuron):
    kernels = spike_native._library.library()
    numbers = spike_native._library.CNeuron(**neuron.as_attributes())
    assert kernels.spike_parameter_count(numbers) == len(neuron.parameters)
    assert kernels.spike_state_count(numbers) == len(neuron.states)
    numbers.model = 99
    assert kernels.spike_parameter_count(numbers) == -1
    assert kernels.spike_state_count(numbers) == -1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_surrogates_near_and_far(surrogate_neuron, twin, dtype):
    """One step, each lane at another distance: the gradient is the surrogate alone."""
    half = 10.0 ** np.linspace(-30, 30, 301)
    xs = np.concatenate([-half, [0.0], half]).astype(dtype)[None]
    parameters = np.array([[0.0], [1.0], [0.0]], dtype)
    zero = np.zeros_like(xs)
    borders = forward(surrogate_neuron, xs, parameters, zero).borders
    ones = np.ones_like(xs)
    got = backward(surrogate_neuron, xs, parameters, borders, ones, zero).xs
    with np.errstate(over="ignore", under="ignore"):
        expected = twin.surrogate(surrogate_neuron, xs.astype(np.float64))
    assert np.isfinite(got).all()
    tiny = 1e-36 if dtype == np.float32 else 1e-300
    accuracy = 1e-6 if dtype == np.float32 else 1e-13
    # Far out in a tail the argument of exp itself is rounded.
    near = np.abs(xs) < 3
    np.testing.assert_allclose(got[near], expected[near], rtol=10 * accuracy, atol=tiny)
    np.testing.assert_allclose(got, expected, rtol=300 * accuracy, atol=tiny)
