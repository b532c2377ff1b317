"""AMICA on patches of scikit-learn's two sample photographs, against FastICA and PCA.

Both photographs (`sklearn.datasets.load_sample_images`) are taken to grey values in 0
to 1, and square patches are cut at random places. Each is less its own mean and divided
by its contrast (its standard deviation plus 0.04), as is usual before ICA. One half is
for training, the other is held out; components are the leading principal ones of the
training patches, sphered.

Every method gives one square unmixing matrix of the sphered training patches. The
source densities are then the same for all: mixtures of three generalised Gaussians,
fitted by EM to the training sources with the matrix held (AMICA has them from its own
fit). The quality is the mean log-likelihood of held-out patches, in nats per patch and
component, the sphering's log-determinant included.
"""

from bench_harness import Case, Workload

_QUALITY = "held-out log-likelihood"

patches = Case(
    name="amica-patches",
    claim=(
        "AMICA explains held-out image patches better than FastICA and PCA when all "
        "three use the same family of source densities."
    ),
    baseline="fastica",
    quality=_QUALITY,
    better="higher",
    profiles={
        "smoke": [{"size": 8, "components": 16, "samples": 5000, "iterations": 120}],
        "laptop": [
            {"size": 8, "components": 32, "samples": 20000, "iterations": 300},
            {"size": 12, "components": 64, "samples": 50000, "iterations": 500},
        ],
        "gpu": [{"size": 12, "components": 64, "samples": 50000, "iterations": 500}],
    },
)

_REQUIRED = {
    "requires": ("amica_core", "sklearn", "PIL"),
    "install": "pip install amica-core pillow",
}
_DENSITY_ITERATIONS = 60


def _patches(size, samples):
    """Return training and held-out patches, each `(samples, size**2)`."""
    import numpy as np
    from sklearn.datasets import load_sample_images
    from sklearn.feature_extraction.image import extract_patches_2d

    images = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    cut = np.concatenate(
        [
            extract_patches_2d(image, (size, size), max_patches=samples, random_state=0)
            for image in images
        ]
    ).reshape(2 * samples, -1)
    cut = np.random.default_rng(0).permutation(cut)
    cut -= cut.mean(axis=1, keepdims=True)
    cut /= cut.std(axis=1, keepdims=True) + 0.04
    return cut[:samples], cut[samples:]


def _fit_densities(training, components, unmixing):
    """Fit the source densities that go with an unmixing matrix in sphered space."""
    import amica_core
    import numpy as np

    mixing = np.linalg.inv(unmixing)
    first = amica_core.initial_model(components)
    return amica_core.fit(
        training,
        components,
        sphering="principal",
        max_iter=_DENSITY_ITERATIONS,
        init=first._replace(A=mixing / np.linalg.norm(mixing, axis=0)),
        fixed=("A", "c"),
    )


def _workload(fit, size, components, samples):
    """Time `fit(training) -> Result` and score its model on held-out patches."""
    training, held_out = _patches(size, samples)

    def quality(result):
        joint = result.joint_log_likelihood(held_out)
        return {
            _QUALITY: joint.mean() / components,
            "training log-likelihood": result.log_likelihood,
            "iterations": result.n_iter,
        }

    return Workload(
        run=lambda: fit(training),
        quality=quality,
        curves=lambda result: {"log-likelihood": result.history.log_likelihood},
        repeats=0,  # one long fit, measured once
    )


@patches.contender("amica", **_REQUIRED)
def _(size, components, samples, iterations):
    import amica_core

    def fit(training):
        return amica_core.fit(
            training,
            components,
            sphering="principal",
            max_iter=iterations,
            learning_rate=amica_core.LearningRate(0.1),
            newton=amica_core.Newton(start=20),
            random_state=0,
        )

    return _workload(fit, size, components, samples)


@patches.contender("fastica", **_REQUIRED)
def _(size, components, samples, iterations):
    import amica_core
    from sklearn.decomposition import FastICA

    def fit(training):
        white = amica_core.sphere(training, components, kind="principal").apply(
            training
        )
        ica = FastICA(whiten=False, max_iter=200, random_state=0).fit(white)
        return _fit_densities(training, components, ica.components_)

    del iterations
    return _workload(fit, size, components, samples)


@patches.contender("pca", **_REQUIRED)
def _(size, components, samples, iterations):
    import numpy as np

    del iterations
    return _workload(
        lambda training: _fit_densities(training, components, np.eye(components)),
        size,
        components,
        samples,
    )
