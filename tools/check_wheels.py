"""Build every wheel, install each alone into a fresh environment, run its README.

A wheel finds its siblings in the folder of built wheels and everything else in the
package registry, so a forgotten dependency or a file missing from a wheel fails here
and nowhere else. Run it with `hatch run wheels:check [PACKAGE ...]`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(folder.name for folder in (ROOT / "packages").iterdir())
NEEDS_A_COMPILER = {"spike-native", "amica-native"}

RUN_README = """
import sys
from pathlib import Path
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

readme = Path(sys.argv[1])
parsers = [PythonCodeBlockParser(), SkipParser()]
document = Sybil(parsers, path=str(readme.parent)).parse(readme)
examples = list(document.examples())
assert examples, f"{readme} has no Python example"
for example in examples:
    example.evaluate()
print(f"{len(examples)} example(s) of {readme.parent.name} ran")
"""


# Pure packages are built and installed as on a machine without a compiler.
NO_COMPILER = {"CC": "no-such-compiler", "CXX": "no-such-compiler"}


def run(*command: str | Path, cwd: Path | None = None, compiler: bool = False) -> None:
    """Run a command and, if it fails, show what it printed."""
    environment = os.environ if compiler else os.environ | NO_COMPILER
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    if done.stdout.strip():
        print(done.stdout.strip().splitlines()[-1], flush=True)


def build(package: str, wheels: Path) -> Path:
    """Build the wheel of one package from a copy of its source distribution."""
    run(
        sys.executable,
        *("-m", "build", "--outdir", wheels, ROOT / "packages" / package),
        compiler=package in NEEDS_A_COMPILER,
    )
    (wheel,) = wheels.glob(f"{package.replace('-', '_')}-*.whl")
    if package in NEEDS_A_COMPILER and "-py3-none-" not in wheel.name:
        raise SystemExit(f"{wheel.name} does not serve every Python version")
    if package not in NEEDS_A_COMPILER and not wheel.name.endswith("-py3-none-any.whl"):
        raise SystemExit(f"{wheel.name} is not a pure wheel")
    return wheel


def try_alone(package: str, wheel: Path, wheels: Path, folder: Path) -> None:
    """Install one wheel into a fresh environment and run its README there."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(
        *(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"),
        *("--find-links", wheels, wheel, "sybil>=9.0"),
    )
    readme = shutil.copy(ROOT / "packages" / package / "README.md", folder)
    run(python, "-W", "error", "-c", RUN_README, readme, cwd=folder)


def main(arguments: Sequence[str]) -> None:
    """Check the packages named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="default: all")
    chosen = parser.parse_args(arguments).packages or PACKAGES
    if unknown := sorted(set(chosen) - set(PACKAGES)):
        parser.error(f"no package {', '.join(unknown)}; there are {PACKAGES}")
    with tempfile.TemporaryDirectory() as name:
        wheels = Path(name) / "wheels"
        # Siblings have to be there before a package that needs them is installed.
        built = {package: build(package, wheels) for package in PACKAGES}
        for package in chosen:
            start = time.perf_counter()
            folder = Path(name) / package
            try_alone(package, built[package], wheels, folder)
            shutil.rmtree(folder)
            took = time.perf_counter() - start
            print(f"{built[package].name}: installed alone, {took:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
