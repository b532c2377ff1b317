"""A benchmark harness that isolates, interleaves and measures quality beside speed."""

from importlib.metadata import version as _version

from ._case import Case as Case
from ._case import Unavailable as Unavailable
from ._case import Workload as Workload
from ._compare import Comparison as Comparison
from ._compare import compare_results as compare_results
from ._discover import UsageError as UsageError
from ._discover import load_cases as load_cases
from ._records import Record as Record
from ._records import read_results as read_results
from ._report import write_report as write_report
from ._run import run_cases as run_cases
from ._tables import markdown_tables as markdown_tables

__version__ = _version("bench-harness")
