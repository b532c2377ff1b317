"""A fit in a few numbers, for people and for machines."""

from typing import Any

import numpy as np

from ._result import Result
from ._statistics import Density

_REASONS = {
    "max_iter": "the iterations allowed were used up",
    "min_change": "the log-likelihood no longer grew",
    "min_gradient": "the gradient vanished",
    "min_rate": "no step size raised the log-likelihood",
    "not_finite": "the log-likelihood was not finite",
    "interrupted": "it was interrupted",
}


def summarize(result: Result) -> dict[str, Any]:
    """Return the facts of a fit, as numbers, strings and lists that JSON can hold.

    Parameters
    ----------
    result
        A fit.
    """
    model, history = result.model, result.history
    values = history.log_likelihood[np.isfinite(history.log_likelihood)]
    codes = {int(code) for code in np.unique(model.density)}
    return {
        "channels": len(result.sphering.mean),
        "components": model.n_components,
        "models": model.n_models,
        "mixtures": model.n_mixtures,
        "densities": [Density(code).name.lower() for code in sorted(codes)],
        "shared_components": int(model.slots.size - len(np.unique(model.slots))),
        "samples": len(result.kept),
        "rejected_samples": int(np.count_nonzero(~result.kept)),
        "iterations": result.n_iter,
        "log_likelihood": result.log_likelihood if len(values) else None,
        "decreases": int(np.count_nonzero(np.diff(values) < 0)),
        "stop_reason": result.stop_reason,
        "priors": [float(p) for p in model.gm],
        "explained_variance": [float(v) for v in result.variances(0)],
    }


def describe(result: Result) -> str:
    """Return the facts of a fit as lines of text."""
    facts = summarize(result)
    likelihood = facts["log_likelihood"]
    shares = np.array(facts["explained_variance"])
    shares = 100 * shares / shares.sum()
    lines = [
        ("channels", facts["channels"]),
        ("model" if facts["models"] == 1 else "models", _models(facts)),
        ("densities", f"{facts['mixtures']} x {', '.join(facts['densities'])}"),
        ("samples", _samples(facts)),
        ("iterations", f"{facts['iterations']}; {_REASONS[facts['stop_reason']]}"),
        (
            "log-likelihood",
            "not recorded"
            if likelihood is None
            else f"{likelihood:.6f} per sample and component",
        ),
        (
            "variance",
            " ".join(f"{share:.1f}" for share in shares[:8])
            + (" ... %" if len(shares) > 8 else " %"),
        ),
    ]
    return "\n".join(f"{name:15s}{value}" for name, value in lines)


def _models(facts: dict[str, Any]) -> str:
    components = f"{facts['components']} components"
    if facts["models"] == 1:
        return components
    priors = ", ".join(f"{prior:.3f}" for prior in facts["priors"])
    shared = facts["shared_components"]
    text = f"{facts['models']} of {components}, priors {priors}"
    return text + (f", {shared} of them shared" if shared else "")


def _samples(facts: dict[str, Any]) -> str:
    if not facts["samples"]:
        return "not recorded"
    rejected = facts["rejected_samples"]
    return f"{facts['samples']}" + (f", {rejected} rejected" if rejected else "")
