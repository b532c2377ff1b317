"""Draw a pattern: the first demonstration of e-prop.

A recurrent network is told the time by inputs that fire in turn, and learns to draw one
fixed sum of sines. It learns from a stream: the pattern comes round again and again,
and the weights are updated while it does (Bellec et al. 2020, figure 2).

    python pattern_generation.py --iterations 300
"""

import argparse

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from spike_core import LIF, LeakyIntegrator, Recurrent, Sequential
from spike_eprop import Learner, eprop

INPUTS = 20


def draw_batch(draw, batch, steps):
    """Return spikes, targets and the weight of each step; `draw` is not needed."""
    spikes = np.eye(INPUTS)[np.arange(steps) * INPUTS // steps][:, None]
    time = np.arange(steps) / steps * 2 * np.pi
    waves = np.random.default_rng(0)  # the same pattern every time
    target = sum(
        waves.uniform(0.5, 2) * np.sin(k * time + waves.uniform(0, 2 * np.pi))
        for k in (1, 2, 3, 5)
    )
    target = np.repeat((target / np.std(target))[:, None, None], batch, 1)
    return np.repeat(spikes, batch, 1), target, np.ones((steps, batch))


def make_network(hidden):
    """Return a recurrent layer under a leaky readout."""
    rngs = nnx.Rngs(1)
    within = nnx.Linear(hidden, hidden, use_bias=False, rngs=rngs)
    return Sequential(
        nnx.Linear(INPUTS, hidden, rngs=rngs),
        Recurrent(LIF(hidden, threshold=0.05), within),
        nnx.Linear(hidden, 1, rngs=rngs),
        LeakyIntegrator(1),
    )


def loss(y, target):
    """Return the squared error of a step, one number an example."""
    return ((y - target) ** 2).mean(-1)


def score(ys, targets, mask):
    """Return the error as a fraction of the pattern's variance."""
    return {"normalised error": float(((ys - targets) ** 2).mean() / targets.var())}


def main(arguments=None):
    """Learn, and return the score of the last time round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=100)
    parser.add_argument(
        "--feedback", default="symmetric", help="or random, adaptive, broadcast"
    )
    settings = parser.parse_args(arguments)
    spikes, targets, mask = (
        jnp.asarray(a, jnp.float32) for a in draw_batch(None, 1, settings.steps)
    )
    learner = Learner(
        make_network(settings.hidden),
        loss,
        rule=eprop(feedback=settings.feedback),
        optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3)),
        every=settings.steps // 5,
    )
    state = learner.init(spikes[0])
    found = {}
    for iteration in range(settings.iterations):
        state, out = learner.run(state, spikes, targets)
        found = score(out.y, targets, mask)
        if iteration % 20 == 0 or iteration == settings.iterations - 1:
            print(f"{iteration:5d}", found, flush=True)
    return found


if __name__ == "__main__":
    main()
