"""Adaptive mixture independent component analysis (AMICA) for EEG and other signals."""

from importlib.metadata import version as _version

from ._amica import AMICA as AMICA
from ._distributed import TorchGroup as TorchGroup
from ._fit import fit as fit
from ._fortran.failures import FortranProgramError as FortranProgramError
from ._fortran.fit import fit_fortran as fit_fortran
from ._fortran.run import FortranRun as FortranRun
from ._fortran.run import find_fortran_program as find_fortran_program
from ._fortran.run import run_fortran as run_fortran
from ._io.amicaout import AmicaOutput as AmicaOutput
from ._io.amicaout import read_amicaout as read_amicaout
from ._io.amicaout import write_amicaout as write_amicaout
from ._io.conversion import eeglab_structure as eeglab_structure
from ._io.conversion import from_amicaout as from_amicaout
from ._io.conversion import to_amicaout as to_amicaout
from ._io.eeglab import read_eeglab as read_eeglab
from ._io.eeglab import write_eeglab as write_eeglab
from ._io.mne import annotate_models as annotate_models
from ._io.mne import annotate_rejected as annotate_rejected
from ._io.mne import fit_mne as fit_mne
from ._io.mne import from_mne as from_mne
from ._io.mne import mne_samples as mne_samples
from ._io.mne import posteriors_to_mne as posteriors_to_mne
from ._io.mne import to_mne as to_mne
from ._io.parameters import ParameterFile as ParameterFile
from ._io.parameters import read_parameter_file as read_parameter_file
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
