"""Learning rules: what is kept of the past, and where errors come from."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

TraceKind = Literal["auto", "exact", "presynaptic", "factored", "none", "rtrl"]
Feedback = Literal["symmetric", "random", "adaptive", "broadcast", "local"]
Jacobian = Literal["full", "leak"]


@dataclasses.dataclass(frozen=True)
class Rule:
    r"""Settings of the eligibility engine; `eprop`, `ottt` and others make them.

    Parameters
    ----------
    trace
        What is kept for the weights into a neuron, with $p$ inputs and $n$ neurons.

        - ``"exact"``: one trace a synapse, `O(batch * p * n)`. Where all neurons have
          one constant Jacobian (detached reset and one time constant, or no reset) and
          no leaky readout is above, one trace an input is as exact and is kept instead.
        - ``"presynaptic"``: one trace an input, `O(batch * p)`, for neurons with one
          constant Jacobian. Under a leaky readout it is approximate: the filter of a
          product of trace and surrogate derivative is taken as the product of the
          filtered factors over the filtered one.
        - ``"factored"``: a trace an input and one a neuron,
          `O(batch * (p + n))`, whose product stands for the synapse's; approximate.
        - ``"none"``: only the present step.
        - ``"auto"``: the exact trace, unless backpropagation through time would take
          less memory than it over this sequence; then the factored one. See
          `memory_estimate` for the number of steps from which the exact trace is
          smaller. A `Learner`, which knows no last step, takes the exact one.
        - ``"rtrl"``: of each parameter the influence on all states; see `rtrl`.
    feedback
        How the error at the output reaches the layers below.

        - ``"symmetric"``: back through the weights, at the same step.
        - ``"random"``: through fixed random weights in place of each layer's
          (feedback alignment).
        - ``"adaptive"``: the same, but they get the updates of the weights they
          stand for.
        - ``"broadcast"``: from the output straight to each layer by fixed random
          weights.
        - ``"local"``: each layer has a fixed random readout and a loss of its own.
    jacobian
        ``"full"`` for the neuron's own derivative; ``"leak"`` for that of the same
        neuron without reset.
    filter
        Whether a leaky readout's memory is part of the traces below it. Without, an
        error concerns what a hidden neuron does at the same step.
    smoothing
        Of the factored trace: the $\alpha$ of `es_d_rtrl`, in (0, 1).
    seed
        Of the random weights of `feedback`.

    Raises
    ------
    ValueError
        If a setting is not one of those above.
    """

    trace: TraceKind = "exact"
    feedback: Feedback = "symmetric"
    jacobian: Jacobian = "full"
    filter: bool = True
    smoothing: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in (
            ("trace", ("auto", "exact", "presynaptic", "factored", "none", "rtrl")),
            ("feedback", ("symmetric", "random", "adaptive", "broadcast", "local")),
            ("jacobian", ("full", "leak")),
            ("filter", (True, False)),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(repr, choices))}, "
                    f"got {getattr(self, name)!r}"
                )
        if not (math.isfinite(self.smoothing) and 0 < self.smoothing < 1):
            raise ValueError(
                f"`smoothing` must be between 0 and 1, got {self.smoothing!r}"
            )
        if self.trace == "rtrl" and (self.feedback, self.jacobian) != (
            "symmetric",
            "full",
        ):
            raise ValueError(
                '`trace="rtrl"` needs `feedback="symmetric"` and `jacobian="full"`, '
                f"got {self.feedback!r} and {self.jacobian!r}"
            )
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"`seed` must be an integer >= 0, got {self.seed!r}")


def eprop(
    *, trace: TraceKind = "exact", feedback: Feedback = "symmetric", seed: int = 0
) -> Rule:
    r"""E-prop, with the whole Jacobian of the neuron.

    $$\epsilon_t = \frac{\partial h_t}{\partial h_{t-1}} \epsilon_{t-1} +
    \frac{\partial h_t}{\partial W}, \qquad
    e_t = \frac{\partial z_t}{\partial W}, \qquad
    \frac{dE}{dW_{ji}} = \sum_t L_{j,t}\, F_\kappa(e_{ji})_t, \qquad
    L_j = \sum_k B_{jk} \frac{\partial E}{\partial y_k}$$

    The paper leaves the reset out of $\partial h_t / \partial h_{t-1}$; here it is in,
    and then the gradient is that of backpropagation through time with the gradient
    stopped at recurrent spikes.

    Parameters
    ----------
    trace, feedback, seed
        See `Rule`.

    Returns
    -------
    Rule

    References
    ----------
    Bellec et al., Nature Communications 11, 3625 (2020), eqs. 4, 13, 21 to 28.
    """
    return Rule(trace=trace, feedback=feedback, seed=seed)


def ostl() -> Rule:
    r"""OSTL: exact traces inside layers, errors through the layers above at one step.

    $$\epsilon_t = \frac{\partial h_t}{\partial h_{t-1}} \epsilon_{t-1} +
    \frac{\partial h_t}{\partial W}, \qquad
    \frac{dE}{dW} = \sum_t L_t\, e_t, \qquad
    L_t^l = L_t^{l+1} \frac{\partial z_t^{l+1}}{\partial z_t^l}$$

    E-prop without the readout's filter: a leaky readout is one more layer, through
    which an error goes at its own step only.

    Returns
    -------
    Rule

    References
    ----------
    Bohnstingl et al., "Online spatio-temporal learning in deep neural networks", IEEE
    TNNLS 34 (2023), eqs. 9 to 13.
    """
    return Rule(filter=False)


def ottt() -> Rule:
    r"""OTTT: one leaky trace an input, errors through the layers at one step.

    $$\hat a_t = \lambda \hat a_{t-1} + s_t, \qquad
    \frac{dE}{dW} = \sum_t \frac{\partial E_t}{\partial u_t}\, \hat a_t^\top$$

    with $\lambda$ the leak of the membrane; the reset is left out. The input's gain is
    part of the trace here.

    Returns
    -------
    Rule

    References
    ----------
    Xiao et al., "Online training through time for spiking neural networks", NeurIPS
    2022, eqs. 5 and 6.
    """
    return Rule(trace="presynaptic", jacobian="leak", filter=False)


def sltt() -> Rule:
    r"""SLTT: no trace, the gradient of each step alone.

    $$\frac{dE}{dW} = \sum_t \frac{\partial E_t}{\partial u_t}\, s_t^\top$$

    Returns
    -------
    Rule

    References
    ----------
    Meng et al., "Towards memory- and time-efficient backpropagation for training
    spiking neural networks", ICCV 2023, eq. 10.
    """
    return Rule(trace="none", filter=False)


def es_d_rtrl(smoothing: float = 0.9) -> Rule:
    r"""ES-D-RTRL: a trace of the inputs times a trace of the neurons.

    $$\epsilon^x_t = \alpha\, \epsilon^x_{t-1} + x_t, \qquad
    \epsilon^f_t = \alpha D_t\, \epsilon^f_{t-1} + (1 - \alpha) B_t, \qquad
    \epsilon_t \approx \epsilon^f_t \otimes \epsilon^x_t$$

    with $D$ and $B$ the derivatives of a neuron's state by its past and its input.

    Parameters
    ----------
    smoothing
        The $\alpha$ above.

    Returns
    -------
    Rule

    References
    ----------
    Wang et al., "BrainTrace", Nature Communications 17 (2026), the ES-D-RTRL
    algorithm, also known as `pp_prop`.
    """
    return Rule(trace="factored", filter=False, smoothing=smoothing)


def decolle(seed: int = 0) -> Rule:
    r"""DECOLLE: a fixed random readout and a loss of its own for each hidden layer.

    $$\frac{dE}{dW_{ij}^l} = \sum_t \psi_{i,t}^l P_{j,t}^l
    \sum_k G_{ki}^l \frac{\partial \ell_t}{\partial y_{k}^l}, \qquad
    y_t^l = G^l s_t^l$$

    with $P$ the trace of the inputs and $\psi$ the surrogate derivative; the reset is
    left out. The loss is the one of the network, on the same target.

    Parameters
    ----------
    seed
        Of the random readouts.

    Returns
    -------
    Rule

    References
    ----------
    Kaiser, Mostafa and Neftci, "Synaptic plasticity dynamics for deep continuous local
    learning (DECOLLE)", Frontiers in Neuroscience 14 (2020), eqs. 4 to 8.
    """
    return Rule(
        trace="presynaptic", feedback="local", jacobian="leak", filter=False, seed=seed
    )


def rtrl() -> Rule:
    r"""Real-time recurrent learning: nothing is left out; for small networks.

    $$\frac{dh_t}{d\theta} = \frac{\partial h_t}{\partial h_{t-1}}
    \frac{dh_{t-1}}{d\theta} + \frac{\partial h_t}{\partial \theta}, \qquad
    \frac{dE}{d\theta} = \sum_t \frac{\partial E_t}{\partial y_t}
    \frac{dy_t}{d\theta}$$

    with $h$ the state of the whole network, so that the gradient is that of
    backpropagation through time, for any network: depth, recurrence and layers that
    no trace covers. Memory and time are `O(batch * states * parameters)`.

    Returns
    -------
    Rule

    References
    ----------
    Williams and Zipser, "A learning algorithm for continually running fully recurrent
    neural networks", Neural Computation 1 (1989), eqs. 5 to 10.
    """
    return Rule(trace="rtrl")


def describe(rule: Rule) -> str:
    """Name a rule for messages: by its function, or by what is not usual."""
    usual = Rule()
    plain = dataclasses.replace(rule, seed=usual.seed, smoothing=usual.smoothing)
    for make in (eprop, ostl, ottt, sltt, es_d_rtrl, decolle, rtrl):
        if make() == plain:
            return f"{make.__name__}()"
    settings = ", ".join(
        f"{field.name}={getattr(plain, field.name)!r}"
        for field in dataclasses.fields(plain)
        if getattr(plain, field.name) != getattr(usual, field.name)
    )
    return f"Rule({settings})"
