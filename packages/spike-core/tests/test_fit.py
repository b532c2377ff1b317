"""Whole trainings: batches, the epoch chosen, interrupts, errors."""

import os
import signal
import sys

import jax
import numpy as np
import optax
import pytest
from flax import nnx
from spike_core import (
    LIF,
    History,
    LeakyIntegrator,
    Sequential,
    accuracy,
    cross_entropy,
    evaluate,
    fit,
    rate_penalty,
    time_mean,
    time_sum,
    train_step,
)

RNG = np.random.default_rng(0)
LABELS = np.arange(24) % 2
# Either the first two channels fire often, or the last two: bytes, as data are kept.
SPIKES = (
    RNG.random((12, 24, 4)) < np.where(LABELS[:, None] == [0, 0, 1, 1], 0.6, 0.2)
).astype(np.uint8)
BATCHES = [(SPIKES[:, i : i + 8], LABELS[i : i + 8]) for i in (0, 8, 16)]


def loss(ys, labels):
    return cross_entropy(time_mean(ys), labels)


def score(ys, labels):
    return accuracy(time_sum(ys), labels)


ADAM = optax.adam(0.2)  # one for all, so that a step is compiled once


def network():
    rngs = nnx.Rngs(0)
    net = Sequential(
        nnx.Linear(4, 8, rngs=rngs),
        nnx.Dropout(0.2, rngs=rngs),
        LIF(8, tau=5.0, input_gain="unit", trainable=("threshold",)),
        nnx.Linear(8, 2, rngs=rngs),
        LeakyIntegrator(2),
    )
    return net, nnx.Optimizer(net, ADAM, wrt=nnx.Param)


