"""The compiled E-step against a plain one, written from the same equations."""

import math
from types import SimpleNamespace

import amica_native
import numpy as np
import pytest
from amica_native import Parameters, statistics

SETS = amica_native.instruction_sets()
# Relative to the size of the largest sum of a kind.
TOLERANCE = {np.float32: 3e-5, np.float64: 1e-12}
# f / y is singular: a single sample near a centre may be most of the sum, with the
# relative error of its own small y.
SINGULAR = {np.float32: 3e-3, np.float64: 1e-10}


@pytest.fixture(params=SETS)
def instruction_set(request):
    with amica_native.use_instruction_set(request.param):
        yield request.param


def make_parameters(n, models, terms, density=0, rho=None, seed=0):
    rng = np.random.default_rng(seed)
    shape = (models, n, terms)
    if rho is None:
        rho = rng.uniform(1.1, 1.9, shape)
    return Parameters(
        unmixing=np.eye(n) + 0.1 * rng.normal(size=(models, n, n)),
        offset=0.1 * rng.normal(size=(models, n)),
        log_weight=rng.normal(size=models),
        log_scale=np.log(rng.dirichlet(np.full(terms, 5.0), (models, n))) - 0.7,
        mu=rng.normal(size=shape),
        beta=rng.uniform(0.7, 1.4, shape),
        rho=np.broadcast_to(rho, shape),
        density=np.broadcast_to(density, (models, n)),
    )


def make_x(n, samples, dtype=np.float64, seed=0):
    x = np.random.default_rng(seed).laplace(size=(n, samples)) / math.sqrt(2)
    return x.astype(dtype)


def plain_density(code, y, rho):
    """Log-density, score, score / y, score * y, q log q: plain NumPy."""
    if code == 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.abs(y) ** rho
            score = rho * np.sign(y) * np.abs(y) ** (rho - 1)
            over_y = rho * np.abs(y) ** (rho - 2)
            plogp = q * np.log(q)
        score[y == 0] = 0
        plogp[q < 1e-16] = 0
        over_y[y == 0] = np.where(np.broadcast_to(rho, y.shape)[y == 0] == 2, 2, 0)
        steep = np.broadcast_to(rho > 2, y.shape)
        return (
            -q,
            score,
            np.where(steep, score**2, over_y),
            np.where(steep, q, rho * q),
            plogp,
        )
    log_cosh = np.logaddexp(y, -y) - np.log(2)
    kernel, score, slope = {
        1: (-(y**2) / 2 - log_cosh, y + np.tanh(y), 2.0),
        2: (-(y**2) / 2, y, 1.0),
        3: (-2 * (np.logaddexp(y / 2, -y / 2) - np.log(2)), np.tanh(y / 2), 0.5),
        4: (-(y**2) / 2 + log_cosh, y - np.tanh(y), 0.0),
    }[code]
    over_y = np.divide(score, y, out=np.full_like(y, slope), where=y != 0)
    return kernel, score, over_y, score * y, np.zeros_like(y)


def plain_statistics(x, p, kept=None):
    """Return all sums by name, in float64."""
    x = x.astype(np.float64)
    used = np.arange(x.shape[1]) if kept is None else np.flatnonzero(kept)
    joint = np.zeros((x.shape[1], len(p.mu)))
    per_model = []
    for h in range(len(p.mu)):
        b = p.unmixing[h] @ x[:, used] - p.offset[h][:, None]
        y = p.beta[h][..., None] * (b[:, None] - p.mu[h][..., None])
        rho = p.rho[h][..., None]
        parts = [
            plain_density(int(c), y[i], rho[i]) for i, c in enumerate(p.density[h])
        ]
        kernel, score, over_y, times_y, plogp = (
            np.stack(part) for part in zip(*parts, strict=True)
        )
        z = kernel + p.log_scale[h][..., None]
        log_density = np.logaddexp.reduce(z, axis=1)
        joint[used, h] = p.log_weight[h] + log_density.sum(axis=0)
        r = np.exp(z - log_density[:, None])
        per_model.append((b, y, r, score, over_y, times_y, plogp))
    total = np.logaddexp.reduce(joint[used], axis=1)
    v = np.exp(joint[used] - total[:, None])
    sums = {
        "count": float(len(used)),
        "log_likelihood": total.sum(),
        "log_likelihood_square": (total**2).sum(),
        "posterior": v.sum(axis=0),
        "weighted_x": v.T @ x[:, used].T,
        "joint": joint,
    }
    columns = {}
    for h, (b, y, r, score, over_y, times_y, plogp) in enumerate(per_model):
        u = r * v[:, h]
        g = (p.beta[h][..., None] * u * score).sum(axis=1)
        for name, value in {
            "phi": g @ b.T,
            "mass": u.sum(axis=2),
            "score": (u * score).sum(axis=2),
            "score_over_y": (u * over_y).sum(axis=2),
            "score_times_y": (u * times_y).sum(axis=2),
            "power_log_power": (u * plogp).sum(axis=2),
            "square": b**2 @ v[:, h],
            "fourth": b**4 @ v[:, h],
            "score_square": (u * score**2).sum(axis=2),
            "score_deviation": (u * (score * y - 1) ** 2).sum(axis=2),
        }.items():
            columns.setdefault(name, []).append(value)
    return sums | {name: np.stack(values) for name, values in columns.items()}


