"""What every test of the workspace shares."""

import os
import tempfile

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# What the tests take their time for is XLA's compiler, and most of that is LLVM's
# optimisation of code that runs once on a few numbers. The programs and their plans of
# memory are the same without it. Set it to 0 to test what users run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# The same examples in every run: what fails once, fails again.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture
def fully_optimised():
    """Compile as users do, where two programs have to agree to the last bit."""
    import jax

    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, False)
    yield
    jax.config.update(name, before)


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
