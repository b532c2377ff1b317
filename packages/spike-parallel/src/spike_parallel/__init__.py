"""Spiking networks solved in parallel over time, exactly and in little memory."""

from importlib.metadata import version as _version

from ._associative import Associative as Associative
from ._chunked import Chunked as Chunked
from ._parallel_backward import ParallelBackward as ParallelBackward
from ._recurrence import linear_recurrence as linear_recurrence

__version__ = _version("spike-parallel")
