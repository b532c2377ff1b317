"""What one EM iteration of AMICA costs: every program from the same start.

Synthetic recordings: channels are a random mixture of independent sources with heavy
tails (generalised Gaussians of shape 0.8 to 1.6), float32. One model, three mixture
terms; every program sphers the data, starts from A = I, centres -1, 0, 1, scales 1 and
shapes 1.5, has its stopping rules off, takes natural-gradient steps first and Newton
steps from `newton_start` on. Two threads each.

The columns are those of the comparisons that are published for these programs:
milliseconds of iteration 1, of a gradient iteration, of a Newton iteration (medians;
the first iteration of each phase is left out, as it may compile), the total, the final
log-likelihood. A fit is run once, so iteration 1 and the total hold what a program
compiles. `cpu ms` is the processor time of a Newton iteration by the number of threads:
on a busy machine it says more than the clock. `gradient / native` and `newton / native`
are the speed-ups of `native float32` over the contender in the two phases, each against
a fit that the same process does directly afterwards. Memory (`resident peak`) is what
the fit adds to a process that holds the recording.

`floor ms` is the time that an iteration cannot beat with the kernels' own elementary
functions and NumPy's BLAS: for each sample, source and term two exponentials and one
logarithm, for each sample two products with an n x n matrix, at the speeds that each
reaches alone, in cache, on one thread; and one reading of the data at the speed of a
copy. The larger of computing and reading counts.
"""

import time

from bench_harness import Case, Unavailable, Workload

_THREADS = 2
_HEADLINE = "newton ms"

iteration = Case(
    name="amica-iteration",
    claim=(
        "One EM iteration in the compiled kernels, in float32, takes a small fraction "
        "of that in any other program."
    ),
    baseline="native float32",
    quality=_HEADLINE,
    better="lower",
    tolerance=1e9,  # times on a shared machine: `compare` judges them by their ratios
    profiles={
        "smoke": [{"channels": 16, "samples": 10_000, "iterations": 6}],
        "laptop": [{"channels": 71, "samples": 319_500, "iterations": 8}],
        "gpu": [{"channels": 71, "samples": 319_500, "iterations": 20}],
    },
    env={
        "OMP_NUM_THREADS": str(_THREADS),
        "OPENBLAS_NUM_THREADS": str(_THREADS),
        "MKL_NUM_THREADS": str(_THREADS),
    },
)


def _recording(channels, samples):
    """Return `(samples, channels)` float32."""
    import numpy as np

    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.normal(size=(channels, channels)))[0]
    mixing *= rng.uniform(0.5, 5, channels)
    recording = np.empty((samples, channels), np.float32)
    shape = rng.uniform(0.8, 1.6, channels)
    for start in range(0, samples, 16384):
        size = (min(16384, samples - start), channels)
        heavy = rng.gamma(1 / shape, size=size) ** (1 / shape)
        recording[start : start + size[0]] = (
            heavy * rng.choice([-1.0, 1.0], size)
        ) @ mixing.T
    return recording


class _Laps:
    """Wall and processor times at the start of each iteration and at the end."""

    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append((time.perf_counter(), time.process_time()))

    def before(self, function):
        """Return `function`, preceded by a mark."""

        def marked(*args, **kwargs):
            self.mark()
            return function(*args, **kwargs)

        return marked


def _phases(marks, iterations):
    """Return milliseconds of iterations and their processor's, and the two medians."""
    import numpy as np

    start = _newton_start(iterations)
    wall, cpu = 1000 * np.diff(np.asarray(marks, float), axis=0).T
    return (
        wall,
        cpu,
        float(np.median(wall[1 : start - 1])),
        float(np.median(wall[start:])),
    )


def _workload(fit, recording, iterations, floor=None, is_native=False):
    """Time `fit() -> (marks, log-likelihoods)`; marks are two columns in seconds."""
    start = _newton_start(iterations)

    def quality(out):
        import numpy as np

        marks, log_likelihood = out
        wall, cpu, gradient, newton = _phases(marks, iterations)
        scores = {
            _HEADLINE: newton,
            "iteration 1 ms": float(wall[0]),
            "gradient ms": gradient,
            "cpu ms": float(np.median(cpu[start:])) / _THREADS,
            "total s": float(wall.sum()) / 1000,
            "log-likelihood 1": float(log_likelihood[0]),
            "log-likelihood": float(log_likelihood[-1]),
        }
        native = (
            (gradient, newton) if is_native else _native_phases(recording, iterations)
        )
        if native is not None:
            scores["gradient / native"] = gradient / native[0]
            scores["newton / native"] = newton / native[1]
        if floor is not None:
            scores["floor ms"] = floor()
            scores["newton / floor"] = scores[_HEADLINE] / scores["floor ms"]
            scores["cpu / floor"] = scores["cpu ms"] / scores["floor ms"]
        return scores

    return Workload(run=fit, quality=quality, repeats=0)


def _newton_start(iterations):
    """Return the iteration (from 1) of the first Newton step."""
    return iterations // 2


