"""Compiled kernels for spiking neurons over time, called through XLA's foreign-function interface."""

from importlib.metadata import version as _version

__version__ = _version("spike-native")
