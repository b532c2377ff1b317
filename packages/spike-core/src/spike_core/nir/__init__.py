"""Exchange of networks through NIR, the Neuromorphic Intermediate Representation."""

from ._from_nir import from_nir as from_nir
from ._layers import ChannelsFirst as ChannelsFirst
from ._layers import Delay as Delay
from ._layers import DelayState as DelayState
from ._layers import Drive as Drive
from ._layers import Flatten as Flatten
from ._layers import Integrator as Integrator
from ._layers import IntegratorState as IntegratorState
from ._layers import Scale as Scale
from ._layers import Shift as Shift
from ._layers import Threshold as Threshold
from ._layers import avg_pool as avg_pool
from ._layers import sum_pool as sum_pool
from ._to_nir import to_nir as to_nir
