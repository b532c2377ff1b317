"""Spiking neural networks in JAX and Flax NNX."""

from importlib.metadata import version as _version

from . import data as data
from . import plasticity as plasticity
from ._activity import LayerActivity as LayerActivity
from ._activity import layer_activity as layer_activity
from ._activity import layer_outputs as layer_outputs
from ._activity import rate_penalty as rate_penalty
from ._checkpointed import Checkpointed as Checkpointed
from ._encoder import encode_delta as encode_delta
from ._encoder import encode_latency as encode_latency
from ._encoder import encode_population as encode_population
from ._encoder import encode_rate as encode_rate
from ._evaluate import evaluate as evaluate
from ._fit import History as History
from ._fit import fit as fit
from ._fused import Fused as Fused
from ._graph import Graph as Graph
from ._graph import GraphState as GraphState
from ._initializer import fluctuation_init as fluctuation_init
from ._layers import run_layers as run_layers
from ._linear_form import LinearForm as LinearForm
from ._loss import accuracy as accuracy
from ._loss import cross_entropy as cross_entropy
from ._neuron.adex import AdEx as AdEx
from ._neuron.adex import AdExParameters as AdExParameters
from ._neuron.adex import AdExState as AdExState
from ._neuron.alif import ALIF as ALIF
from ._neuron.alif import ALIFParameters as ALIFParameters
from ._neuron.alif import ALIFState as ALIFState
from ._neuron.alpha_lif import AlphaLIF as AlphaLIF
from ._neuron.alpha_lif import AlphaLIFParameters as AlphaLIFParameters
from ._neuron.alpha_lif import AlphaLIFState as AlphaLIFState
from ._neuron.cuba_lif import CubaLIF as CubaLIF
from ._neuron.cuba_lif import CubaLIFParameters as CubaLIFParameters
from ._neuron.cuba_lif import CubaLIFState as CubaLIFState
from ._neuron.integrate_and_fire import IF as IF
from ._neuron.integrate_and_fire import IFParameters as IFParameters
from ._neuron.integrate_and_fire import IFState as IFState
from ._neuron.izhikevich import IZHIKEVICH_PRESETS as IZHIKEVICH_PRESETS
from ._neuron.izhikevich import Izhikevich as Izhikevich
from ._neuron.izhikevich import IzhikevichParameters as IzhikevichParameters
from ._neuron.izhikevich import IzhikevichState as IzhikevichState
from ._neuron.leaky_integrator import LeakyIntegrator as LeakyIntegrator
from ._neuron.leaky_integrator import (
    LeakyIntegratorParameters as LeakyIntegratorParameters,
)
from ._neuron.leaky_integrator import LeakyIntegratorState as LeakyIntegratorState
from ._neuron.lif import LIF as LIF
from ._neuron.lif import LIFParameters as LIFParameters
from ._neuron.lif import LIFState as LIFState
from ._neuron.nonlinear import EIF as EIF
from ._neuron.nonlinear import QIF as QIF
from ._neuron.nonlinear import EIFParameters as EIFParameters
from ._neuron.nonlinear import EIFState as EIFState
from ._neuron.nonlinear import QIFParameters as QIFParameters
from ._neuron.nonlinear import QIFState as QIFState
from ._neuron.resonate_and_fire import ResonateAndFire as ResonateAndFire
from ._neuron.resonate_and_fire import (
    ResonateAndFireParameters as ResonateAndFireParameters,
)
from ._neuron.resonate_and_fire import ResonateAndFireState as ResonateAndFireState
from ._readout import first_spike_time as first_spike_time
from ._readout import time_max as time_max
from ._readout import time_mean as time_mean
from ._readout import time_sum as time_sum
from ._recurrent import Recurrent as Recurrent
from ._recurrent import RecurrentState as RecurrentState
from ._scan import Scan as Scan
from ._sequence_dropout import SequenceDropout as SequenceDropout
from ._sequential import Sequential as Sequential
from ._sequential import is_neuron as is_neuron
from ._strategy import Strategy as Strategy
from ._surrogate import ATan as ATan
from ._surrogate import Boxcar as Boxcar
from ._surrogate import Erf as Erf
from ._surrogate import Exponential as Exponential
from ._surrogate import FastSigmoid as FastSigmoid
from ._surrogate import Logarithmic as Logarithmic
from ._surrogate import MultiGaussian as MultiGaussian
from ._surrogate import PowerLaw as PowerLaw
from ._surrogate import Sigmoid as Sigmoid
from ._surrogate import StraightThrough as StraightThrough
from ._surrogate import Surrogate as Surrogate
from ._surrogate import Tanh as Tanh
from ._surrogate import Triangular as Triangular
from ._training import train_step as train_step
from ._unroll import unroll as unroll
from ._variable import Frozen as Frozen

__version__ = _version("spike-core")
