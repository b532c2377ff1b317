"""Adaptive mixture independent component analysis (AMICA) for EEG and other signals."""

from importlib.metadata import version as _version

__version__ = _version("amica-core")