def _floor(dtype, channels, samples, terms=3):
    """Milliseconds that an iteration of `_THREADS` threads cannot beat."""
    import amica_native
    import numpy as np
    import threadpoolctl

    def fastest(run, times=200):
        best = np.inf
        for _ in range(times):
            begin = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - begin)
        return best

    def per_element(function):
        # The difference of two lengths is free of the cost of a call.
        short, long = (np.full(size, 1.5, dtype) for size in (4096, 12288))
        return (fastest(lambda: function(long)) - fastest(lambda: function(short))) / (
            len(long) - len(short)
        )

    elements = samples * channels * terms
    elementary = elements * (
        2 * per_element(amica_native.exp2) + per_element(amica_native.log2)
    )
    square, block = (
        np.ones((channels, channels), dtype),
        np.ones((channels, 512), dtype),
    )
    product = np.empty_like(block)
    with threadpoolctl.threadpool_limits(1):
        products = (
            2 * samples / 512 * fastest(lambda: np.matmul(square, block, out=product))
        )
    large = np.ones(1 << 25, np.uint8)
    copy = np.empty_like(large)
    bandwidth = 2 * large.nbytes / fastest(lambda: np.copyto(copy, large), 20)
    reading = samples * channels * np.dtype(dtype).itemsize / bandwidth
    return 1000 * max((elementary + products) / _THREADS, reading)


def _fit_core(recording, iterations, backend, options):
    """Fit with one of amica_core's backends; return marks and log-likelihoods."""
    import amica_core
    from amica_core import _em

    laps, iterate = _Laps(), _em._iterate
    _em._iterate = laps.before(iterate)
    try:
        result = amica_core.fit(
            recording,
            max_iter=iterations,
            learning_rate=amica_core.LearningRate(0.1),
            newton=amica_core.Newton(start=_newton_start(iterations)),
            stopping=amica_core.Stopping(min_change=None, min_gradient=None),
            init="fixed",
            backend=backend,
            backend_options=options,
        )
    finally:
        _em._iterate = iterate
    laps.mark()
    return laps.marks, result.history.log_likelihood


def _native_phases(recording, iterations):
    """Return what the two phases take in `native float32`; None where it is missing."""
    from importlib.util import find_spec

    import numpy as np

    if not (find_spec("amica_core") and find_spec("amica_native")):
        return None
    options = {"dtype": "float32", "n_jobs": _THREADS}
    recording = np.asarray(recording)
    marks, _ = _fit_core(recording, iterations, "native", options)
    return _phases(marks, iterations)[2:]


def _amica_core(backend, channels, samples, iterations, **options):
    from amica_core._backend.protocol import load_backend

    try:
        load_backend(backend, **options)
    except (ImportError, ValueError) as error:
        raise Unavailable(str(error)) from error
    recording = _recording(channels, samples)
    floor = None
    if backend == "native":

        def floor():
            return _floor(options["dtype"], channels, samples)

    return _workload(
        lambda: _fit_core(recording, iterations, backend, options),
        recording,
        iterations,
        floor,
        is_native=(backend, options.get("dtype")) == ("native", "float32"),
    )


_CORE = {"requires": ("amica_core",), "install": "pip install 'amica-core[native]'"}
_NATIVE = _CORE | {"requires": ("amica_core", "amica_native")}
_TORCH = {
    "requires": ("amica_core", "torch"),
    "install": "pip install 'amica-core[torch]'",
}


@iteration.contender("native float32", **_NATIVE)
def _(channels, samples, iterations):
    return _amica_core(
        "native", channels, samples, iterations, dtype="float32", n_jobs=_THREADS
    )


@iteration.contender("native float64", **_NATIVE)
def _(channels, samples, iterations):
    return _amica_core(
        "native", channels, samples, iterations, dtype="float64", n_jobs=_THREADS
    )


@iteration.contender("numpy", **_CORE)
def _(channels, samples, iterations):
    return _amica_core("numpy", channels, samples, iterations)


@iteration.contender("torch float32", **_TORCH)
def _(channels, samples, iterations):
    return _amica_core("torch", channels, samples, iterations, dtype="float32")


@iteration.contender("torch float32 compiled", **_TORCH)
def _(channels, samples, iterations):
    if samples < 100_000:
        raise Unavailable("compiling takes longer than the whole case at this size")
    return _amica_core(
        "torch", channels, samples, iterations, dtype="float32", compile=True
    )


@iteration.contender("torch float32 cuda", **_TORCH)
def _(channels, samples, iterations):
    return _amica_core(
        "torch", channels, samples, iterations, device="cuda", dtype="float32"
    )


@iteration.contender("torch float32 cuda compiled", **_TORCH)
def _(channels, samples, iterations):
    return _amica_core(
        "torch",
        channels,
        samples,
        iterations,
        device="cuda",
        dtype="float32",
        compile=True,
    )


