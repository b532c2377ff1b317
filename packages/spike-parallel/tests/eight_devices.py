"""Compare sharded with plain runs; `test_sharded` starts it with eight devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P
from spike_core import LIF, LeakyIntegrator, Scan, Sequential, unroll
from spike_parallel import Associative, Chunked, linear_recurrence

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("time",))
rng = np.random.default_rng(0)


def assert_close(found, expected):
    for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-10, atol=1e-12)


def collectives(compiled):
    return compiled.as_text().count(" all-gather(")


def recurrence():
    b = jnp.asarray(rng.normal(size=(64, 3, 2)))
    v0 = jnp.asarray(rng.normal(size=(3, 2)))
    block = jnp.asarray(rng.uniform(-0.6, 0.6, (64, 1, 2, 2)))
    constant = jnp.asarray(rng.uniform(0, 1, 2))
    for a, reverse in ((constant, False), (block, True)):
        plain = functools.partial(linear_recurrence, reverse=reverse)
        sharded = jax.shard_map(
            functools.partial(plain, axis_name="time"),
            mesh=mesh,
            in_specs=(P() if a.ndim < b.ndim else P("time"), P("time"), P()),
            out_specs=P("time"),
            check_vma=False,
        )
        compiled = jax.jit(sharded).lower(a, b, v0).compile()
        assert collectives(compiled) == 1, collectives(compiled)
        found = compiled(a, b, v0), gradients_of(sharded, a, b, v0)
        assert_close(found, (plain(a, b, v0), gradients_of(plain, a, b, v0)))


def gradients_of(solve, *inputs):
    return jax.jit(jax.grad(lambda *x: (solve(*x) ** 3).sum(), argnums=(0, 1, 2)))(
        *inputs
    )


def network():
    rngs = nnx.Rngs(0)
    kwargs = {"param_dtype": jnp.float64}
    tau = jnp.linspace(2.0, 50.0, 6)
    return Sequential(
        nnx.Linear(4, 6, rngs=rngs, **kwargs),
        LIF(6, reset="none", tau=tau, threshold=0.2, trainable=("tau",), **kwargs),
        nnx.Linear(6, 3, rngs=rngs, **kwargs),
        LeakyIntegrator(3, **kwargs),
    )


def squares(total, ys, start):
    return total + (ys**2 * (start + jnp.arange(len(ys)))[:, None, None]).sum()


def gradients(strategy, folded=False):
    """Return loss, outputs and gradients, and the collectives of it all."""
    graph, variables, rest = nnx.split(network(), nnx.Param, ...)

    def loss(variables, xs):
        net = nnx.merge(graph, variables, rest)
        state, ys = unroll(net, xs, strategy=strategy)
        last = sum((leaf**2).sum() for leaf in jax.tree.leaves(state))
        total = ys if folded else squares(0.0, ys, 0)
        return last + total, (state, None if folded else ys)

    run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    return run(variables, XS)


def collectives_forward(strategy):
    run = jax.jit(lambda xs: unroll(network(), xs, strategy=strategy))
    compiled = run.lower(XS).compile()
    return compiled(XS), collectives(compiled)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    assert jax.device_count() == 8, jax.devices()
    XS = jnp.asarray(rng.normal(size=(64, 2, 4)))
    recurrence()
    print("recurrence")
    explicit = jax.make_mesh((8,), ("time",))
    expected = gradients(Scan())
    (_, outputs), _ = expected
    assert_close(gradients(Associative(mesh=mesh)), expected)
    # One for each of the two neurons.
    found, count = collectives_forward(Associative(mesh=explicit))
    assert_close(found, outputs)
    assert count == 2, count
    print("associative")
    # The same in the loop over chunks; one more puts the output in the order of time.
    found, count = collectives_forward(Chunked(16, mesh=explicit))
    assert_close(found, outputs)
    assert count == 3, count
    print("chunked")
    folding = Chunked(16, squares, jnp.zeros(()), mesh=mesh)
    (value, (state, _)), slopes = gradients(folding, folded=True)
    (wanted, (wanted_state, _)), wanted_slopes = expected
    assert_close((value, state, slopes), (wanted, wanted_state, wanted_slopes))
    print("folded")
