"""Finding the cases that a folder of benchmark files declares."""

import difflib
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ._case import Case


class UsageError(Exception):
    """Something was asked for that cannot be done; the text says what to do."""


@dataclass(frozen=True)
class Found:
    """A case, the file it comes from, and the version of what it measures."""

    case: Case
    path: Path
    version: str


def load_file(path: Path) -> list[Case]:
    """Run a benchmark file and return the cases among its global names, in order.

    The folder of the file is importable while it runs and afterwards, so that files
    may share helpers (named with a leading underscore).
    """
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: a case file must not hide a library
    name = f"bench_cases_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path}` is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cases = [value for value in vars(module).values() if isinstance(value, Case)]
    return list(dict.fromkeys(cases))


def load_cases(folder: str | Path) -> dict[str, Found]:
    """Load the cases of every ``*.py`` in a folder that does not begin with ``_``.

    Parameters
    ----------
    folder : path
        Where the benchmark files are.

    Returns
    -------
    dict of str to Found
        By the name of the case, in the order of files and of declarations.

    Raises
    ------
    UsageError
        For a folder that is absent or holds no case, a file that fails, a name that
        two cases have, and a case without its baseline.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(
            f"no folder `{folder}` with benchmark files. Go to where it is, "
            "or name another one with `--cases`."
        )
    found: dict[str, Found] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        try:
            cases = load_file(path)
        except Exception as error:
            raise UsageError(
                f"`{path}` cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        version = case_version(path)
        for case in cases:
            _check(case, path, found)
            found[case.name] = Found(case, path, version)
    if not found:
        raise UsageError(f"no case in the files of `{folder}`.")
    return found


def select(found: dict[str, Found], names: Sequence[str]) -> list[Found]:
    """Return the named cases, or all where none is named."""
    unknown = [name for name in names if name not in found]
    if unknown:
        raise UsageError(
            "; ".join(f"no case {name!r}{suggest(name, found)}" for name in unknown)
            + ". `bench list` shows all."
        )
    return [found[name] for name in dict.fromkeys(names)] or list(found.values())


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean ...?" for names like the given one, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f", did you mean {' or '.join(map(repr, close))}?" if close else ""


def case_version(path: Path) -> str:
    """Return a short hash of a benchmark file and of the helpers beside it.

    It changes with what is measured, so that a changed case is measured again and
    never taken for the old one.
    """
    digest = hashlib.sha256()
    for file in [path, *sorted(path.parent.glob("_*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _check(case: Case, path: Path, found: dict[str, Found]) -> None:
    if case.name in found:
        raise UsageError(
            f"two cases are called {case.name!r}: in `{found[case.name].path}` "
            f"and in `{path}`. Rename one."
        )
    if case.baseline not in case.contenders:
        raise UsageError(
            f"case {case.name!r} in `{path}` names the baseline {case.baseline!r}, "
            f"but its contenders are {list(case.contenders)}."
        )
