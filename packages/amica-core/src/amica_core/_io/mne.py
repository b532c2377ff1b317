"""MNE-Python: fit its recordings, and turn a fit into its `ICA` and back.

Samples are in MNE's display units (EEG in microvolts, magnetometers in femtotesla), so
that channels of different types have comparable sizes.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.ndimage
from numpy.typing import NDArray

from .._check import check_integer
from .._fit import fit
from .._history import History
from .._model import initial_model
from .._result import Result
from .._sphere import Sphering

if TYPE_CHECKING:
    import mne


def fit_mne(
    inst: "mne.io.BaseRaw | mne.BaseEpochs",
    n_components: int | None = None,
    *,
    picks: Any = None,
    reject_by_annotation: bool = True,
    **settings: Any,
) -> "mne.preprocessing.ICA":
    """Fit AMICA to a recording or to epochs of MNE.

    Parameters
    ----------
    inst
        Raw or Epochs, high-pass filtered (1 Hz suits EEG).
    n_components
        Components to keep; None for the rank of the data, which average reference,
        projections and interpolation lower.
    picks
        Channels; None for good data channels.
    reject_by_annotation
        Leave out what annotations that begin with "bad" mark in Raw.
    **settings
        Further arguments of `fit`.

    Returns
    -------
    mne.preprocessing.ICA
        The model of highest prior, components by explained variance. Its attribute
        `amica_` is the whole `Result`, which `to_mne` turns into one ICA a model; MNE
        does not save that attribute, `save_result` does.

    Raises
    ------
    ImportError
        If MNE is missing.
    TypeError
        If `inst` is something else.

    Warns
    -----
    RuntimeWarning
        If the data were not high-pass filtered.

    Examples
    --------
    >>> raw = mne.io.read_raw("rest.fif", preload=True)  # doctest: +SKIP
    >>> ica = fit_mne(raw.filter(1, None), random_state=0)  # doctest: +SKIP
    >>> ica.plot_components()  # doctest: +SKIP
    """
    X, info = mne_samples(inst, picks=picks, reject_by_annotation=reject_by_annotation)
    result = fit(X, n_components, **settings).sorted()
    ica = to_mne(result, info)
    ica.n_samples_ = len(X)
    ica.current_fit = "epochs" if _is_epochs(inst) else "raw"
    ica.amica_ = result
    return ica


def mne_samples(
    inst: "mne.io.BaseRaw | mne.BaseEpochs",
    *,
    picks: Any = None,
    reject_by_annotation: bool = True,
) -> tuple[NDArray[np.float64], "mne.Info"]:
    """Return what `fit_mne` fits: `(samples, channels)` in display units.

    Parameters
    ----------
    inst, picks, reject_by_annotation
        See `fit_mne`. Projections are applied.

    Returns
    -------
    X
        Samples, epochs one after the other.
    info
        Of the channels picked.
    """
    mne = import_mne()
    if not isinstance(inst, mne.io.BaseRaw | mne.BaseEpochs):
        raise TypeError(f"`inst` must be Raw or Epochs of MNE, got {type(inst)}")
    if inst.info["highpass"] < 0.1:
        warnings.warn(
            "the recording does not say that it was high-pass filtered; drifts spoil "
            "an ICA, 1 Hz suits EEG",
            RuntimeWarning,
            stacklevel=3,
        )
    info = _picked(inst.info, picks)
    if _is_epochs(inst):
        epochs = inst.get_data(picks=info["ch_names"])
        data = epochs.transpose(1, 0, 2).reshape(epochs.shape[1], -1)
    else:
        omit = "omit" if reject_by_annotation else None
        data = inst.get_data(
            info["ch_names"], reject_by_annotation=omit, verbose="error"
        )
    if not all(projection["active"] for projection in info["projs"]):
        from mne.proj import make_projector

        projector, _, _ = make_projector(info["projs"], info["ch_names"])
        data = projector @ data
    data *= _scales(info)[:, None]
    return data.T, info


def to_mne(result: Result, info: "mne.Info", model: int = 0) -> "mne.preprocessing.ICA":
    """Return one model of a fit as an ICA of MNE.

    The sources of the ICA are `result.sources`, the centre of the model included.

    Parameters
    ----------
    result
        A fit of samples in display units, as `mne_samples` gives.
    info
        Of the channels that were fitted, in their order.
    model
        Which model, counted from 0.

    Raises
    ------
    ImportError
        If MNE is missing.
    ValueError
        If `info` has another number of channels, or there is no such model.
    """
    mne = import_mne()
    sphering = result.sphering
    n, n_channels = sphering.matrix.shape
    if len(info["ch_names"]) != n_channels:
        raise ValueError(
            f"`info` must have the {n_channels} channels of the fit, got "
            f"{len(info['ch_names'])}"
        )
    check_integer("model", model, 0)
    if model >= result.model.n_models:
        raise ValueError(
            f"`model` must be below {result.model.n_models}, the number of models, got "
            f"{model}"
        )
    # MNE wants orthonormal components that hold the space of the sources first.
    basis, deviations, _ = np.linalg.svd(sphering.inverse, full_matrices=True)
    ica = mne.preprocessing.ICA(n_components=n, method="infomax", verbose="error")
    ica.method = "amica"
    ica.fit_params = {}
    ica.current_fit = "raw"
    ica.info = info
    ica.ch_names = info["ch_names"]
    ica.n_components_ = n
    ica.n_iter_ = result.n_iter
    ica.n_samples_ = len(result.kept)
    ica.reject_ = None
    ica.pre_whitener_ = 1 / _scales(info)[:, None]
    ica.pca_mean_ = sphering.mean + sphering.inverse @ result.model.c[:, model]
    ica.pca_components_ = basis.T
    ica.pca_explained_variance_ = np.concatenate(
        [deviations**2, np.clip(sphering.variances[n:], 0, None)]
    )
    ica.unmixing_matrix_ = result.unmixing(model) @ basis[:, :n]
    ica.mixing_matrix_ = scipy.linalg.pinv(ica.unmixing_matrix_)
    ica._update_ica_names()
    return ica


def from_mne(ica: "mne.preprocessing.ICA", n_mixtures: int = 3) -> Result:
    """Return any fitted ICA of MNE as the start of an AMICA fit.

    `fit(X, init=from_mne(ica))` with the samples of `mne_samples` goes on from the
    unmixing matrix of Infomax, Picard or FastICA. Densities are those of a fresh start.

    Parameters
    ----------
    ica
        A fitted ICA.
    n_mixtures
        Mixture terms of each source.

    Raises
    ------
    ValueError
        If `ica` is not fitted, or was fitted with a noise covariance.
    """
    if ica.current_fit == "unfitted":
        raise ValueError("`ica` must be fitted")
    if ica.noise_cov is not None:
        raise ValueError("`ica` must have been fitted without a noise covariance")
    n = ica.n_components_
    # From display units to the units in which the ICA has its components.
    scales = 1 / (_scales(ica.info) * ica.pre_whitener_.ravel())
    matrix = ica.pca_components_[:n] * scales
    variances = np.asarray(ica.pca_explained_variance_, dtype=np.float64)
    matrix = matrix / np.sqrt(variances[:n, None])
    unmixing = ica.unmixing_matrix_ * np.sqrt(variances[:n])
    mixing = np.linalg.inv(unmixing)
    mean = np.zeros(len(scales)) if ica.pca_mean_ is None else ica.pca_mean_ / scales
    log_det = 0.5 * float(np.linalg.slogdet(matrix @ matrix.T)[1])
    sphering = Sphering(
        mean, matrix, np.asarray(np.linalg.pinv(matrix), np.float64), log_det, variances
    )
    model = initial_model(n, 1, n_mixtures)
    return Result(
        model=model._replace(A=mixing / np.linalg.norm(mixing, axis=0)),
        sphering=sphering,
        history=History.of([]),
        kept=np.ones(0, dtype=bool),
        stop_reason="interrupted",
    )


def posteriors_to_mne(
    result: Result, raw: "mne.io.BaseRaw", picks: Any = None
) -> "mne.io.RawArray":
    """Return the posterior of each model as channels "AMICA model 1", ...

    Parameters
    ----------
    result
        A fit of this recording, or of another one with the same channels.
    raw
        The recording; all of it is judged, annotations or not.
    picks
        The channels that were fitted.

    Returns
    -------
    mne.io.RawArray
        Channels of type "misc", aligned with `raw` (`raw.add_channels` takes them).
    """
    mne = import_mne()
    X, _ = mne_samples(raw, picks=picks, reject_by_annotation=False)
    posterior = result.posterior(X)
    names = [f"AMICA model {h + 1}" for h in range(posterior.shape[1])]
    info = mne.create_info(names, raw.info["sfreq"], "misc")
    with info._unlock():
        for key in ("highpass", "lowpass"):
            info[key] = raw.info[key]
    channels = mne.io.RawArray(
        posterior.T, info, first_samp=raw.first_samp, verbose="error"
    )
    return channels.set_meas_date(raw.info["meas_date"])


def annotate_models(
    result: Result,
    raw: "mne.io.BaseRaw",
    *,
    min_duration: float = 0.5,
    picks: Any = None,
) -> "mne.Annotations":
    """Return which model is the most probable when: annotations "AMICA model 1", ...

    Parameters
    ----------
    result, raw, picks
        See `posteriors_to_mne`.
    min_duration
        Log-likelihoods are averaged over this many seconds first, so that short
        changes of mind are left out.
    """
    mne = import_mne()
    X, _ = mne_samples(raw, picks=picks, reject_by_annotation=False)
    width = max(1, round(min_duration * raw.info["sfreq"]))
    joint = result.joint_log_likelihood(X)
    smooth = scipy.ndimage.uniform_filter1d(joint, width, axis=0)
    best = smooth.argmax(axis=1)
    spans = [
        (*span, f"AMICA model {h + 1}")
        for h in range(joint.shape[1])
        for span in _spans(best == h)
    ]
    return _annotations(mne, raw, sorted(spans))


def annotate_rejected(
    result: Result, raw: "mne.io.BaseRaw", *, reject_by_annotation: bool = True
) -> "mne.Annotations":
    """Return where samples were rejected in the fit, as annotations "BAD_amica".

    Parameters
    ----------
    result
        A fit of this recording by `fit_mne`.
    raw
        The recording, with the annotations it had then.
    reject_by_annotation
        As in that fit.
    """
    mne = import_mne()
    used = np.arange(raw.n_times)
    if reject_by_annotation:
        _, times = raw.get_data(
            [0], reject_by_annotation="omit", return_times=True, verbose="error"
        )
        used = raw.time_as_index(times, use_rounding=True)
    if len(used) != len(result.kept):
        raise ValueError(
            f"`raw` must have the {len(result.kept)} samples of the fit, got "
            f"{len(used)}; were its annotations changed?"
        )
    rejected = np.zeros(raw.n_times, dtype=bool)
    rejected[used[~result.kept]] = True
    spans = [(*span, "BAD_amica") for span in _spans(rejected)]
    return _annotations(mne, raw, spans)


def import_mne() -> Any:
    """Import MNE, or say how to install it."""
    try:
        import mne
    except ModuleNotFoundError as error:
        raise ImportError(
            'this needs MNE; install it with `pip install "amica-core[mne]"`'
        ) from error
    return mne


def _is_epochs(inst: Any) -> bool:
    return isinstance(inst, import_mne().BaseEpochs)


def _picked(info: "mne.Info", picks: Any) -> "mne.Info":
    """Return the part of `info` that belongs to the channels picked."""
    mne = import_mne()
    empty = mne.io.RawArray(
        np.zeros((len(info["ch_names"]), 1)), info.copy(), verbose="error"
    )
    empty.pick("data" if picks is None else picks, exclude="bads", verbose="error")
    return empty.info


def _scales(info: "mne.Info") -> NDArray[np.float64]:
    """Return what takes SI units to display units, shape `(channels,)`."""
    mne = import_mne()
    scalings = mne.defaults.DEFAULTS["scalings"]
    return np.array([float(scalings.get(t, 1.0)) for t in info.get_channel_types()])


def _spans(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return start and stop of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _annotations(
    mne: Any, raw: "mne.io.BaseRaw", spans: list[tuple[int, int, str]]
) -> "mne.Annotations":
    rate = raw.info["sfreq"]
    offset = raw.first_time if raw.info["meas_date"] is not None else 0.0
    return mne.Annotations(
        onset=[start / rate + offset for start, _, _ in spans],
        duration=[(stop - start) / rate for start, stop, _ in spans],
        description=[name for _, _, name in spans],
        orig_time=raw.info["meas_date"],
    )
