"""Decide from cues that are long gone: evidence accumulation and delayed match.

In `evidence`, seven cues come left or right, and after a delay the network is asked on
which side there were more (Morcos and Harvey 2016, as in Bellec et al. 2020, figure 3).
In `match`, it is asked whether two cues with a delay between them were the same (Bellec
et al. 2020, supplementary note 8). Neurons that adapt over hundreds of steps remember
what their membranes forget.

    python cued_decisions.py evidence --iterations 300
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from spike_core import ALIF, LeakyIntegrator, Recurrent, Sequential, unroll
from spike_eprop import eprop, value_and_grad

loss = optax.softmax_cross_entropy_with_integer_labels


def draw_evidence(draw, batch, steps):
    """Return spikes of 40 inputs, the answers, and the weight of each step."""
    cue, cues = steps // 15, 7
    left = draw.random((cues, batch)) < 0.5
    rates = _noise(batch, steps)
    for i in range(cues):
        on = slice(2 * i * cue * 5 // 8, 2 * i * cue * 5 // 8 + cue)
        rates[on, :, 0], rates[on, :, 1] = left[i], ~left[i]
    rates[-2 * cue :, :, 2] = 1
    return _task(draw, rates, left.sum(0) > cues // 2, recall=2 * cue)


def draw_match(draw, batch, steps):
    """Return spikes of 40 inputs, the answers, and the weight of each step."""
    cue = steps // 6
    first, second = draw.integers(0, 2, (2, batch))
    rates = _noise(batch, steps)
    rates[:cue, np.arange(batch), first] = 1
    rates[3 * cue : 4 * cue, np.arange(batch), second] = 1
    rates[4 * cue :, :, 2] = 1
    return _task(draw, rates, first == second, recall=steps - 5 * cue)


def _noise(batch, steps):
    rates = np.zeros((steps, batch, 4))  # two cues, the signal to answer, noise
    rates[..., 3] = 0.25
    return rates


def _task(draw, rates, answers, recall):
    steps, batch, _ = rates.shape
    spikes = draw.random((steps, batch, 4, 10)) < 0.2 * rates[..., None]
    mask = np.zeros((steps, batch))
    mask[-recall:] = 1
    answers = np.broadcast_to(answers.astype(int), mask.shape)
    return spikes.reshape(steps, batch, 40), answers, mask


# How to draw a batch, and how long neurons adapt.
TASKS = {"evidence": (draw_evidence, 400.0), "match": (draw_match, 200.0)}


def make_network(task, hidden):
    """Return a recurrent layer of adaptive neurons under a leaky readout."""
    rngs = nnx.Rngs(1)
    neuron = ALIF(hidden, threshold=0.05, tau_adaptation=TASKS[task][1], beta=0.05)
    within = nnx.Linear(hidden, hidden, use_bias=False, rngs=rngs)
    return Sequential(
        nnx.Linear(40, hidden, rngs=rngs),
        Recurrent(neuron, within),
        nnx.Linear(hidden, 2, rngs=rngs),
        LeakyIntegrator(2),
    )


def score(ys, targets, mask):
    """Return how often the weighted vote of the steps is the answer."""
    votes = (mask[..., None] * jax.nn.log_softmax(ys)).sum(0).argmax(-1)
    return {"accuracy": float((votes == targets[0]).mean())}


def main(arguments=None):
    """Learn, and return the score on sequences that were not learned from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=60)
    parser.add_argument("--feedback", default="symmetric", help="or random, broadcast")
    settings = parser.parse_args(arguments)
    draw_batch, _ = TASKS[settings.task]
    net = make_network(settings.task, settings.hidden)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(5e-3))
    optimizer = nnx.Optimizer(net, clipped, wrt=nnx.Param)

    @nnx.jit
    def learn(net, optimizer, spikes, answers, mask):
        rule = eprop(feedback=settings.feedback)
        value, gradients = value_and_grad(
            net, spikes, answers, loss, rule=rule, mask=mask
        )
        optimizer.update(net, gradients)
        return value

    for iteration in range(settings.iterations):
        draw = np.random.default_rng(iteration)
        batch = draw_batch(draw, settings.batch, settings.steps)
        value = learn(net, optimizer, *map(jnp.asarray, batch))
        if iteration % 20 == 0:
            print(f"{iteration:5d} loss {float(value):.3f}", flush=True)
    test = draw_batch(np.random.default_rng(10**6), 128, settings.steps)
    spikes, answers, mask = map(jnp.asarray, test)
    _, ys = unroll(net, spikes.astype(jnp.float32))
    found = score(ys, answers, mask.astype(ys.dtype))
    print(found)
    return found


if __name__ == "__main__":
    main()
