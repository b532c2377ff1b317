"""One training step of the network that frameworks publish their times for.

Linear 128-128, LIF, Linear 128-128, LIF, Linear 128-20, leaky integrator; 256 steps, a
batch of 256; cross-entropy with label smoothing 0.3 on the readout summed over time;
Adam, 5e-4, from the same start every time; float32. Membrane time constants are
learned, one a neuron where the framework can: SpikingJelly has one a layer, Norse none.
Input spikes with 5 % density. Allocator and threads are the same for all.

Every framework runs at its best setting on the device: jaxpike with `scan_unroll=1` on
a CPU, SpikingJelly over whole sequences (`step_mode="m"`). Weights of frameworks that
do not scale their input by one minus the decay are smaller by that factor, so that the
losses agree but for the reset, which is by subtraction: whole and one step late in
snnTorch and Spyx, whose spikes are late as well; `jaxpike unroll_parallel` runs neurons
without a reset, the only ones it can.

`matrix products` is the floor of whoever runs layer by layer: the products of the three
linear layers alone, forward and backward, each passing through memory.
"""

import itertools
import math
import sys

from bench_harness import Case, Workload

step = Case(
    name="training-step",
    claim=(
        "The training step that frameworks publish, in each of them at its best "
        "setting, beside its matrix products alone, which are the floor."
    ),
    baseline="auto",
    quality="loss",
    better="lower",
    profiles={
        "smoke": [{"steps": 32, "batch": 32}],
        "laptop": [{"steps": 256, "batch": 256}],
        "gpu": [{"steps": 256, "batch": 256}],
    },
    env={
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_TOP_PAD_": "268435456",
        "OMP_NUM_THREADS": "2",
    },
)

_WIDTHS = (128, 128, 128, 20)
_DECAY = math.exp(-1 / 20)  # of a membrane of 20 ms, in a step of 1 ms
_JAX = {
    "requires": ("jax", "flax", "optax", "spike_core"),
    "install": "pip install spike-core",
}
_NATIVE = {
    "requires": (*_JAX["requires"], "spike_native"),
    "install": "pip install spike-core[native]",
}
_JAXPIKE = {
    "requires": ("jax", "optax", "equinox", "jaxpike"),
    "install": "pip install jaxpike",
}


def _batch(steps, batch):
    """Input spikes and labels."""
    import numpy as np

    rng = np.random.default_rng(0)
    xs = (rng.random((steps, batch, _WIDTHS[0])) < 0.05).astype(np.float32)
    return xs, rng.integers(0, _WIDTHS[-1], batch)


def _weights():
    """Weights `[inputs, outputs]`: 11 % of the first layer fire, 27 % of the second."""
    import numpy as np

    rng = np.random.default_rng(1)
    return [
        (rng.normal(1.0, 4.0, (m, n)) * (20 / m**0.5) / 4).astype(np.float32)
        for m, n in itertools.pairwise(_WIDTHS)
    ]


def _loss(readout, labels):
    import jax
    import optax

    targets = optax.smooth_labels(jax.nn.one_hot(labels, _WIDTHS[-1]), 0.3)
    return optax.softmax_cross_entropy(readout.sum(0) / 100, targets).mean()


def _trained(gradient, model, xs, labels):
    """One step of Adam from the same start every time."""
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.adam(5e-4)
    moments = adam.init(model)

    @jax.jit
    def train(model, moments, xs, labels):
        loss, gradients = gradient(model, xs, labels)
        updates, moments = adam.update(gradients, moments)
        return loss, optax.apply_updates(model, updates), moments

    arguments = model, moments, jnp.asarray(xs), jnp.asarray(labels)
    return Workload(
        run=lambda: train(*arguments),
        sync=jax.block_until_ready,
        quality=lambda out: {"loss": float(out[0])},
        scratch_bytes=lambda: (
            train.lower(*arguments).compile().memory_analysis().temp_size_in_bytes
        ),
    )


def _ours(strategy, sizes):
    import jax
    from flax import nnx
    from spike_core import LIF, LeakyIntegrator, Sequential, unroll

    rngs = nnx.Rngs(0)
    layers = []
    for weights in _weights():
        linear = nnx.Linear(*weights.shape, rngs=rngs)
        linear.kernel[...] = weights
        layers += [linear, LIF(weights.shape[1], trainable=("tau",))]
    net = Sequential(*layers[:-1], LeakyIntegrator(_WIDTHS[-1]))
    graph, trained, rest = nnx.split(net, nnx.Param, ...)

    def loss(trained, xs, labels):
        net = nnx.merge(graph, trained, rest)
        return _loss(unroll(net, xs, strategy=strategy)[1], labels)

    return _trained(jax.value_and_grad(loss), trained, *_batch(**sizes))


