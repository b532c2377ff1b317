"""A benchmark harness that isolates, interleaves and measures quality beside speed."""

from importlib.metadata import version as _version

from ._case import Case as Case
from ._case import Unavailable as Unavailable
from ._case import Workload as Workload

__version__ = _version("bench-harness")
