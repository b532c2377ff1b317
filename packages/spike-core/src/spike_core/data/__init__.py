"""Recordings of events, on the host and a batch at a time on the device."""

from ._archive import unpack as unpack
from ._archive import verify as verify
from ._augmentation import drop_spikes as drop_spikes
from ._augmentation import shift_time as shift_time
from ._batches import Batch as Batch
from ._batches import batches as batches
from ._events import Events as Events
from ._events import bin_events as bin_events
from ._files import FileRecordings as FileRecordings
from ._hdf5 import HDF5Recordings as HDF5Recordings
from ._published import CHECKSUMS as CHECKSUMS
from ._published import dvs_gesture as dvs_gesture
from ._published import nmnist as nmnist
from ._published import shd as shd
from ._published import ssc as ssc
from ._spike_data import Recordings as Recordings
from ._spike_data import SpikeData as SpikeData
from ._spike_data import bin_recordings as bin_recordings
from ._split import split_by_group as split_by_group
from ._split import train_validation_split as train_validation_split
