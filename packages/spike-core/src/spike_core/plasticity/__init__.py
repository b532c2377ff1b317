"""Synapses that change: in the short term, and by the timing of spikes."""

from ._reward_stdp import RewardSTDP as RewardSTDP
from ._reward_stdp import RewardSTDPState as RewardSTDPState
from ._stdp import STDP as STDP
from ._stdp import STDPState as STDPState
from ._tsodyks_markram import TsodyksMarkram as TsodyksMarkram
from ._tsodyks_markram import TsodyksMarkramParameters as TsodyksMarkramParameters
from ._tsodyks_markram import TsodyksMarkramState as TsodyksMarkramState
