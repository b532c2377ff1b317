"""E-prop against backpropagation through time: memory, time and the gradient itself."""

from bench_harness import Case, Workload

_ERROR = "relative error to BPTT"
_OURS = {
    "requires": ("jax", "spike_core", "spike_eprop"),
    "install": "pip install spike-eprop",
}


def _sizes(*steps, batch=4, inputs=12, hidden=24, outputs=6):
    return [
        {
            "steps": n,
            "batch": batch,
            "inputs": inputs,
            "hidden": hidden,
            "outputs": outputs,
        }
        for n in steps
    ]


memory = Case(
    name="eprop-memory",
    claim=(
        "The exact trace has the gradient of backpropagation through time for one "
        "hidden layer, in scratch memory that does not depend on the number of steps."
    ),
    baseline="BPTT",
    quality=_ERROR,
    better="lower",
    profiles={
        "smoke": _sizes(1000),
        "laptop": _sizes(100, 500, 1000, 4000),
        "gpu": _sizes(100, 500, 1000, 4000, batch=64, inputs=128, hidden=256),
    },
)


def _net(inputs, hidden, outputs):
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential

    rngs = nnx.Rngs(0)
    return Sequential(
        nnx.Linear(inputs, hidden, rngs=rngs),
        LIF(hidden, threshold=0.4),
        nnx.Linear(hidden, outputs, rngs=rngs),
        LeakyIntegrator(outputs),
    )


def _data(steps, batch, inputs, outputs):
    import numpy as np

    draw = np.random.default_rng(0)
    xs = draw.normal(0.5, 1.5, (steps, batch, inputs)).astype("float32")
    return xs, draw.normal(0, 1, (steps, batch, outputs)).astype("float32")


def _loss(y, target):
    return ((y - target) ** 2).mean(-1)


def _bptt(net, xs, targets):
    import jax
    from flax import nnx
    from spike_core import unroll

    graphdef, params, rest = nnx.split(net, nnx.Param, ...)

    def loss(params):
        _, ys = unroll(nnx.merge(graphdef, params, rest), xs)
        return jax.vmap(_loss)(ys, targets).mean()

    return jax.value_and_grad(loss)(params)


def _traces(net, xs, targets):
    from spike_eprop import value_and_grad

    return value_and_grad(net, xs, targets, _loss)


def _compare(gradients, reference):
    """Relative error and cosine over all parameters of the hidden layer."""
    import jax
    import numpy as np

    a, b = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g["layers"][0])])
        for g in (gradients, reference)
    )
    a, b = a.astype("float64"), b.astype("float64")
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return {
        _ERROR: float(np.linalg.norm(a - b) / np.linalg.norm(b)),
        "cosine to BPTT": float(a @ b / norms),
    }


def _workload(gradient, steps, batch, inputs, hidden, outputs):
    import jax

    net = _net(inputs, hidden, outputs)
    xs, targets = jax.device_put(_data(steps, batch, inputs, outputs))
    run = jax.jit(lambda xs, targets: gradient(net, xs, targets))
    return Workload(
        run=lambda: run(xs, targets),
        sync=jax.block_until_ready,
        quality=lambda out: _compare(
            out[1], jax.jit(lambda xs, t: _bptt(net, xs, t))(xs, targets)[1]
        ),
        scratch_bytes=lambda: _scratch(run.lower(xs, targets).compile()),
    )


def _scratch(compiled):
    return compiled.memory_analysis().temp_size_in_bytes


@memory.contender(
    "BPTT", requires=("jax", "spike_core"), install="pip install spike-core"
)
def _(**sizes):
    return _workload(_bptt, **sizes)


@memory.contender("exact trace", **_OURS)
def _(**sizes):
    return _workload(_traces, **sizes)


@memory.contender(
    "jaxpike",
    requires=("jaxpike", "spike_core"),
    install="pip install jaxpike",
)
def _(steps, batch, inputs, hidden, outputs):
    import equinox as eqx  # pyrefly: ignore [missing-import]
    import jax
    import jaxpike as jp  # pyrefly: ignore [missing-import]

    net = _net(inputs, hidden, outputs)
    xs, targets = jax.device_put(_data(steps, batch, inputs, outputs))
    keys = jax.random.split(jax.random.key(0))
    peer = jp.Sequential(
        jp.Dense(inputs, hidden, key=keys[0]),
        jp.LIF(20.0, threshold=0.4, surrogate=jp.ATan(alpha=2.0)),
        jp.Dense(hidden, outputs, key=keys[1]),
        jp.LeakyIntegrator(20.0),
    )
    for index in (0, 2):
        ours = net.layers[index]
        peer = eqx.tree_at(
            lambda p, i=index: (p.layers[i].weight, p.layers[i].bias),
            peer,
            (ours.kernel[...].T, ours.bias[...]),
        )

    # Its loss sees no time and no target that changes, so the target is constant here:
    # that of the first step, for the reference as well.
    target = targets[:1].repeat(steps, 0)

    @eqx.filter_jit
    def run(peer, xs):
        scale = steps * batch
        return jp.eprop_grads(peer, xs, lambda y: _loss(y, target[0]).sum() / scale)

    def quality(out):
        hidden_layer = out[0].layers[0]
        found = {"layers": [(hidden_layer.bias, hidden_layer.weight.T)]}
        reference = jax.jit(lambda xs, t: _bptt(net, xs, t))(xs, target)[1]
        return _compare(found, reference)

    return Workload(
        run=lambda: run(peer, xs),
        sync=jax.block_until_ready,
        quality=quality,
        scratch_bytes=lambda: (
            run.lower(peer, xs).compile().compiled.memory_analysis().temp_size_in_bytes
        ),
    )
