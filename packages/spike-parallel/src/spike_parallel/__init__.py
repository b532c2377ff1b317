"""Spiking networks solved in parallel over time, exactly and in little memory."""

from importlib.metadata import version as _version

__version__ = _version("spike-parallel")