def numbers(net):
    return {
        str(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(nnx.state(net, nnx.Param))
    }


def test_learns_and_keeps_the_best_epoch():
    net, optimizer = network()
    seen = []

    def batches(epoch):
        seen.append(epoch)
        yield from BATCHES

    history = fit(
        net,
        batches,
        optimizer,
        loss=loss,
        epochs=12,
        validation=BATCHES,
        metrics={"accuracy": score},
        monitor="accuracy",
        progress=False,
    )
    assert seen == list(range(12)) and history.stopped == "epochs"
    assert set(history.columns) == {"loss", "validation loss", "validation accuracy"}
    assert history.columns["loss"][-1] < 0.5 * history.columns["loss"][0]
    values = history.columns["validation accuracy"]
    assert history.best_epoch == int(np.argmax(values)) and max(values) > 0.9
    # The network is that of the best epoch, and no dropout is left on.
    found = evaluate(net, BATCHES, {"accuracy": score, "loss": loss})
    assert found["accuracy"] == max(values)
    np.testing.assert_allclose(
        found["loss"], history.columns["validation loss"][history.best_epoch]
    )
    assert f"best in epoch {history.best_epoch}" in str(history)


def test_patience():
    net, optimizer = network()
    wrong = [(xs, 1 - labels) for xs, labels in BATCHES]  # learning makes it worse
    history = fit(
        net,
        BATCHES,
        optimizer,
        loss=loss,
        epochs=50,
        validation=wrong,
        patience=2,
        progress=False,
    )
    assert history.stopped == "patience"
    assert history.n_epochs == history.best_epoch + 3 < 50


def test_equals_its_steps_one_by_one():
    (net, optimizer), (other, its_optimizer) = network(), network()
    history = fit(net, BATCHES, optimizer, loss=loss, epochs=2, progress=False)
    values = [
        float(train_step(other, its_optimizer, *batch, loss=loss))
        for _ in range(2)
        for batch in BATCHES
    ]
    np.testing.assert_allclose(
        history.columns["loss"], [np.mean(values[:3]), np.mean(values[3:])]
    )
    jax.tree.map(np.testing.assert_array_equal, numbers(net), numbers(other))
    assert history.best_epoch is None


def test_batch_first_data_with_lengths():
    lengths = np.full(8, 12)

    def late(ys, labels, lengths):
        return cross_entropy(time_mean(ys, lengths, time_axis=1), labels)

    batches = [(xs.swapaxes(0, 1), labels, lengths) for xs, labels in BATCHES]
    (net, optimizer), (other, its_optimizer) = network(), network()
    mine = fit(
        net, batches, optimizer, loss=late, epochs=1, time_axis=1, progress=False
    )
    its = fit(other, BATCHES, its_optimizer, loss=loss, epochs=1, progress=False)
    np.testing.assert_allclose(mine.columns["loss"], its.columns["loss"], rtol=1e-6)


def test_a_penalty_is_added():
    net, optimizer = network()

    def penalty(outputs):
        return 100 * rate_penalty(outputs["net.layers[2]"], high=0.01)

    plain = evaluate(net, BATCHES[:1], {"loss": loss})["loss"]
    more = float(train_step(net, optimizer, *BATCHES[0], loss=loss, penalty=penalty))
    assert more > plain + 0.1
    with pytest.raises(ValueError, match='`strategy` must be "auto" where there is'):
        train_step(net, optimizer, *BATCHES[0], loss=loss, penalty=penalty, strategy=3)


def test_every_sample_counts_once():
    net, _ = network()
    parts = [(SPIKES[:, :20], LABELS[:20]), (SPIKES[:, 20:], LABELS[20:])]
    whole = evaluate(net, [(SPIKES, LABELS)], {"loss": loss})["loss"]
    np.testing.assert_allclose(evaluate(net, parts, {"loss": loss})["loss"], whole)


def test_nan_names_epoch_and_step_and_leaves_the_best():
    net, optimizer = network()
    bad = (np.full((12, 8, 4), np.nan, np.float32), LABELS[:8])

    def batches(epoch):
        return [*BATCHES, bad] if epoch == 2 else BATCHES

    # No neuron fires at NaN: the loss stays finite, its gradient does not.
    message = "the gradient of the loss is not finite in step 3 of epoch 2"
    with pytest.raises(FloatingPointError, match=message):
        fit(
            net,
            batches,
            optimizer,
            loss=loss,
            epochs=5,
            validation=BATCHES,
            progress=False,
        )
    assert np.isfinite(evaluate(net, BATCHES, {"loss": loss})["loss"])


@pytest.mark.parametrize("where", ["train", "validation"])
def test_a_loss_that_is_not_finite_says_where(where):
    net = Sequential(LeakyIntegrator(2, trainable=("tau",)))
    optimizer = nnx.Optimizer(net, ADAM, wrt=nnx.Param)
    data = {"train": [(SPIKES[..., :2], LABELS)], "validation": None}
    data[where] = [(np.full((12, 24, 2), np.inf, np.float32), LABELS)]
    place = "step 0 of epoch 0" if where == "train" else "the validation of epoch 0"
    with pytest.raises(FloatingPointError, match=f"the loss is nan in {place}"):
        fit(net, **data, optimizer=optimizer, loss=loss, epochs=1, progress=False)


def test_ctrl_c_returns_what_is_trained():
    net, optimizer = network()

    def batches(epoch):
        for step, batch in enumerate(BATCHES):
            if (epoch, step) == (2, 1):
                os.kill(os.getpid(), signal.SIGINT)
            yield batch

    before = signal.getsignal(signal.SIGINT)
    history = fit(
        net,
        batches,
        optimizer,
        loss=loss,
        epochs=9,
        validation=BATCHES,
        progress=False,
    )
    assert history.stopped == "interrupt" and history.n_epochs == 2
    assert signal.getsignal(signal.SIGINT) is before
    np.testing.assert_allclose(
        evaluate(net, BATCHES, {"loss": loss})["loss"],
        min(history.columns["validation loss"]),
    )


def test_a_progress_bar(capsys, monkeypatch):
    pytest.importorskip("tqdm", reason="needs tqdm")
    net, optimizer = network()
    fit(net, BATCHES, optimizer, loss=loss, epochs=2, validation=BATCHES)
    shown = capsys.readouterr().err
    assert "epoch 1" in shown and "6/6" in shown and "validation loss=" in shown
    fit(net, BATCHES, optimizer, loss=loss, epochs=1, progress=False)
    monkeypatch.setitem(sys.modules, "tqdm", None)  # as if it were not installed
    fit(net, BATCHES, optimizer, loss=loss, epochs=1)
    assert capsys.readouterr() == ("", "")


NET, OPTIMIZER = network()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"net": LIF}, TypeError, "`net` must be an nnx.Module"),
        ({"optimizer": optax.sgd(0.1)}, TypeError, "`optimizer` must be an nnx.Opt"),
        ({"loss": 1.0}, TypeError, "`loss` must be callable"),
        ({"penalty": 1.0}, TypeError, "`penalty` must be callable"),
        ({"loss": lambda ys, _: ys}, ValueError, "`loss` must return a scalar"),
        ({"epochs": -1}, ValueError, "`epochs` must be an integer >= 0"),
        ({"epochs": 1.5}, ValueError, "`epochs`"),
        ({"patience": 0}, ValueError, "`patience` must be an integer >= 1"),
        ({"patience": 2, "validation": None}, ValueError, "need `validation` data"),
        ({"metrics": {"accuracy": 1}}, TypeError, "`metrics` must be a mapping"),
        ({"metrics": [score]}, TypeError, "`metrics` must be a mapping"),
        ({"metrics": {"loss": score}}, ValueError, "`metrics` must not have the name"),
        ({"monitor": "accuracy"}, ValueError, "`monitor` must be one of 'loss'"),
        ({"train": []}, ValueError, "`train` must have at least one batch, got none"),
        ({"train": iter([])}, ValueError, "give a function of the epoch"),
        ({"train": 3}, TypeError, "`train` must be an iterable of batches"),
        ({"train": lambda epoch: None}, TypeError, "got NoneType"),
        ({"train": [SPIKES]}, TypeError, "a batch of `train` must be a tuple"),
        ({"train": [(SPIKES,)]}, TypeError, "got 1 entries"),
        ({"train": [([0.5], LABELS)]}, TypeError, "`xs` in a batch of `train` must"),
        ({"validation": []}, ValueError, "`validation` must have at least one batch"),
        ({"strategy": "fast"}, TypeError, "`strategy`"),
    ],
)
def test_fit_refuses_bad_input(change, error, message):
    arguments = {
        "net": NET,
        "train": BATCHES[:1],
        "optimizer": OPTIMIZER,
        "loss": loss,
        "epochs": 1,
        "validation": BATCHES[:1],
        "progress": False,
    }
    with pytest.raises(error, match=message):
        fit(**{**arguments, **change})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((LIF, BATCHES, {"loss": loss}), TypeError, "`net` must be an nnx.Module"),
        ((NET, BATCHES, {}), ValueError, "`metrics` must not be empty"),
        ((NET, BATCHES, loss), TypeError, "`metrics` must be a mapping"),
        ((NET, [], {"loss": loss}), ValueError, "`data` must have at least one batch"),
        (
            (NET, BATCHES, {"all": lambda ys, _: ys}),
            ValueError,
            r"`metrics\['all'\]` must return a scalar",
        ),
    ],
)
def test_evaluate_refuses_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        evaluate(*arguments)


def test_no_epochs_leave_everything_as_it_is():
    net, optimizer = network()
    before = numbers(net)
    history = fit(net, BATCHES, optimizer, loss=loss, epochs=0, progress=False)
    assert (
        history == History() and str(history) == "0 epochs, stopped by epochs; nothing"
    )
    jax.tree.map(np.testing.assert_array_equal, numbers(net), before)


def test_an_iterator_that_ends_after_one_epoch_says_so():
    net, optimizer = network()
    with pytest.raises(ValueError, match="gone through only once: give a function"):
        fit(net, iter(BATCHES), optimizer, loss=loss, epochs=2, progress=False)
