"""Spiking networks solved in parallel over time, exactly and in little memory."""

from importlib.metadata import version as _version

from ._associative import Associative as Associative
from ._chunked import Chunked as Chunked
from ._integrate_and_fire import IntegrateAndFire as IntegrateAndFire
from ._integrate_and_fire import integrate_and_fire as integrate_and_fire
from ._parallel_backward import ParallelBackward as ParallelBackward
from ._psn import PSN as PSN
from ._psn import MaskedPSN as MaskedPSN
from ._psn import SlidingPSN as SlidingPSN
from ._psn import SlidingPSNState as SlidingPSNState
from ._recurrence import linear_recurrence as linear_recurrence
from ._verified import Verified as Verified
from ._verified import verified_scan as verified_scan

__version__ = _version("spike-parallel")
