"""AMICA as a scikit-learn estimator."""

import os
from collections.abc import Collection, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    validate_data,  # pyrefly: ignore[missing-module-attribute] (old stubs)
)

from ._check import check_integer
from ._fit import DensityName, Solver, fit
from ._model import Model
from ._rejection import Rejection
from ._result import Result
from ._settings import Bounds, LearningRate, Newton, Stopping
from ._sharing import Sharing
from ._sphere import SpheringKind
from ._switching import Switching


class AMICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Adaptive mixture independent component analysis.

    1. Channels are centred and sphered; the rank of the data is found.
    2. EM learns unmixing matrices and, for each source, a mixture of generalised
       Gaussians; several models compete for the samples where `n_models > 1`.
    3. Models are ordered by prior, components by the variance they explain.

    Linear methods (`transform`, `inverse_transform`, `components_`, ...) refer to the
    model of highest prior unless `model` says otherwise.

    Parameters
    ----------
    n_components : int or None, default=None
        Components to keep, at most the rank of the data; None keeps the rank.
    n_models : int, default=1
        ICA models in the mixture.
    n_mixtures : int, default=3
        Terms in the density of each source.
    density : str or Switching, default="generalized_gaussian"
        Kind of these terms: `"generalized_gaussian"` (its shape is learnt),
        `"super_gaussian"`, `"gaussian"`, `"logistic"`, `"sub_gaussian"`, or
        `"switching"` between sub and super by kurtosis.
    sphering : {"symmetric", "principal", "diagonal"}, default="symmetric"
        How channels are made white.
    center : bool, default=True
        Whether channel means are subtracted.
    max_iter : int, default=2000
        Most iterations.
    solver : {"em", "quasi_newton"}, default="em"
        EM's own steps, or L-BFGS over all parameters, which needs several times fewer
        iterations; see `amica_core.fit`.
    learning_rate : LearningRate or None, default=None
        Step sizes; None for `LearningRate()`.
    newton : Newton or bool, default=True
        When Newton steps begin; True for `Newton()`, False for natural gradient only.
    stopping : Stopping or None, default=None
        Stop rules; None for `Stopping()`, with the quasi-Newton solver
        `Stopping(min_change=1e-7)`.
    rejection : Rejection or None, default=None
        Leave samples out that no model explains.
    sharing : Sharing or None, default=None
        Let models share components.
    bounds : Bounds or None, default=None
        Limits of scales and shapes; None for `Bounds()`.
    fixed : collection of str, default=()
        Fields of `Model` that keep their first values.
    init : {"random", "fixed"}, Model or Result, default="random"
        First values; see `amica_core.fit`.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, with its sphering.
    random_state : int, RandomState or None, default=None
        Seed of the first values.
    compatibility : {"fortran"} or None, default=None
        Reproduce the Fortran program where it errs.
    backend : {"native", "numpy", "torch"} or None, default=None
        Engine of the E-step; None for `"native"` where it is installed, else `"numpy"`.
    backend_options : dict or None, default=None
        Settings of the engine.
    checkpoint : path or None, default=None
        File that keeps the state of the fit, and from which it goes on.
    checkpoint_interval : int, default=50
        Iterations between two writings of `checkpoint`.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    components_ : ndarray of shape (n, n_features_in_)
        Unmixing matrix.
    mixing_ : ndarray of shape (n_features_in_, n)
        Maps of the components on the channels; pseudo-inverse of `components_`.
    mean_ : ndarray of shape (n_features_in_,)
        Channel means.
    explained_variance_ : ndarray of shape (n,)
        What each component adds to the channels' variance, descending.
    n_iter_ : int
        Iterations that were run.
    log_likelihood_ : ndarray of shape (n_iter_,)
        Nats per sample and component in every iteration.
    result_ : Result
        All models, densities, history and rejected samples.
    n_features_in_ : int
        Channels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the channels, where `X` had names.

    See Also
    --------
    fit : The function underneath.

    Notes
    -----
    EEG should be high-pass filtered (1 Hz) before. Rules of thumb ask for at least
    20 to 30 samples for each of the squared number of channels.

    References
    ----------
    J. A. Palmer, K. Kreutz-Delgado and S. Makeig, *AMICA: an adaptive mixture of
    independent component analyzers with shared components*, UCSD, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from amica_core import AMICA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    >>> amica = AMICA(max_iter=30, random_state=0).fit(X)
    >>> amica.transform(X).shape
    (2000, 3)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_models: int = 1,
        n_mixtures: int = 3,
        density: DensityName | Switching = "generalized_gaussian",
        sphering: SpheringKind = "symmetric",
        center: bool = True,
        max_iter: int = 2000,
        solver: Solver = "em",
        learning_rate: LearningRate | None = None,
        newton: Newton | bool = True,
        stopping: Stopping | None = None,
        rejection: Rejection | None = None,
        sharing: Sharing | None = None,
        bounds: Bounds | None = None,
        fixed: Collection[str] = (),
        init: Literal["random", "fixed"] | Model | Result = "random",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        compatibility: Literal["fortran"] | None = None,
        backend: str | None = None,
        backend_options: Mapping[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_interval: int = 50,
        verbose: bool = False,
    ):
        self.n_components = n_components
        self.n_models = n_models
        self.n_mixtures = n_mixtures
        self.density = density
        self.sphering = sphering
        self.center = center
        self.max_iter = max_iter
        self.solver = solver
        self.learning_rate = learning_rate
        self.newton = newton
        self.stopping = stopping
        self.rejection = rejection
        self.sharing = sharing
        self.bounds = bounds
        self.fixed = fixed
        self.init = init
        self.warm_start = warm_start
        self.random_state = random_state
        self.compatibility = compatibility
        self.backend = backend
        self.backend_options = backend_options
        self.checkpoint = checkpoint
        self.checkpoint_interval = checkpoint_interval
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: None = None) -> "AMICA":
        """Learn the models from samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Real, finite samples, more of them than channels.
        y : None
            Ignored.

        Returns
        -------
        AMICA
            The estimator itself.
        """
        data = validate_data(self, X, skip_check_array=True)
        resumes = self.warm_start and hasattr(self, "result_")
        result = fit(
            data,
            self.n_components,
            n_models=self.n_models,
            n_mixtures=self.n_mixtures,
            density=self.density,
            sphering=self.sphering,
            center=self.center,
            max_iter=self.max_iter,
            solver=self.solver,
            learning_rate=self.learning_rate,
            newton=self.newton,
            stopping=self.stopping,
            rejection=self.rejection,
            sharing=self.sharing,
            bounds=self.bounds,
            fixed=self.fixed,
            init=self.result_ if resumes else self.init,
            random_state=self.random_state,
            compatibility=self.compatibility,
            backend=self.backend,
            backend_options=self.backend_options,
            checkpoint=self.checkpoint,
            checkpoint_interval=self.checkpoint_interval,
            verbose=self.verbose,
        )
        self.result_ = result.sorted()
        self.components_ = self.result_.unmixing()
        self.mixing_ = self.result_.mixing()
        self.mean_ = self.result_.sphering.mean
        self.explained_variance_ = self.result_.variances()
        self.n_iter_ = self.result_.n_iter
        self.log_likelihood_ = self.result_.history.log_likelihood
        return self

    def transform(self, X: ArrayLike, *, model: int = 0) -> NDArray[np.float64]:
        """Return the sources, shape `(n_samples, n)`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        model : int, default=0
            Which model unmixes, by descending prior.
        """
        return self._result_for(model).sources(self._samples(X), model)

    def inverse_transform(self, S: ArrayLike, *, model: int = 0) -> NDArray[np.float64]:
        """Return the samples that sources make, shape `(n_samples, n_features)`.

        Parameters
        ----------
        S : array-like of shape (n_samples, n)
            Sources, as `transform` gives them; set columns to zero to remove them.
        model : int, default=0
            Which model mixes.
        """
        result = self._result_for(model)
        sources = check_array(S, dtype=np.float64, input_name="S")
        n = result.model.n_components
        if sources.shape[1] != n:
            raise ValueError(
                f"`S` must have {n} columns, one a component, got {sources.shape[1]}"
            )
        return result.recording(sources, model)

    def score_samples(
        self, X: ArrayLike, *, by_model: bool = False
    ) -> NDArray[np.float64]:
        """Return the log-likelihood of each sample in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        by_model : bool, default=False
            Whether to return the joint log-likelihood of sample and model, shape
            `(n_samples, n_models)`, whose log-sum-exp over models is the
            log-likelihood, shape `(n_samples,)`.
        """
        check_is_fitted(self)
        joint = self.result_.joint_log_likelihood(self._samples(X))
        return joint if by_model else logsumexp(joint, axis=1)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return the mean log-likelihood of a sample in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.
        """
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the posterior probability of each model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_models)
            Rows sum to 1; models are in descending order of prior.
        """
        check_is_fitted(self)
        return self.result_.posterior(self._samples(X))

    def _result_for(self, model: int) -> Result:
        """Return `result_` after a check that it has this model."""
        check_is_fitted(self)
        check_integer("model", model, 0)
        if model >= self.result_.model.n_models:
            raise ValueError(
                f"`model` must be below {self.result_.model.n_models}, got {model}"
            )
        return self.result_

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _samples(self, X: ArrayLike) -> NDArray:
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
