import numpy as np
import pytest
from spike_native import dense_backward, dense_forward, xla

SHAPES = [
    (0, 3, 2),
    (5, 0, 2),
    (5, 3, 0),
    (1, 1, 1),
    (70, 64, 64),
    (130, 129, 67),
    (130, 200, 150),
    (3, 20, 523),
]


def problem(*shape, density=0.1, dtype=np.float64, seed=0):
    """Input, weights, bias and the cotangent of the output."""
    rows, inputs, outputs = shape[-3:]
    outer = shape[:-3]
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(*outer, rows, inputs))
    xs *= rng.random(xs.shape) < density
    others = [
        rng.normal(size=(*outer, *last))
        for last in ((inputs, outputs), (outputs,), (rows, outputs))
    ]
    return [a.astype(dtype) for a in (xs, *others)]


def run(xs, weights, bias, ys_grad, threads=1):
    ys = dense_forward(xs, weights, bias, threads=threads)
    return ys, *dense_backward(xs, ys_grad, threads=threads)


def plain(xs, weights, bias, ys_grad):
    return xs @ weights + bias[..., None, :], xs.mT @ ys_grad, ys_grad.sum(-2)


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_a_product(shape, density):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        arrays = problem(*shape, density=density, dtype=dtype)
        for got, expected in zip(run(*arrays), plain(*arrays), strict=True):
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_no_bit(dtype):
    arrays = problem(3, 150, 130, 70, dtype=dtype)
    one = run(*arrays)
    for threads in (2, 3, 16):
        for a, b in zip(one, run(*arrays, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_leaves_out_zeros_alone():
    xs = np.array([[0.0, -0.0, np.nan, 2.0]])
    weights = np.array([[np.inf], [np.nan], [1.0], [3.0]])
    assert np.isnan(dense_forward(xs, weights, np.zeros(1)))
    xs[0, 2] = 0
    assert dense_forward(xs, weights, np.ones(1)) == 7


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"xs": np.zeros(3)}, ValueError, r"`xs` must be \[\*outer, rows, inputs\]"),
        ({"xs": np.zeros((2, 3), int)}, TypeError, "`xs` must be float32 or float64"),
        ({"weights": np.zeros((4, 5))}, ValueError, r"`weights` .* \(3, 5\)"),
        ({"weights": np.zeros((3, 5), np.float32)}, TypeError, "`weights`.*float64"),
        ({"bias": np.zeros(())}, ValueError, "`weights`|`bias`"),
        ({"threads": 0}, ValueError, "`threads` must be at least 1, got 0"),
    ],
)
def test_refuses_bad_input(change, error, message):
    good = {"xs": np.zeros((2, 3)), "weights": np.zeros((3, 5)), "bias": np.zeros(5)}
    with pytest.raises(error, match=message):
        dense_forward(**(good | change))


def test_backward_refuses_bad_input():
    with pytest.raises(ValueError, match=r"`ys_grad` must be of shape \(2, 5\)"):
        dense_backward(np.zeros((2, 3)), np.zeros((4, 5)))


def test_takes_any_layout():
    xs, weights, bias, ys_grad = problem(20, 6, 4)
    expected = run(xs, weights, bias, ys_grad)
    for array in (xs, weights, bias, ys_grad):
        array.setflags(write=False)
    turned = (
        np.asfortranarray(xs),
        weights[::-1][::-1],
        bias,
        np.asfortranarray(ys_grad),
    )
    for a, b in zip(run(*turned), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inside_xla(dtype):
    jax = pytest.importorskip(
        "jax", reason="the XLA operations need jax", exc_type=ImportError
    )

    @jax.jit
    @jax.vmap
    def both(xs, weights, bias, ys_grad):
        ys = xla.dense_forward(xs, weights, bias)
        return ys, *xla.dense_backward(xs, ys_grad)

    with jax.enable_x64(True):
        arrays = problem(3, 40, 65, 70, dtype=dtype)
        for a, b in zip(both(*arrays), run(*arrays), strict=True):
            np.testing.assert_array_equal(a, b)
        half = [a.astype(np.float16) for a in arrays]
        with pytest.raises(Exception, match="float32 or float64"):
            jax.block_until_ready(both(*half))
