"""The shared library and its C interface (`cpp/library.cc`)."""

import ctypes
import sys
from pathlib import Path

_int = ctypes.c_int64
_pointer = ctypes.c_void_p


class Problem(ctypes.Structure):
    """Mirror of `AmicaProblem`."""

    _fields_ = (
        *((name, _int) for name in ("n_components", "n_samples", "n_models")),
        ("n_terms", _int),
        ("x_stride", _int),
        *((name, _pointer) for name in ("x", "kept", "unmixing", "offset")),
        *((name, _pointer) for name in ("log_weight", "log_scale", "mu", "beta")),
        *((name, _pointer) for name in ("rho", "density")),
        *((name, _int) for name in ("single", "newton", "kurtosis", "fortran")),
        *((name, _int) for name in ("n_threads", "block")),
        ("record", _pointer),
        ("joint", _pointer),
    )


def _load() -> ctypes.CDLL:
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    prefix = "" if sys.platform == "win32" else "lib"
    name = f"{prefix}amica_kernels{suffix}"
    # An editable install keeps the library apart from the sources.
    folders = sys.modules[__package__ or "amica_native"].__path__
    path = next((p for f in folders if (p := Path(f) / name).exists()), None)
    if path is None:
        raise ImportError(
            f"`amica_native` was installed without {name}; "
            "install it again: pip install --force-reinstall amica-native"
        )
    library = ctypes.CDLL(str(path))
    library.amica_problem_size.restype = _int
    if library.amica_problem_size() != ctypes.sizeof(Problem):
        raise ImportError(
            f"{path} belongs to another version of `amica_native`; "
            "install it again: pip install --force-reinstall amica-native"
        )
    library.amica_record_size.restype = _int
    library.amica_record_size.argtypes = [_int] * 3
    library.amica_statistics.argtypes = [ctypes.POINTER(Problem)]
    library.amica_instruction_set.restype = ctypes.c_char_p
    library.amica_instruction_set.argtypes = [_int]
    library.amica_chosen_instruction_set.restype = ctypes.c_char_p
    library.amica_choose_instruction_set.argtypes = [ctypes.c_char_p]
    for function in ("exp2", "log2"):
        for precision in ("float", "double"):
            elementary = getattr(library, f"amica_{function}_{precision}")
            elementary.restype = None
            elementary.argtypes = [_pointer, _pointer, _int]
    return library


library = _load()
