"""Neurons of other libraries, read into the equivalent ones here."""

from ._from_peer import from_peer as from_peer
from ._late_reset import LateResetALIF as LateResetALIF
from ._late_reset import LateResetCubaLIF as LateResetCubaLIF
from ._late_reset import LateResetLIF as LateResetLIF
from ._start_at import StartAt as StartAt
