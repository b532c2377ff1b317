"""Online learning for spiking networks: e-prop and its relatives."""

from importlib.metadata import version as _version

from ._sequence import value_and_grad as value_and_grad
from ._step import Loss as Loss

__version__ = _version("spike-eprop")
