"""A whole training: epochs, validation, early stop, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from importlib.util import find_spec
from typing import Any, Literal

import jax
from flax import nnx

from . import _check
from ._checkpoint import Checkpoints
from ._evaluate import (
    Data,
    Metric,
    batches_of,
    check_metrics,
    check_net,
    evaluate,
    n_samples,
)
from ._strategy import Strategy
from ._training import Loss, take_step


@dataclasses.dataclass
class History:
    """What happened in each epoch of a training.

    Parameters
    ----------
    columns
        One number an epoch: ``"loss"``, the mean over the epoch while it was trained,
        a penalty included, and with validation data ``"validation loss"`` and
        ``"validation <metric>"``.
        ``pandas.DataFrame(history.columns)`` is a table of it.
    best_epoch
        Index of the epoch that validation chose; None without validation.
    stopped
        Why there are no more epochs: ``"epochs"``, ``"patience"`` or ``"interrupt"``.
    """

    columns: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    best_epoch: int | None = None
    stopped: str = "epochs"

    @property
    def n_epochs(self) -> int:
        """Number of complete epochs."""
        return len(self.columns.get("loss", ()))

    def __str__(self) -> str:
        last = ", ".join(f"{name} {v[-1]:.4g}" for name, v in self.columns.items())
        text = f"{self.n_epochs} epochs, stopped by {self.stopped}; {last or 'nothing'}"
        if self.best_epoch is None:
            return text
        best = (f"{n} {v[self.best_epoch]:.4g}" for n, v in self.columns.items())
        return f"{text}; best in epoch {self.best_epoch}: {', '.join(best)}"


def fit(
    net: nnx.Module,
    train: Data,
    optimizer: nnx.Optimizer,
    *,
    loss: Loss,
    epochs: int,
    validation: Data | None = None,
    metrics: Mapping[str, Metric] | None = None,
    monitor: str = "loss",
    patience: int | None = None,
    penalty: Callable[[dict[str, jax.Array]], jax.Array] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    strategy: Strategy | Literal["auto"] = "auto",
    time_axis: int = 0,
) -> History:
    """Train a network; choose the epoch by validation.

    Changes `net` and `optimizer`. In the end the network has the variables of the best
    epoch, if there are validation data, and is in evaluation mode, as after
    ``net.eval()``.

    Ctrl-C ends the step at hand and returns what there is; so does an error leave the
    best epoch in the network. With `checkpoint`, the same call made again goes on after
    the last complete epoch, with the same numbers as if it had never stopped, provided
    that the batches depend on the epoch alone.

    Parameters
    ----------
    net
        A network, as for `unroll`.
    train
        Batches ``(xs, *targets)``: a list or another iterable to go through in every
        epoch, or a function of the epoch, which returns one, such as
        ``lambda epoch: batches(data, 64, seed=0, epoch=epoch)`` with
        `spike_core.data.batches`.
    optimizer
        Of this network: ``nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)``.
    loss
        Called as ``loss(ys, *targets)`` with the output of each step; returns a scalar,
        a mean over samples.
    epochs
        Number of epochs in all, at least 0, those of a checkpoint included.
    validation
        Batches to choose the epoch by, as `train`.
    metrics
        More to measure in each epoch on `validation`, as for `evaluate`; larger is
        better.
    monitor
        What chooses the epoch: ``"loss"``, or one of `metrics`.
    patience
        Stop when that many epochs in a row were not better than the best; never if
        None.
    penalty
        Added to the loss while training, as for `train_step`.
    checkpoint
        Folder to keep the state of the training in, written after each epoch. Needs
        orbax: ``pip install "spike-core[train]"``.
    progress
        Show a progress bar, if tqdm is installed.
    strategy, time_axis
        As for `train_step`.

    Returns
    -------
    History
        The numbers of each epoch.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it should be, there is no batch, or `checkpoint`
        holds another training.
    FloatingPointError
        If the loss or its gradient is not finite, in which step of which epoch.
    ImportError
        If `checkpoint` is given and orbax is not installed.

    Examples
    --------
    >>> import jax.numpy as jnp, optax
    >>> from flax import nnx
    >>> from spike_core import LeakyIntegrator, Sequential, accuracy, cross_entropy
    >>> from spike_core import fit, time_mean
    >>> net = Sequential(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), LeakyIntegrator(2))
    >>> optimizer = nnx.Optimizer(net, optax.adam(0.1), wrt=nnx.Param)
    >>> xs = jnp.tile(jnp.eye(2, dtype=jnp.float32), (10, 4, 1))
    >>> batch = xs, jnp.array([0, 1] * 4)
    >>> def loss(ys, labels):
    ...     return cross_entropy(time_mean(ys), labels)
    >>> def score(ys, labels):
    ...     return accuracy(time_mean(ys), labels)
    >>> history = fit(
    ...     net, [batch], optimizer, loss=loss, epochs=20, validation=[batch],
    ...     metrics={"accuracy": score}, monitor="accuracy", progress=False,
    ... )
    >>> history.columns["validation accuracy"][history.best_epoch]
    1.0
    """
    check_net(net)
    if not isinstance(optimizer, nnx.Optimizer):
        seen = type(optimizer).__name__
        raise TypeError(f"`optimizer` must be an nnx.Optimizer, got {seen}")
    for name, value in (("loss", loss), ("penalty", penalty or loss)):
        if not callable(value):
            raise TypeError(f"`{name}` must be callable, got {type(value).__name__}")
    epochs = _check.whole("epochs", epochs, least=0)
    if patience is not None:
        patience = _check.whole("patience", patience, least=1)
    check_metrics(metrics or {})
    if "loss" in (metrics or {}):
        raise ValueError('`metrics` must not have the name "loss", which is there')
    _check.one_of("monitor", monitor, ("loss", *(metrics or {})))
    if validation is None and (metrics or patience is not None):
        raise ValueError("`metrics` and `patience` need `validation` data, got none")
    scores = {"loss": loss, **(metrics or {})}
    how: dict[str, Any] = {"strategy": strategy, "time_axis": time_axis}
    run = _Run(net, optimizer)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Checkpoints(checkpoint)) if checkpoint else None
        if store is not None:
            run.resume(store, epochs)
        # Last in, first out: the best epoch is put back before anything is closed.
        asked = stack.enter_context(_interrupts())
        bar = stack.enter_context(_bar(progress, run.history.n_epochs, epochs))
        stack.callback(run.finish)
        try:
            while run.goes_on(epochs, patience):
                epoch = run.history.n_epochs
                net.train()
                numbers = {
                    "loss": _train_epoch(
                        net,
                        optimizer,
                        batches_of("train", train, epoch),
                        epoch,
                        asked,
                        bar,
                        {"loss": loss, "penalty": penalty, **how},
                    )
                }
                if validation is not None:
                    found = evaluate(
                        net,
                        (
                            (xs, *targets)
                            for xs, targets in batches_of(
                                "validation", validation, epoch
                            )
                        ),
                        scores,
                        **how,
                    )
                    if not math.isfinite(found["loss"]):
                        what = f"the loss is {found['loss']}"
                        raise _not_finite(what, f"the validation of epoch {epoch}")
                    numbers |= {f"validation {k}": v for k, v in found.items()}
                run.keep(numbers, monitor if validation is not None else None)
                bar.epoch_done(run.history)
                if store is not None:
                    run.save(store)
                if asked.is_set():
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            run.history.stopped = "interrupt"
    return run.history


class _Run:
    """The state of a training between two epochs."""

    def __init__(self, net: nnx.Module, optimizer: nnx.Optimizer):
        self.net = net
        self.optimizer = optimizer
        self.best = _copy(nnx.state(net))
        self.history = History()

    def goes_on(self, epochs: int, patience: int | None) -> bool:
        history = self.history
        history.stopped = "epochs"
        if history.n_epochs >= epochs:
            return False
        if patience is None or history.best_epoch is None:
            return True
        if history.n_epochs - 1 - history.best_epoch >= patience:
            history.stopped = "patience"
            return False
        return True

    def keep(self, numbers: dict[str, float], monitor: str | None) -> None:
        """Write down an epoch, and its variables if it is the best."""
        history = self.history
        for name, value in numbers.items():
            history.columns.setdefault(name, []).append(value)
        if monitor is None:
            return
        column = history.columns[f"validation {monitor}"]
        sign = -1 if monitor == "loss" else 1
        if history.best_epoch is None or (
            sign * column[-1] > sign * column[history.best_epoch]
        ):
            history.best_epoch = history.n_epochs - 1
            self.best = _copy(nnx.state(self.net))

    def finish(self) -> None:
        """Leave the network as the best epoch had it."""
        if self.history.best_epoch is not None:
            nnx.update(self.net, self.best)
        self.net.eval()

    def save(self, store: Checkpoints) -> None:
        notes = dataclasses.asdict(self.history)
        store.save(self.history.n_epochs, self._tree(), notes)

    def resume(self, store: Checkpoints, epochs: int) -> None:
        loaded = store.load(self._tree())
        if loaded is None:
            return
        tree, notes = loaded
        history = History(**notes)
        if history.n_epochs > epochs:
            raise ValueError(
                f"`epochs` must be at least the {history.n_epochs} that `checkpoint` "
                f"{store.folder} holds, got {epochs}"
            )
        nnx.update(self.net, tree["net"])
        nnx.update(self.optimizer, tree["optimizer"])
        self.best, self.history = tree["best"], history

    def _tree(self) -> dict[str, Any]:
        net, optimizer = nnx.state(self.net), nnx.state(self.optimizer)
        return {"net": net, "optimizer": optimizer, "best": self.best}


def _copy(state: Any) -> Any:
    """Take the arrays out of a state, which later steps write to."""
    return jax.tree.map(lambda leaf: leaf, state)


def _train_epoch(net, optimizer, batches, epoch, asked, bar, how) -> float:
    total, samples = 0.0, 0
    latest: tuple[Any, ...] = ()
    for step, (xs, targets) in enumerate(batches):
        value, finite = take_step(net, optimizer, xs, *targets, **how)
        # One step late: to ask for a number is to wait for the device.
        if latest:
            total += _finish_step(bar, *latest)
        n = n_samples(xs, how["time_axis"])
        latest, samples = (epoch, step, value, finite, n), samples + n
        if asked.is_set():
            raise KeyboardInterrupt
    return (total + _finish_step(bar, *latest)) / samples


def _finish_step(bar, epoch, step, value, finite, n) -> float:
    loss = float(value)
    if not finite:
        what = f"the loss is {loss}"
        if math.isfinite(loss):
            what = "the gradient of the loss is not finite"
        raise _not_finite(what, f"step {step} of epoch {epoch}")
    bar.step_done(epoch, step, loss)
    return n * loss


def _not_finite(what: str, where: str) -> FloatingPointError:
    return FloatingPointError(
        f"{what} in {where} (counted from 0); look for NaN in the input, lower the "
        "learning rate, or clip gradients with optax.clip_by_global_norm"
    )


@contextlib.contextmanager
def _interrupts() -> Generator[threading.Event]:
    """Let the first Ctrl-C wait for the end of a step; a second one does not wait."""
    asked = threading.Event()
    usual = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not usual
    ):
        yield asked
        return

    def ask(number, frame):
        del number, frame
        asked.set()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, usual)


class _Quiet:
    """A progress bar that is not there."""

    def step_done(self, epoch: int, step: int, loss: float) -> None:
        """Nothing to show."""

    def epoch_done(self, history: History) -> None:
        """Nothing to show."""


class _Bar(_Quiet):
    """A bar over steps; how many there are is known after the first epoch."""

    def __init__(self, bar: Any, first: int, epochs: int):
        self.bar, self.first, self.epochs = bar, first, epochs
        self.numbers: dict[str, str] = {}

    def step_done(self, epoch: int, step: int, loss: float) -> None:
        self.bar.set_description_str(f"epoch {epoch}", refresh=False)
        self.bar.set_postfix({"loss": f"{loss:.4g}", **self.numbers}, refresh=False)
        self.bar.update()

    def epoch_done(self, history: History) -> None:
        self.numbers = {
            name: f"{values[-1]:.4g}"
            for name, values in history.columns.items()
            if name != "loss"
        }
        done, wanted = history.n_epochs - self.first, self.epochs - self.first
        self.bar.total = round(self.bar.n / done * wanted)
        self.bar.refresh()


@contextlib.contextmanager
def _bar(progress: bool, first: int, epochs: int) -> Generator[_Quiet]:
    if not progress or find_spec("tqdm") is None:
        yield _Quiet()
        return
    from tqdm.auto import tqdm

    with tqdm(unit=" steps", dynamic_ncols=True) as bar:
        yield _Bar(bar, first, epochs)
