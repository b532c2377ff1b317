"""Online learning for spiking networks: e-prop and its relatives, memory constant in time."""

from importlib.metadata import version as _version

__version__ = _version("spike-eprop")
