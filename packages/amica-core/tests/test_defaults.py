"""Every way to start a fit has the same defaults."""

import inspect

import amica_core as ac
from amica_core._cli.main import _parser

FIT = {
    name: p.default
    for name, p in inspect.signature(ac.fit).parameters.items()
    if p.default is not inspect.Parameter.empty
}


def test_the_estimator():
    own = ac.AMICA().get_params()
    assert own.pop("warm_start") is False  # scikit-learn's, not an argument of `fit`
    assert own == {name: FIT[name] for name in own}


def test_the_command():
    words = vars(_parser().parse_args(["fit", "rest.npy"]))
    names = {
        "components": "n_components",
        "models": "n_models",
        "mixtures": "n_mixtures",
        "iterations": "max_iter",
        "solver": "solver",
        "backend": "backend",
    }
    for word, name in names.items():
        assert words[word] == FIT[name]


def test_the_settings_are_those_that_eeglab_writes():
    rates, newton, stopping = ac.LearningRate(), ac.Newton(), ac.Stopping()
    assert (rates.rate, rates.minimum, rates.factor) == (0.05, 1e-8, 0.5)
    assert (rates.ramp, rates.max_decreases, rates.shape_rate) == (10, 3, 0.05)
    assert (newton.start, newton.rate) == (50, 1.0)
    assert (stopping.min_change, stopping.min_gradient) == (1e-9, 1e-7)
    assert ac.Bounds().beta[1] == 100.0
    assert ac.Bounds().rho == (1.0, 2.0)
