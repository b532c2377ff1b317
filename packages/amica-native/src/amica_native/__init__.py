"""Compiled kernels for the statistics of AMICA's EM step."""

from importlib.metadata import version as _version

from ._elementary import exp2 as exp2
from ._elementary import log2 as log2
from ._instruction_sets import instruction_sets as instruction_sets
from ._instruction_sets import use_instruction_set as use_instruction_set
from ._statistics import Parameters as Parameters
from ._statistics import Statistics as Statistics
from ._statistics import statistics as statistics

__version__ = _version("amica-native")
