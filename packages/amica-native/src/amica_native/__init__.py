"""Compiled kernels for the statistics of AMICA's EM step."""

from importlib.metadata import version as _version

__version__ = _version("amica-native")
