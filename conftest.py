"""What every test of the workspace shares."""

import os
import tempfile

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def _into_a_fresh_folder(namespace: dict) -> None:
    namespace["_home"] = os.getcwd()
    namespace["_folder"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _back_home(namespace: dict) -> None:
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()


# The Python blocks of every README run as tests: what they show is what they do.
pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md"],
    setup=_into_a_fresh_folder,
    teardown=_back_home,
).pytest()
