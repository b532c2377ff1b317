"""Fitted densities of the sources over their histograms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._density import evaluate, log_normalizer
from .._result import Result
from .._statistics import Density
from ._matplotlib import (
    DATA_COLOUR,
    check_components,
    check_model,
    check_samples,
    colour,
    grid,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_densities(
    result: Result,
    X: ArrayLike,
    *,
    model: int = 0,
    components: Sequence[int] | None = None,
) -> "Figure":
    """Draw each source's density over its histogram, both on a logarithmic axis.

    Samples count by the posterior of the model; rejected ones are left out.

    Parameters
    ----------
    result
        A fit.
    X
        Samples, shape `(samples, channels)`.
    model
        Which model, counted from 0.
    components
        Which components, counted from 0; None for the first 12.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `X` has other channels than the fit, or there is no such model or component.
    """
    check_model(result, model)
    shown = check_components(result, components, 12)
    X = check_samples(result, X)
    if len(result.kept) == len(X):
        X = X[result.kept]
    sources = result.sources(X, model)
    weights = result.posterior(X)[:, model]
    figure, axes = grid(len(shown), 4, 2.4, 1.9)
    for ax, i in zip(axes, shown, strict=True):
        values = sources[:, i]
        low, high = np.quantile(values, [0.001, 0.999])
        bins = np.linspace(low, high, 61)
        counts, _ = np.histogram(values, bins, weights=weights)
        heights = counts / (weights.sum() * np.diff(bins))
        ax.stairs(heights, bins, fill=True, color=DATA_COLOUR)
        points = np.linspace(low, high, 400)
        ax.plot(points, source_density(result, points, i, model), color=colour(model))
        positive = heights[heights > 0]
        if positive.size:
            ax.set_yscale("log")
            ax.set_ylim(positive.min() / 2, positive.max() * 2)
        ax.set_title(f"IC{i:03d}", fontsize=9)
        ax.tick_params(labelsize=7)
    return figure


def source_density(
    result: Result, values: NDArray[np.float64], component: int, model: int = 0
) -> NDArray[np.float64]:
    r"""Return the fitted density of a source, $\sum_j \alpha_j \beta_j q_j(y_j)$.

    Parameters
    ----------
    result
        A fit.
    values
        Where to evaluate it, in units of the source, shape `(points,)`.
    component, model
        Which source, counted from 0.
    """
    parameters = result.model
    slot = parameters.slots[component, model]
    code = Density(parameters.density[slot])
    alpha, mu, beta, rho = (
        getattr(parameters, name)[:, slot, None]
        for name in ("alpha", "mu", "beta", "rho")
    )
    y = beta * (values - mu)
    kernel = evaluate(code, y, np.broadcast_to(rho, y.shape)).log_kernel
    log_terms = np.log(alpha) + np.log(beta) - log_normalizer(code, rho) + kernel
    return np.exp(log_terms).sum(axis=0)
