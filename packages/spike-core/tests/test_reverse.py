"""The built-in neurons' own reverse rule against JAX's, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from spike_core import LIF, LeakyIntegrator, Scan, Sequential, unroll

from .models import MODELS


def gradients(net, xs, state, strategy):
    """Of a sum that weighs every output and the last state, by everything there is."""

    def loss(net, xs, state):
        state, ys = unroll(net, xs, state, strategy=strategy)
        weights = jnp.cos(jnp.arange(ys.size, dtype=ys.dtype)).reshape(ys.shape)
        reals = [x for x in jax.tree.leaves(state) if x.dtype == ys.dtype]
        return (ys * weights).sum() + 0.7 * sum(jnp.sin(x).sum() for x in reals)

    graph, variables = nnx.split(net)
    reals = jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jnp.floating) else None, state
    )
    is_none = lambda x: x is None  # noqa: E731
    run = lambda v, xs, reals: loss(  # noqa: E731
        nnx.merge(graph, v),
        xs,
        jax.tree.map(lambda a, b: b if a is None else a, reals, state, is_leaf=is_none),
    )
    return jax.grad(run, argnums=(0, 1, 2))(variables, xs, reals)


def everything(neuron):
    names = zip(neuron.parameters._fields, neuron.parameters, strict=True)
    trained = [n.removeprefix("log_") for n, v in names if not isinstance(v, tuple)]
    return (*trained, "slope") if hasattr(neuron, "surrogate") else tuple(trained)


@pytest.mark.parametrize("each", [False, True], ids=["scalar", "each"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_equals_autodiff(make, each):
    value = np.array(make.values if each else make.values[1])
    trained = everything(make(3))
    neuron = make(
        3,
        **{make.parameter: value},
        trainable=trained,
        param_dtype=jnp.float64,
    )
    xs = np.random.default_rng(0).uniform(make.low, make.high, (30, 2, 3))

    @jax.jit
    def by_each_rule(xs):
        # From the middle of a sequence, so that the first state matters.
        state, _ = unroll(neuron, xs[:10])
        return [
            gradients(neuron, xs[10:], state, Scan(autodiff=autodiff))
            for autodiff in (False, True)
        ]

    got, want = by_each_rule(jnp.asarray(xs))
    assert all(np.any(np.asarray(g) != 0) for g in jax.tree.leaves(want[1:]))
    by_parameter = {
        name.removeprefix("log_"): leaf[...] for name, leaf in got[0].items()
    }
    assert set(by_parameter) == set(trained)
    assert by_parameter[make.parameter].shape == value.shape
    assert np.all(np.asarray(by_parameter[make.parameter]) != 0)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(
            a, b, rtol=1e-8, atol=1e-11 * float(np.abs(b).max())
        ),
        got,
        want,
    )


def test_only_what_is_asked_for_is_differentiated():
    # No gradient of the frozen parameters, and none at all through an unused output.
    net = Sequential(LIF(3, trainable=("threshold",)), LeakyIntegrator(3))
    xs = jnp.asarray(np.random.default_rng(0).uniform(0, 4, (9, 3)))

    @nnx.jit
    @nnx.grad
    def gradient(net):
        return unroll(net, xs)[0][1].v.sum()

    got = gradient(net)
    assert list(got["layers"]) == [0] and list(got["layers"][0]) == ["threshold"]
    assert got["layers"][0]["threshold"][...] != 0
    assert jax.grad(lambda xs: 2.0)(xs).shape == xs.shape


def test_vmap_and_low_precision():
    xs = jnp.asarray(np.random.default_rng(0).uniform(0, 4, (5, 20, 3)), jnp.bfloat16)
    run = jax.grad(lambda xs: unroll(LIF(3), xs)[1].sum().astype(jnp.float32))
    mapped = jax.jit(jax.vmap(run))(xs)
    assert mapped.dtype == jnp.bfloat16
    one = jax.jit(run)(xs[2])
    np.testing.assert_allclose(
        np.asarray(mapped[2], np.float32), np.asarray(one, np.float32), rtol=0.02
    )


def test_forward_mode_needs_autodiff():
    xs = jnp.ones((4, 3))

    def run(strategy):
        return jax.jvp(
            lambda xs: unroll(LeakyIntegrator(3), xs, strategy=strategy)[1],
            (xs,),
            (xs,),
        )

    ys, tangents = run(Scan(autodiff=True))
    np.testing.assert_allclose(ys, tangents)  # it is linear
    with pytest.raises(TypeError, match="forward-mode"):
        run(Scan())
    with pytest.raises(ValueError, match="`autodiff` must be one of"):
        Scan(autodiff="yes")
