"""Adaptive mixture independent component analysis (AMICA) for EEG and other signals."""

from importlib.metadata import version as _version

from ._amica import AMICA as AMICA
from ._fit import fit as fit
from ._model import Model as Model
from ._model import initial_model as initial_model
from ._read import Samples as Samples
from ._read import read_samples as read_samples
from ._rejection import Rejection as Rejection
from ._result import Result as Result
from ._settings import Bounds as Bounds
from ._settings import LearningRate as LearningRate
from ._settings import Newton as Newton
from ._settings import Stopping as Stopping
from ._sharing import Sharing as Sharing
from ._sphere import Sphering as Sphering
from ._sphere import sphere as sphere
from ._statistics import Density as Density
from ._storage import load_result as load_result
from ._storage import save_result as save_result
from ._switching import Switching as Switching

__version__ = _version("amica-core")
