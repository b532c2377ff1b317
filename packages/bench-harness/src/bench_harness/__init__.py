"""A benchmark harness that isolates, interleaves, measures memory and reports quality beside speed."""

from importlib.metadata import version as _version

__version__ = _version("bench-harness")
