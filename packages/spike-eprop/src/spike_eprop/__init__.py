"""Online learning for spiking networks: e-prop and its relatives."""

from importlib.metadata import version as _version

from ._engine import Loss as Loss
from ._fptt import FPTTState as FPTTState
from ._fptt import fptt as fptt
from ._learner import Learner as Learner
from ._learner import LearnerState as LearnerState
from ._learner import Output as Output
from ._memory import MemoryEstimate as MemoryEstimate
from ._memory import memory_estimate as memory_estimate
from ._rate import RatePenalty as RatePenalty
from ._rule import Rule as Rule
from ._rule import decolle as decolle
from ._rule import eprop as eprop
from ._rule import es_d_rtrl as es_d_rtrl
from ._rule import ostl as ostl
from ._rule import ottt as ottt
from ._rule import rtrl as rtrl
from ._rule import sltt as sltt
from ._sequence import value_and_grad as value_and_grad

__version__ = _version("spike-eprop")
