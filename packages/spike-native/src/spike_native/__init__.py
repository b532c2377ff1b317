"""Compiled kernels for spiking neurons over time, for XLA and for NumPy."""

from importlib.metadata import version as _version

from ._kernels import backward as backward
from ._kernels import border_stride as border_stride
from ._kernels import dense_backward as dense_backward
from ._kernels import dense_forward as dense_forward
from ._kernels import forward as forward
from ._neuron import Neuron as Neuron

__version__ = _version("spike-native")
