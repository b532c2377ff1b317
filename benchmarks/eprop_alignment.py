"""How well every learning rule's gradient agrees with backpropagation through time."""

from bench_harness import Case, Workload

_COSINE = "cosine to BPTT"
_OURS = {
    "requires": ("jax", "spike_core", "spike_eprop"),
    "install": "pip install spike-eprop",
}
_NETWORKS = ("one hidden layer", "two hidden layers", "recurrent", "recurrent ALIF")


def _sizes(networks, steps=150, batch=8, inputs=40, hidden=64, outputs=4):
    return [
        {
            "network": network,
            "steps": steps,
            "batch": batch,
            "inputs": inputs,
            "hidden": hidden,
            "outputs": outputs,
        }
        for network in networks
    ]


alignment = Case(
    name="eprop-alignment",
    claim=(
        "The exact trace has the gradient of backpropagation for one hidden layer; "
        "with depth or recurrence, and by every cheaper rule, it is this far off."
    ),
    baseline="BPTT",
    quality=_COSINE,
    better="higher",
    profiles={
        "laptop": _sizes(_NETWORKS),
        "gpu": _sizes(_NETWORKS, batch=64, hidden=256),
    },
)


def _net(network, inputs, hidden, outputs):
    from flax import nnx
    from spike_core import ALIF, LIF, LeakyIntegrator, Recurrent, Sequential

    rngs = nnx.Rngs(0)
    neuron = {"recurrent ALIF": ALIF}.get(network, LIF)
    layers = []
    for size in [inputs, hidden] if network == "two hidden layers" else [inputs]:
        layer = neuron(hidden, threshold=0.1, trainable=("tau",))
        if network.startswith("recurrent"):
            layer = Recurrent(layer, nnx.Linear(hidden, hidden, rngs=rngs))
        layers += [nnx.Linear(size, hidden, rngs=rngs), layer]
    readout = LeakyIntegrator(outputs, trainable=("tau",))
    return Sequential(*layers, nnx.Linear(hidden, outputs, rngs=rngs), readout)


def _data(steps, batch, inputs, outputs):
    import numpy as np

    draw = np.random.default_rng(0)
    spikes = (draw.random((steps, batch, inputs)) < 0.1).astype("float32")
    # A smooth target: a few sines of random phase.
    time = np.arange(steps)[:, None, None] * 2 * np.pi / steps
    phases = draw.uniform(0, 2 * np.pi, (2, 1, batch, outputs))
    target = np.sin(time + phases[0]) + np.sin(3 * time + phases[1])
    return spikes, target.astype("float32")


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


def _quality(gradients, reference):
    """Compare the weights below the first neuron, where all errors end up."""
    import numpy as np

    a, b = (
        np.ravel(g["layers"][0]["kernel"][...]).astype("float64")
        for g in (gradients, reference)
    )
    return {
        _COSINE: float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))),
        "relative error to BPTT": float(np.linalg.norm(a - b) / np.linalg.norm(b)),
    }


def _workload(gradient, network, steps, batch, inputs, hidden, outputs):
    import jax

    net = _net(network, inputs, hidden, outputs)
    xs, targets = jax.device_put(_data(steps, batch, inputs, outputs))
    run = jax.jit(lambda xs, targets: gradient(net, xs, targets))
    reference = jax.jit(lambda xs, targets: _bptt(net, xs, targets))
    return Workload(
        run=lambda: run(xs, targets),
        sync=jax.block_until_ready,
        quality=lambda out: _quality(out[1], reference(xs, targets)[1]),
        scratch_bytes=lambda: _scratch(run.lower(xs, targets).compile()),
        repeats=3,
    )


def _scratch(compiled):
    return compiled.memory_analysis().temp_size_in_bytes


@alignment.contender(
    "BPTT", requires=("jax", "spike_core"), install="pip install spike-core"
)
def _(**sizes):
    return _workload(_bptt, **sizes)


def _contend(name, make_rule, covers=lambda network: True):
    @alignment.contender(name, **_OURS)
    def _(network, **sizes):
        import spike_eprop
        from bench_harness import Unavailable

        if not covers(network):
            raise Unavailable("the rule does not cover these neurons")

        def gradient(net, xs, targets):
            rule = make_rule(spike_eprop)
            return spike_eprop.value_and_grad(net, xs, targets, _loss, rule=rule)

        return _workload(gradient, network=network, **sizes)


_contend("e-prop, exact", lambda lib: lib.eprop())
_contend("e-prop, factored", lambda lib: lib.eprop(trace="factored"))
_contend("e-prop, random feedback", lambda lib: lib.eprop(feedback="random"))
_contend("e-prop, broadcast", lambda lib: lib.eprop(feedback="broadcast"))
_contend("OSTL", lambda lib: lib.ostl())
_contend("ES-D-RTRL", lambda lib: lib.es_d_rtrl())
_contend("SLTT", lambda lib: lib.sltt())


def _not_adaptive(network):
    # One trace an input needs one constant Jacobian, which adaptation has not.
    return network != "recurrent ALIF"


_contend("OTTT", lambda lib: lib.ottt(), _not_adaptive)
_contend("DECOLLE", lambda lib: lib.decolle(), _not_adaptive)
_contend(
    "e-prop, one trace an input",
    # The reset left out, for only then has every neuron the same Jacobian.
    lambda lib: lib.Rule(trace="presynaptic", jacobian="leak"),
    _not_adaptive,
)


@alignment.contender("e-prop, adaptive feedback", **_OURS)
def _(network, **sizes):
    """Feedback weights that have learned with the network for a hundred updates.

    They begin as random ones, whose alignment is above.
    """
    import jax
    import optax
    import spike_eprop
    from flax import nnx

    net = _net(network, sizes["inputs"], sizes["hidden"], sizes["outputs"])
    data = sizes["steps"], sizes["batch"], sizes["inputs"], sizes["outputs"]
    xs, targets = jax.device_put(_data(*data))
    rule = spike_eprop.eprop(feedback="adaptive")
    decayed = optax.chain(optax.add_decayed_weights(0.05), optax.sgd(0.3))
    every = sizes["steps"]
    learner = spike_eprop.Learner(net, _loss, rule=rule, optimizer=decayed, every=every)
    # The same without updates: the gradient that is judged.
    judge = spike_eprop.Learner(net, _loss, rule=rule)

    def run():
        state = learner.init(xs[0])
        for _ in range(100):
            state, _ = learner.run(state, xs, targets)
        start = judge.init(xs[0])
        carry = start.carry._replace(feedback=state.carry.feedback)
        start = start._replace(params=state.params, carry=carry)
        last, _ = judge.run(start, xs, targets)
        return judge.value_and_grad(last)[1], state.params

    def quality(out):
        gradients, params = out
        graphdef, _, rest = nnx.split(net, nnx.Param, ...)
        trained = nnx.merge(graphdef, params, rest)
        reference = jax.jit(lambda xs, targets: _bptt(trained, xs, targets))(
            xs, targets
        )[1]
        return _quality(gradients, reference)

    return Workload(run=run, sync=jax.block_until_ready, quality=quality, repeats=0)
