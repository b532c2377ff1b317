"""Spiking neural networks in JAX and Flax NNX."""

from importlib.metadata import version as _version

from ._encoder import encode_latency as encode_latency
from ._encoder import encode_rate as encode_rate
from ._layers import run_layers as run_layers
from ._linear_form import LinearForm as LinearForm
from ._loss import accuracy as accuracy
from ._loss import cross_entropy as cross_entropy
from ._neuron.leaky_integrator import LeakyIntegrator as LeakyIntegrator
from ._neuron.leaky_integrator import (
    LeakyIntegratorParameters as LeakyIntegratorParameters,
)
from ._neuron.leaky_integrator import LeakyIntegratorState as LeakyIntegratorState
from ._neuron.lif import LIF as LIF
from ._neuron.lif import LIFParameters as LIFParameters
from ._neuron.lif import LIFState as LIFState
from ._readout import time_max as time_max
from ._readout import time_mean as time_mean
from ._readout import time_sum as time_sum
from ._scan import Scan as Scan
from ._sequential import Sequential as Sequential
from ._sequential import is_neuron as is_neuron
from ._strategy import Strategy as Strategy
from ._surrogate import ATan as ATan
from ._surrogate import FastSigmoid as FastSigmoid
from ._surrogate import Surrogate as Surrogate
from ._training import train_step as train_step
from ._unroll import unroll as unroll
from ._variable import Frozen as Frozen

__version__ = _version("spike-core")
