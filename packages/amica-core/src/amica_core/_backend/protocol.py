"""The contract of a backend, and how one is found by its name."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._check import check_choice
from .._statistics import Options, Parameters, Statistics


class SampleSource(Protocol):
    """A recording that is centred and sphered when a block of it is asked for."""

    n_samples: int
    """Number of samples, T."""
    n_components: int
    """Number of components kept, n."""

    def block(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return sphered samples `start` to `stop`, C-contiguous `(stop-start, n)`."""
        ...


class Backend(Protocol):
    """Computes statistics; an instance serves one fit.

    The loop calls `place` once and then, in every iteration, `statistics` for each
    block that `place` gave, in order, and adds the records up.
    """

    def place(self, samples: SampleSource) -> Iterable[Any]:
        """Return the samples as blocks in the form that `statistics` likes best.

        The result is iterated over once an iteration. It may be a list with a single
        array that holds everything (on a device, in float32, ...), or an object that
        makes one block after the other so that memory stays bounded. Each block has a
        length (`len`), and the lengths add up to `samples.n_samples`.
        """
        ...

    def statistics(
        self,
        x: Any,
        parameters: Parameters,
        options: Options,
        kept: NDArray[np.bool_] | None = None,
    ) -> Statistics:
        """Return the sums over the samples of one block.

        Parameters
        ----------
        x
            A block that `place` gave, or any float64 array, shape `(samples, n)`.
        parameters, options
            See `Parameters` and `Options`.
        kept
            Which samples are in use, shape `(samples,)`; None for all.
        """
        ...


BACKENDS = ("numpy", "native", "torch")


def default_backend() -> str:
    """Return the name of the fastest backend that is installed for a CPU."""
    return "native" if find_spec("amica_native") else "numpy"


def load_backend(name: str, **settings: Any) -> Backend:
    """Return a new backend by its name.

    A backend `name` is the module `amica_core._backend.name` with a class `Backend`.
    """
    check_choice("backend", name, BACKENDS)
    try:
        module = import_module(f"amica_core._backend.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f'`backend="{name}"` needs the package {error.name!r}; '
            f'install it with `pip install "amica-core[{name}]"`'
        ) from error
    return module.Backend(**settings)
