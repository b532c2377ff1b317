"""Pictures of spikes, membranes, activity, weights, networks and trainings."""

from ._activity import activity as activity
from ._history import history as history
from ._membrane import membrane as membrane
from ._network import network as network
from ._raster import raster as raster
from ._weights import weights as weights
