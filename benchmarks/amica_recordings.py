"""AMICA on whole EEG recordings, against FastICA, Picard and extended Infomax.

The recordings are high-passed at 1 Hz and sphered. Every method gives one unmixing
matrix of the same sphered samples. What it is worth is measured in two ways:

* the log-likelihood, in nats per sample and component, under the same family of source
  densities for all: mixtures of three generalised Gaussians. For the other methods they
  are fitted to the sources with the mixing matrix and the centres held (`fixed`);
* the mutual information reduction: how many nats per sample the sources have lost of
  the mutual information that the sphered channels share, by histograms of the marginals
  alone (Delorme et al., *Independent EEG sources are dipolar*, 2012).

Times are those of the methods as they come, to where each stops.
"""

from bench_harness import Case, Workload

_QUALITY = "log-likelihood"

recordings = Case(
    name="amica-recordings",
    claim=(
        "AMICA explains whole EEG recordings better than FastICA, Picard and extended "
        "Infomax, and removes at least as much mutual information."
    ),
    baseline="amica",
    quality=_QUALITY,
    better="higher",
    tolerance=1e-3,
    profiles={
        "laptop": [
            {"recording": "eeglab", "components": 32, "samples": None},
            {"recording": "eegmmidb", "components": 64, "samples": None},
        ],
    },
)

_CORE = {"requires": ("amica_core", "mne"), "install": "pip install 'amica-core[mne]'"}
_NATIVE = _CORE | {
    "requires": ("amica_core", "amica_native", "mne"),
    "install": "pip install 'amica-core[native,mne]'",
}


def _workload(fit, recording, components, samples):
    """Time `fit(X, x) -> Result or unmixing matrix of x`, and score it."""
    import amica_core
    import numpy as np
    from _recordings import read_recording

    X = read_recording(recording)[:samples]
    sphering = amica_core.sphere(X, components)
    x = sphering.apply(X)

    def quality(out):
        scores = {}
        if isinstance(out, amica_core.Result):
            fitted, W = out, out.model.unmixing(0)
            scores["iterations"] = float(out.n_iter)
        else:
            W = out
            A = np.linalg.inv(W)
            first = amica_core.initial_model(components)
            fitted = amica_core.fit(
                X,
                components,
                init=first._replace(A=A / np.linalg.norm(A, axis=0)),
                fixed=("A", "c"),
                solver="quasi_newton",
                max_iter=300,
            )
        return {
            _QUALITY: fitted.log_likelihood,
            "mutual information reduction": amica_core.mutual_information_reduction(
                x, W
            ),
            **scores,
        }

    return Workload(run=lambda: fit(X, x), quality=quality, repeats=0)


def _amica(solver, max_iter, recording, components, samples):
    import amica_core

    def fit(X, x):
        return amica_core.fit(
            X, components, solver=solver, max_iter=max_iter, random_state=0
        )

    return _workload(fit, recording, components, samples)


@recordings.contender("amica", **_NATIVE)
def _(recording, components, samples):
    return _amica("em", 2000, recording, components, samples)


@recordings.contender("amica quasi-Newton", **_NATIVE)
def _(recording, components, samples):
    return _amica("quasi_newton", 2000, recording, components, samples)


@recordings.contender("fastica", **_CORE)
def _(recording, components, samples):
    from sklearn.decomposition import FastICA

    def fit(X, x):
        return FastICA(whiten=False, max_iter=500, random_state=0).fit(x).components_

    return _workload(fit, recording, components, samples)


@recordings.contender(
    "picard",
    requires=("amica_core", "picard", "mne"),
    install="pip install 'amica-core[mne]' python-picard",
)
def _(recording, components, samples):
    import numpy as np
    import picard

    def fit(X, x):
        return picard.picard(
            x.T,
            ortho=False,
            extended=True,
            whiten=False,
            centering=False,
            w_init=np.eye(components),
            max_iter=500,
        )[1]

    return _workload(fit, recording, components, samples)


@recordings.contender("infomax", **_CORE)
def _(recording, components, samples):
    import mne

    def fit(X, x):
        return mne.preprocessing.infomax(
            x, extended=True, max_iter=500, random_state=0, verbose="error"
        )

    return _workload(fit, recording, components, samples)