@step.contender("auto", **_NATIVE)
def _(**sizes):
    return _ours("auto", sizes)


@step.contender("Fused", **_NATIVE)
def _(**sizes):
    from spike_core import Fused

    return _ours(Fused(), sizes)


@step.contender("Scan", **_JAX)
def _(**sizes):
    from spike_core import Scan

    return _ours(Scan(), sizes)


@step.contender("Checkpointed without kernels", **_JAX)
def _(**sizes):
    sys.modules["spike_native"] = None  # as if it were not installed
    from spike_core import Checkpointed

    return _ours(Checkpointed(), sizes)


def _jaxpike(name, sizes, neuron="LIF", **settings):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jaxpike

    layers = []
    for weights in _weights():
        dense = jaxpike.Dense(*weights.shape, key=jax.random.key(0))
        # Kept as [outputs, inputs].
        dense = eqx.tree_at(lambda d: d.weight, dense, jnp.asarray(weights.T))
        tau = jnp.full(weights.shape[1], 20.0)
        surrogate = jaxpike.ATan(alpha=2.0)
        layers += [dense, getattr(jaxpike, neuron)(tau, surrogate=surrogate)]
    net = jaxpike.Sequential(*layers[:-1], jaxpike.LeakyIntegrator(20.0))
    trained, rest = eqx.partition(net, eqx.is_inexact_array)

    def loss(trained, xs, labels):
        net = eqx.combine(trained, rest)
        return _loss(getattr(jaxpike, name)(net, xs, **settings)[0], labels)

    return _trained(jax.value_and_grad(loss), trained, *_batch(**sizes))


def _unrolled():
    """Return the best setting: the default is for devices that launch kernels."""
    import jax

    return {"scan_unroll": 1} if jax.default_backend() == "cpu" else {}


@step.contender("jaxpike unroll", **_JAXPIKE)
def _(**sizes):
    return _jaxpike("unroll", sizes, **_unrolled())


@step.contender("jaxpike unroll_checkpointed", **_JAXPIKE)
def _(**sizes):
    return _jaxpike("unroll_checkpointed", sizes, **_unrolled())


@step.contender("jaxpike unroll_parallel", **_JAXPIKE)
def _(**sizes):
    return _jaxpike("unroll_parallel", sizes, neuron="LinearLIF")


@step.contender(
    "Spyx", requires=("jax", "flax", "optax", "spyx"), install="pip install spyx"
)
def _(**sizes):
    import jax
    import jax.numpy as jnp
    import spyx.nn
    from flax import nnx
    from spyx import axn

    rngs = nnx.Rngs(0)
    layers = []
    for weights in _weights():
        linear = nnx.Linear(*weights.shape, rngs=rngs)
        linear.kernel[...] = (1 - _DECAY) * weights
        neuron = spyx.nn.LIF(
            weights.shape[1:], activation=axn.custom(_atan, _step), rngs=rngs
        )
        layers += [linear, neuron]
    layers[-1] = spyx.nn.LI((_WIDTHS[-1],), rngs=rngs)
    for neuron in layers[1::2]:
        neuron.beta[...] = jnp.full(neuron.beta.shape, _DECAY)
    graph, trained, rest = nnx.split(spyx.nn.Sequential(*layers), nnx.Param, ...)

    def loss(trained, xs, labels):
        net = nnx.merge(graph, trained, rest)
        return _loss(spyx.nn.run(net, xs)[0], labels)

    return _trained(jax.value_and_grad(loss), trained, *_batch(**sizes))


def _step(u):
    import jax.numpy as jnp

    return (u > 0).astype(jnp.float32)


def _atan(u):
    """Return the derivative of the surrogate that the others use."""
    return 1 / (1 + (math.pi * u) ** 2)


