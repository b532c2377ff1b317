import numpy as np
import pytest
import spike_native
from spike_native import xla

jax = pytest.importorskip(
    "jax", reason="the XLA operations need jax", exc_type=ImportError
)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def problem(neuron, twin, *shape, dtype=np.float64, seed=0):
    xs, parameters, state = twin.problem(neuron, *shape, dtype, seed)
    rng = np.random.default_rng(seed + 1)
    grads = (rng.normal(size=a.shape).astype(dtype) for a in (xs, state))
    return (xs, parameters, state, *grads)


def both_passes(neuron, xs, parameters, state, ys_grad, state_grad):
    ys, last, borders = xla.forward(neuron, xs, parameters, state)
    grads = xla.backward(neuron, xs, parameters, borders, ys_grad, state_grad)
    return ys, last, borders, *grads


def numpy_passes(neuron, xs, parameters, state, ys_grad, state_grad):
    run = spike_native.forward(neuron, xs, parameters, state)
    grads = spike_native.backward(
        neuron, xs, parameters, run.borders, ys_grad, state_grad
    )
    count, features = parameters.shape
    summed = grads.parameters.reshape(count, -1, features).sum(1)
    return *run, grads.xs, summed, grads.state


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 4, 2), (1, 1, 1), (70, 1300, 26)])
def test_equals_the_plain_entry_points(neuron, twin, shape, dtype):
    arrays = problem(neuron, twin, *shape, dtype=dtype)
    got = jax.jit(both_passes, static_argnums=0)(neuron, *arrays)
    expected = numpy_passes(neuron, *arrays)
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        if k == 4:  # summed over the batch in another order
            scale = np.abs(b).max(initial=1)
            atol = scale * (1e-6 if dtype == np.float32 else 1e-14)
            np.testing.assert_allclose(a, b, rtol=0, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


def test_without_borders(twin):
    neuron = spike_native.Neuron()
    arrays = problem(neuron, twin, 70, 12, 3)[:3]
    ys, last, none = xla.forward(neuron, *arrays, borders=False)
    expected = spike_native.forward(neuron, *arrays)
    assert none.shape == (0, 1, 12)
    np.testing.assert_array_equal(ys, expected.ys)
    np.testing.assert_array_equal(last, expected.state)


@pytest.mark.parametrize("batched", [(0, 0, 0), (0, None, None), (None, 0, None)])
def test_vmap(twin, batched):
    neuron = spike_native.Neuron()
    problems = [problem(neuron, twin, 35, 12, 3, seed=s)[:3] for s in range(4)]
    arguments = [
        np.stack([p[k] for p in problems]) if axis == 0 else problems[0][k]
        for k, axis in enumerate(batched)
    ]
    mapped = jax.vmap(lambda *a: xla.forward(neuron, *a), in_axes=batched)
    got = jax.jit(mapped)(*arguments)
    for i in range(4):
        one = [
            a[i] if axis == 0 else a for a, axis in zip(arguments, batched, strict=True)
        ]
        for a, b in zip(got, spike_native.forward(neuron, *one), strict=True):
            np.testing.assert_array_equal(a[i], b)


def test_donated_input(twin):
    neuron = spike_native.Neuron()
    xs, parameters, state = problem(neuron, twin, 40, 64, 64)[:3]
    expected = spike_native.forward(neuron, xs, parameters, state)
    donating = jax.jit(
        lambda xs, p, s: xla.forward(neuron, xs, p, s)[0], donate_argnums=0
    )
    got = donating(jax.numpy.array(xs), parameters, state)
    np.testing.assert_array_equal(got, expected.ys)


def test_many_calls_at_once(twin):
    """Independent calls share the pool: none may wait for another's helpers."""
    neuron = spike_native.Neuron()
    arrays = problem(neuron, twin, 64, 4096, 64)
    expected = numpy_passes(neuron, *arrays)[0]

    @jax.jit
    def several(xs, *rest):
        return [both_passes(neuron, xs + 0 * k, *rest)[0] for k in range(8)]

    for _ in range(5):
        for ys in several(*arrays):
            np.testing.assert_array_equal(ys, expected)


def test_refuses_what_it_cannot_compute(twin):
    neuron = spike_native.Neuron()
    xs, parameters, state = problem(neuron, twin, 4, 4, 4)[:3]
    half = (a.astype(np.float16) for a in (xs, parameters, state))
    with pytest.raises(Exception, match="float32 or float64"):
        jax.block_until_ready(xla.forward(neuron, *half))
