"""Spiking neural networks in JAX and Flax NNX: neurons, networks, execution, training."""

from importlib.metadata import version as _version

__version__ = _version("spike-core")