def _by_torch(forward, layers, sizes, repeats=None):
    """One step of Adam; `forward` goes from ``[T, B, N]`` spikes to the readout."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = torch.nn.ModuleList(layers).to(device)
    parameters = [p for p in layers.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in parameters]
    xs, labels = (torch.tensor(a, device=device) for a in _batch(**sizes))

    def train():
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
        adam = torch.optim.Adam(parameters, lr=5e-4)
        adam.zero_grad()
        readout = forward(layers, xs).sum(0) / 100
        loss = torch.nn.functional.cross_entropy(readout, labels, label_smoothing=0.3)
        loss.backward()
        adam.step()
        return loss.detach()

    return Workload(
        run=train,
        sync=lambda loss: loss.item(),  # waits for the device
        quality=lambda loss: {"loss": float(loss)},
        repeats=repeats,
    )


def _torch_linear(weights, scale=1.0):
    import torch

    linear = torch.nn.Linear(*weights.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(scale * weights.T))
        linear.bias.zero_()
    return linear


@step.contender(
    "SpikingJelly",
    requires=("torch", "spikingjelly"),
    install="pip install torch spikingjelly",
)
def _(**sizes):
    import torch
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    tau = 1 / (1 - _DECAY)
    layers = []
    for weights in _weights():
        linear = layer.Linear(*weights.shape, step_mode="m")
        linear.load_state_dict(_torch_linear(weights).state_dict())
        fires = neuron.ParametricLIFNode(
            init_tau=tau,
            v_reset=None,
            surrogate_function=surrogate.ATan(alpha=2.0),
            step_mode="m",
        )
        layers += [linear, fires]
    layers[-1] = neuron.NonSpikingLIFNode(tau=tau)

    def forward(layers, xs):
        functional.reset_net(layers)
        for each in layers:
            xs = each(xs)
        return torch.stack(xs)

    return _by_torch(forward, layers, sizes)


@step.contender(
    "snnTorch", requires=("torch", "snntorch"), install="pip install torch snntorch"
)
def _(**sizes):
    import snntorch
    import torch
    from snntorch import surrogate

    layers = []
    for weights in _weights():
        beta = torch.full(weights.shape[1:], _DECAY)
        fires = snntorch.Leaky(
            beta=beta, learn_beta=True, spike_grad=surrogate.atan(alpha=2.0)
        )
        layers += [_torch_linear(weights, 1 - _DECAY), fires]
    layers[-1] = snntorch.Leaky(beta=beta, learn_beta=True, reset_mechanism="none")

    def forward(layers, xs):
        states = [neuron.reset_mem() for neuron in layers[1::2]]
        readout = []
        for x in xs:
            for i, (linear, neuron) in enumerate(
                zip(layers[::2], layers[1::2], strict=True)
            ):
                x, states[i] = neuron(linear(x), states[i])
            readout.append(states[-1])
        return torch.stack(readout)

    return _by_torch(forward, layers, sizes, repeats=2)


@step.contender("Norse", requires=("torch", "norse"), install="pip install norse")
def _(**sizes):
    import norse.torch as norse
    import torch
    from norse.torch.functional.lif_box import LIFBoxParameters
    from norse.torch.functional.reset import reset_subtract

    rate = torch.as_tensor((1 - _DECAY) / 1e-3)  # per second, in steps of 1 ms
    layers = []
    for weights in _weights():
        p = LIFBoxParameters(tau_mem_inv=rate, reset_method=reset_subtract)
        layers += [_torch_linear(weights), norse.LIFBoxCell(p)]
    layers[-1] = norse.LIBoxCell(norse.LIBoxParameters(tau_mem_inv=rate))

    def forward(layers, xs):
        states = [None] * (len(layers) // 2)
        readout = []
        for x in xs:
            for i, (linear, neuron) in enumerate(
                zip(layers[::2], layers[1::2], strict=True)
            ):
                x, states[i] = neuron(linear(x), states[i])
            readout.append(x)
        return torch.stack(readout)

    return _by_torch(forward, layers, sizes, repeats=1)


@step.contender("matrix products", requires=("jax",), install="pip install jax")
def _(**sizes):
    import jax
    import jax.numpy as jnp

    xs, _ = _batch(**sizes)
    weights = [jnp.asarray(w) for w in _weights()]
    rows = [
        jnp.asarray(xs.reshape(-1, _WIDTHS[0]))[:, :n] + 0.5 for n in _WIDTHS
    ]  # any numbers will do

    @jax.jit
    def products(weights, rows):
        forward = [r @ w for r, w in zip(rows, weights, strict=False)]
        by_weights = [r.T @ g for r, g in itertools.pairwise(rows)]
        by_rows = [g @ w.T for g, w in zip(rows[2:], weights[1:], strict=True)]
        return forward, by_weights, by_rows

    return Workload(
        run=lambda: products(weights, rows),
        sync=jax.block_until_ready,
        quality=lambda out: {"loss": float("nan")},  # it computes none
    )