@iteration.contender(
    "fortran",
    requires=("amica_core",),
    install="set AMICA_FORTRAN to the path of the program (github.com/sccn/amica)",
)
def _(channels, samples, iterations):
    import amica_core
    import numpy as np
    from amica_core._fortran import fit as adapter

    try:
        program = amica_core.find_fortran_program()
    except OSError as error:
        raise Unavailable(str(error)) from error
    recording = _recording(channels, samples)
    run_fortran = adapter.run_fortran
    runs = []

    def keep_run(*args, **kwargs):
        runs.append(run_fortran(*args, **kwargs))
        return runs[-1]

    adapter.run_fortran = keep_run

    def fit():
        import resource

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = amica_core.fit_fortran(
            recording,
            max_iter=iterations,
            learning_rate=amica_core.LearningRate(0.1),
            newton=amica_core.Newton(start=_newton_start(iterations)),
            stopping=amica_core.Stopping(min_change=None, min_gradient=None),
            init="fixed",
            program=program,
            n_threads=_THREADS,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # The program prints hundredths of a second of each iteration, and no
        # processor time: that of the whole run is spread evenly.
        wall = np.array([record.seconds for record in runs[-1].log.records])
        cpu = np.full_like(wall, (after.ru_utime - before.ru_utime) / len(wall))
        marks = np.cumsum(np.vstack([[0, 0], np.column_stack([wall, cpu])]), axis=0)
        return marks, result.history.log_likelihood

    return _workload(fit, recording, iterations)


def _jamica(dtype, channels, samples, iterations):
    import jamica
    import numpy as np
    from jamica import solver

    recording = np.ascontiguousarray(_recording(channels, samples).T)
    clock = solver.time

    class Clock:
        """Stands for the module `time` in the solver, which reads it in iterations."""

        def __init__(self):
            self.laps = _Laps()

        def perf_counter(self):
            self.laps.mark()
            return clock.perf_counter()

        def __getattr__(self, name):
            return getattr(clock, name)

    def fit():
        solver.time = Clock()
        model = jamica.Amica(
            jamica.AmicaConfig(
                dtype=dtype,
                max_iter=iterations,
                lrate=0.1,
                newt_start=_newton_start(iterations) - 1,  # it counts from 0
                use_min_dll=False,
                fix_init=True,
            ),
            random_state=0,
        )
        result = model.fit(recording)
        # Once at the start, then three times an iteration: start, end, end.
        marks = solver.time.laps.marks[1 : 1 + 3 * iterations : 3]
        return [*marks, solver.time.laps.marks[3 * iterations]], result.log_likelihood

    return _workload(fit, recording.T, iterations)


_JAMICA = {"requires": ("jamica", "jax"), "install": "pip install jamica jax"}


@iteration.contender("jamica float32", **_JAMICA)
def _(channels, samples, iterations):
    return _jamica("float32", channels, samples, iterations)


@iteration.contender("jamica float64", **_JAMICA)
def _(channels, samples, iterations):
    return _jamica("float64", channels, samples, iterations)


@iteration.contender(
    "amica-python", requires=("amica",), install="pip install amica-python"
)
def _(channels, samples, iterations):
    import numpy as np
    import torch
    from amica import core

    torch.set_num_threads(_THREADS)
    recording = _recording(channels, samples).astype(np.float64)
    em_step = core.em_step
    terms = (channels, 3)

    def fit():
        laps = _Laps()
        core.em_step = laps.before(em_step)
        found = core.fit_amica(
            recording,
            max_iter=iterations,
            tol=0.0,
            lrate=0.1,
            newt_start=_newton_start(iterations),
            w_init=np.full((channels, channels), 0.5),
            sbeta_init=np.full(terms, 0.5),
            mu_init=np.full(terms, 0.5),
            verbose=0,
        )
        laps.mark()
        return laps.marks, found["LL"]

    return _workload(fit, recording, iterations)


@iteration.contender("pyamica", requires=("pyamica",), install="pip install pyamica")
def _(channels, samples, iterations):
    import torch
    from pyamica import AMICA

    torch.set_num_threads(_THREADS)
    recording = torch.from_numpy(_recording(channels, samples))

    def fit():
        laps = _Laps()
        model = AMICA(
            max_iter=iterations,
            newt_start=_newton_start(iterations),
            use_grad_norm=False,
            use_min_dll=False,
            fix_init=True,
            dtype=torch.float32,
            verbose=False,
        )
        model._e_step = laps.before(model._e_step)
        model.fit(recording)
        laps.mark()
        return laps.marks, model.ll_history().numpy()

    return _workload(fit, recording, iterations)


@iteration.contender("pamica", requires=("pamica",), install="pip install pamica")
def _(channels, samples, iterations):
    import numpy as np
    import torch
    from pamica import AMICATorchNG

    torch.set_num_threads(_THREADS)
    recording = np.ascontiguousarray(_recording(channels, samples).T, np.float64)

    def fit():
        laps = _Laps()
        model = AMICATorchNG(
            channels,
            do_newton=True,
            newt_start=_newton_start(iterations),
            newtrate=1.0,
            use_min_dll=False,
            use_grad_norm=False,
            seed=0,
            device="cpu",
        )
        model._accumulate_blocks = laps.before(model._accumulate_blocks)
        model.fit(recording, max_iter=iterations, verbose=False)
        laps.mark()
        return laps.marks, np.asarray(model.ll_history)

    return _workload(fit, recording.T, iterations)