def assert_matches(seen, wanted, dtype):
    for name, value in wanted.items():
        scale = max(1.0, float(np.max(np.abs(value))))
        np.testing.assert_allclose(
            getattr(seen, name),
            value,
            rtol=0,
            atol=(SINGULAR if name == "score_over_y" else TOLERANCE)[dtype] * scale,
            err_msg=name,
        )


def assert_same(first, second):
    for name, a, b in zip(first._fields, first, second, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


ALL = {"newton": True, "kurtosis": True, "joint": True}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("density", range(5))
@pytest.mark.parametrize("models", [1, 2])
def test_every_density(instruction_set, dtype, density, models):
    p = make_parameters(5, models, 3, density)
    x = make_x(5, 700, dtype)
    assert_matches(statistics(x, p, **ALL), plain_statistics(x, p), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rho", [1.0, 2.0, 1.0001, 2.5])
def test_special_and_steep_shapes(instruction_set, dtype, rho):
    rho = np.array([rho, 1.5, 1.3])  # others beside it
    p = make_parameters(4, 1, 3, rho=rho)
    x = make_x(4, 600, dtype)
    assert_matches(statistics(x, p, **ALL), plain_statistics(x, p), dtype)
    # Without the Newton sums the steep term still gets its sum of squares.
    plain = plain_statistics(x, p)
    seen = statistics(x, p)
    assert seen.score_square is None and seen.square is None and seen.joint is None
    scale = np.abs(plain["score_over_y"]).max()
    np.testing.assert_allclose(
        seen.score_over_y,
        plain["score_over_y"],
        rtol=0,
        atol=SINGULAR[dtype] * scale,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_types_mixed_within_a_model(instruction_set, dtype):
    p = make_parameters(5, 2, 2, density=np.arange(5))
    x = make_x(5, 300, dtype)
    assert_matches(statistics(x, p, **ALL), plain_statistics(x, p), dtype)


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("samples", [1, 2, 15, 63, 64, 65, 513, 1025])
@pytest.mark.parametrize("n", [1, 2, 7, 13])
def test_every_size(n, samples, models):
    for terms in (1, 4):
        p = make_parameters(n, models, terms)
        x = make_x(n, samples)
        assert_matches(statistics(x, p, **ALL), plain_statistics(x, p), np.float64)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("models", [1, 2])
def test_rejected_samples_do_not_count(instruction_set, dtype, models):
    p = make_parameters(3, models, 3)
    x = make_x(3, 1500, dtype)
    kept = np.random.default_rng(3).random(1500) < 0.6
    kept[512:1100] = False  # a whole block goes
    x[:, ~kept] = np.nan
    seen = statistics(x, p, kept=kept, **ALL)
    assert_matches(seen, plain_statistics(x, p, kept), dtype)
    assert seen.count == kept.sum()
    assert not seen.joint[~kept].any()
    nothing = statistics(x, p, kept=np.zeros(1500, bool), **ALL)
    assert nothing.count == 0 and not nothing.phi.any() and not nothing.mass.any()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("models", [1, 2])
def test_bit_identical_for_any_number_of_threads(dtype, models):
    p = make_parameters(6, models, 3)
    x = make_x(6, 9000, dtype)
    one = statistics(x, p, **ALL)
    for n_threads in (2, 3, 7, 1000):
        assert_same(one, statistics(x, p, n_threads=n_threads, **ALL))


def test_block_sizes_agree():
    p = make_parameters(4, 2, 3)
    x = make_x(4, 1300)
    wanted = plain_statistics(x, p)
    for block_size in (1, 100, 4096):
        seen = statistics(x, p, block_size=block_size, **ALL)
        assert_matches(seen, wanted, np.float64)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("density", range(5))
def test_a_sample_on_a_centre(instruction_set, dtype, density):
    for rho in (1.0, 1.5, 2.0):
        p = make_parameters(2, 1, 2, density, rho=rho)
        p = p._replace(
            unmixing=np.eye(2)[None], offset=np.zeros((1, 2)), mu=np.zeros((1, 2, 2))
        )
        x = make_x(2, 50, dtype)
        x[0, 7] = 0
        assert_matches(statistics(x, p, **ALL), plain_statistics(x, p), dtype)
        literal = statistics(x, p, fortran=True)
        if density == 0 and rho == 1:
            assert np.isposinf(literal.score_over_y[0, 0]).all()
        else:
            assert np.isnan(literal.score_over_y[0, 0]).all()
        assert np.isfinite(literal.score_over_y[0, 1]).all()


def test_values_that_are_not_finite_show_in_the_likelihood():
    p = make_parameters(3, 1, 3)
    for bad in (np.nan, np.inf):
        x = make_x(3, 100)
        x[1, 50] = bad
        assert not np.isfinite(statistics(x, p).log_likelihood)
    x = make_x(3, 100)
    for field in ("unmixing", "mu", "log_scale", "beta", "rho"):
        broken = np.array(getattr(p, field))
        broken.flat[0] = np.nan
        assert np.isnan(statistics(x, p._replace(**{field: broken})).log_likelihood)


def test_far_samples_do_not_overflow():
    p = make_parameters(2, 2, 3)
    for dtype in TOLERANCE:
        x = make_x(2, 64, dtype) * 1000
        seen = statistics(x, p, **ALL)
        assert all(np.isfinite(value).all() for value in seen)
        np.testing.assert_allclose(seen.posterior.sum(), 64, rtol=1e-5)


def test_many_terms_keep_their_likelihood():
    # The logarithm of a product of sums is taken now and then: it must not overflow.
    p = make_parameters(40, 1, 60)
    p = p._replace(mu=np.zeros_like(p.mu), log_scale=np.zeros_like(p.mu))
    for dtype in TOLERANCE:
        x = make_x(40, 70, dtype)
        seen, wanted = statistics(x, p, **ALL), plain_statistics(x, p)
        assert_matches(seen, wanted, dtype)


def test_rows_apart_read_only_and_any_object_with_the_fields():
    p = make_parameters(3, 1, 2)
    wide = make_x(3, 400)
    x = wide[:, 10:200]
    x.flags.writeable = False
    named = SimpleNamespace(**p._asdict())
    named.density = named.density.astype(np.int32)
    assert_same(statistics(x, named, **ALL), statistics(x.copy(), p, **ALL))


def bad(**changes):
    def change(arguments):
        arguments.update(changes)

    return change


def bad_parameter(name, value):
    def change(arguments):
        arguments["parameters"] = arguments["parameters"]._replace(**{name: value})

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (bad(x=[[1.0]]), TypeError, "`x` must be a float32 or float64 array, got list"),
        (bad(x=np.ones((3, 5), int)), TypeError, "`x` must be .* got int64"),
        (bad(x=np.ones(5)), ValueError, r"`x` must be \(components, samples\)"),
        (bad(x=np.ones((3, 0))), ValueError, r"`x` must be \(components, samples\)"),
        (bad(x=np.ones((0, 5))), ValueError, r"`x` must be \(components, samples\)"),
        (bad(x=np.ones((5, 3)).T), ValueError, "`x` must have contiguous rows"),
        (bad(x=np.ones((3, 5))[::-1]), ValueError, "`x` must have contiguous rows"),
        (bad(x=np.ones((3, 5), ">f8")), TypeError, "`x` must be a float32 .* got >f8"),
        (bad(x=np.ones((4, 5))), ValueError, r"`parameters.mu` must be \(models, 4"),
        (bad_parameter("mu", np.ones(3)), ValueError, "`parameters.mu` must be"),
        (bad_parameter("beta", np.ones((1, 3, 3))), ValueError, "`parameters.beta`"),
        (bad_parameter("unmixing", np.eye(3)), ValueError, "`parameters.unmixing`"),
        (
            bad_parameter("offset", np.ones((1, 3), complex)),
            TypeError,
            "`parameters.offset` must be real numbers, got complex128",
        ),
        (
            bad_parameter("density", np.zeros((1, 3))),
            TypeError,
            "`parameters.density` must be integers, got float64",
        ),
        (
            bad_parameter("density", np.full((1, 3), 7)),
            ValueError,
            "`parameters.density` must be 0 to 4, got 7",
        ),
        (bad(kept=np.ones(9, bool)), ValueError, "`kept` must be bool of shape"),
        (bad(kept=np.ones(5)), ValueError, "`kept` must be bool of shape"),
        (bad(n_threads=0), ValueError, "`n_threads` must be at least 1, got 0"),
        (bad(n_threads=2.0), TypeError, "`n_threads` must be an integer"),
        (bad(n_threads=None), TypeError, "`n_threads` must be an integer"),
        (bad(n_threads=True), TypeError, "`n_threads` must be an integer"),
        (bad(block_size=-3), ValueError, "`block_size` must be at least 1, got -3"),
        (bad(block_size="a"), TypeError, "`block_size` must be an integer"),
    ],
)
def test_bad_input_names_the_argument(change, error, message):
    arguments = {"x": np.ones((3, 5)), "parameters": make_parameters(3, 1, 2)}
    change(arguments)
    with pytest.raises(error, match=message):
        statistics(arguments.pop("x"), arguments.pop("parameters"), **arguments)


def test_instruction_sets():
    assert SETS[-1] == "baseline"
    with pytest.raises(ValueError, match=r"`name` must be one of .* got 'mmx'"):
        with amica_native.use_instruction_set("mmx"):
            pass
    # What was used before comes back, after an error too.
    x, p = make_x(3, 200), make_parameters(3, 1, 2)
    before = statistics(x, p)
    with pytest.raises(KeyError):
        with amica_native.use_instruction_set("baseline"):
            raise KeyError
    assert_same(before, statistics(x, p))
