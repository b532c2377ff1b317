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
    varying = jnp.asarray(rng.uniform(0, 1, (64, 1, 2)))
    for a, reverse in ((varying[0], False), (block, True)):
        time = P() if a.ndim < b.ndim else P("time")
        sharded = jax.shard_map(
            functools.partial(linear_recurrence, reverse=reverse, axis_name="time"),
            mesh=mesh,
            in_specs=(time, P("time"), P()),
            out_specs=P("time"),
            check_vma=False,
        )
        solvers = sharded, functools.partial(linear_recurrence, reverse=reverse)
        found, expected = (
            jax.jit(jax.grad(lambda *x, s=s: (s(*x) ** 3).sum(), argnums=(0, 1, 2)))(
                a, b, v0
            )
            for s in solvers
        )
        assert_close(found, expected)
        compiled = jax.jit(sharded).lower(a, b, v0).compile()
        assert collectives(compiled) == 1, collectives(compiled)
        assert_close(compiled(a, b, v0), solvers[1](a, b, v0))


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


def run_and_count(strategy, expected_collectives):
    xs = jnp.asarray(rng.normal(size=(64, 2, 4)))
    run = jax.jit(lambda xs: unroll(network(), xs, strategy=strategy))
    compiled = run.lower(xs).compile()
    assert_close(compiled(xs), unroll(network(), xs, strategy=Scan()))
    count = collectives(compiled)
    assert count == expected_collectives, count


def compare_gradients(strategy, folded=False):
    graph, variables, rest = nnx.split(network(), nnx.Param, ...)
    xs = jnp.asarray(rng.normal(size=(64, 2, 4)))

    def loss(strategy, folded, variables, xs):
        net = nnx.merge(graph, variables, rest)
        state, ys = unroll(net, xs, strategy=strategy)
        last = sum((leaf**2).sum() for leaf in jax.tree.leaves(state))
        return last + (ys if folded else squares(0.0, ys, 0))

    def gradients(strategy, folded):
        of = functools.partial(loss, strategy, folded)
        return jax.jit(jax.value_and_grad(of, argnums=(0, 1)))(variables, xs)

    assert_close(gradients(strategy, folded), gradients(Scan(), False))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    assert jax.device_count() == 8, jax.devices()
    recurrence()
    print("recurrence")
    # One for each of the two neurons.
    run_and_count(
        Associative(mesh=jax.make_mesh((8,), ("time",))), expected_collectives=2
    )
    compare_gradients(Associative(mesh=mesh))
    print("associative")
    # The same in the loop over chunks; one more puts the output in the order of time.
    run_and_count(Chunked(16, mesh=mesh), expected_collectives=3)
    print("chunked")
    compare_gradients(Chunked(16, squares, jnp.zeros(()), mesh=mesh), folded=True)
    print("folded")
