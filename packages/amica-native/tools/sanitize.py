"""Build the library with sanitizers and run the package's tests on it.

`python tools/sanitize.py` takes AddressSanitizer and UndefinedBehaviorSanitizer
together, then ThreadSanitizer; arguments name them one by one, as for the compiler's
`-fsanitize`. The tests run in this Python, so it needs what they need. Linux, gcc or
clang.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
# Python itself is not instrumented: the run time must come first into the process.
_RUNTIMES = {"address,undefined": "libasan.so", "thread": "libtsan.so"}
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python's own allocations at exit
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def run_tests(sanitizer: str, folder: Path) -> int:
    """Build in `folder`, run the tests there, and return pytest's exit status."""
    build = folder / "build"
    settings = (f"-DAMICA_SANITIZE={sanitizer}", "-DCMAKE_CXX_FLAGS=-O1")
    subprocess.run(["cmake", "-S", _PACKAGE, "-B", build, *settings], check=True)
    subprocess.run(["cmake", "--build", build, "--parallel"], check=True)
    package = folder / "amica_native"
    shutil.copytree(_PACKAGE / "src" / "amica_native", package)
    shutil.copy(build / "libamica_kernels.so", package)
    compiler = os.environ.get("CXX", "c++")
    runtime = subprocess.run(
        [compiler, f"-print-file-name={_RUNTIMES[sanitizer]}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    # Without the hooks of an editable install, which would find the other library.
    pytest = (
        "import sys, pytest;"
        "sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)];"
        f"sys.path.insert(0, {str(folder)!r});"
        "import amica_native._library as l; print('testing', l.library._name);"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:doctest',"
        f"'-c', '/dev/null', '--rootdir', {str(_PACKAGE)!r},"
        f"{str(_PACKAGE / 'tests')!r}]))"
    )
    return subprocess.run(
        [sys.executable, "-c", pytest],
        env=os.environ | _OPTIONS | {"LD_PRELOAD": runtime, "OMP_NUM_THREADS": "1"},
        cwd=folder,
    ).returncode


def main() -> None:
    """Run each sanitizer; the exit status is 1 if one of them found something."""
    failed = []
    for sanitizer in sys.argv[1:] or _RUNTIMES:
        if sanitizer not in _RUNTIMES:
            sys.exit(f"the sanitizer must be one of {', '.join(_RUNTIMES)}")
        with tempfile.TemporaryDirectory() as folder:
            if run_tests(sanitizer, Path(folder)) != 0:
                failed.append(sanitizer)
        print(
            f"{sanitizer}: {'FAILED' if sanitizer in failed else 'clean'}", flush=True
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
