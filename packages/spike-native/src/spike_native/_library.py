"""The compiled library, found in the package and opened once."""

import ctypes
import sys
from functools import cache
from pathlib import Path

_NAMES = {"win32": "spike_kernels.dll", "darwin": "libspike_kernels.dylib"}


class CNeuron(ctypes.Structure):
    """`spike_neuron` of `spike_native.h`."""

    _fields_ = (
        ("model", ctypes.c_int32),
        ("reset", ctypes.c_int32),
        ("detach_reset", ctypes.c_int32),
        ("refractory", ctypes.c_int32),
        ("surrogate", ctypes.c_int32),
        ("slope", ctypes.c_double),
        ("shape_0", ctypes.c_double),
        ("shape_1", ctypes.c_double),
    )


class CShape(ctypes.Structure):
    """`spike_shape` of `spike_native.h`."""

    _fields_ = (
        ("outer", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("lanes", ctypes.c_int64),
        ("features", ctypes.c_int64),
    )


class CDenseShape(ctypes.Structure):
    """`spike_dense_shape` of `spike_native.h`."""

    _fields_ = (
        ("outer", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
    )


@cache
def library() -> ctypes.CDLL:
    """Open the library and declare its functions."""
    # An editable install has the library in another folder than the sources.
    name = _NAMES.get(sys.platform, "libspike_kernels.so")
    candidates = [Path(folder, name) for folder in sys.modules["spike_native"].__path__]
    path = next(filter(Path.exists, candidates), candidates[0])
    try:
        kernels = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"the compiled library of spike-native cannot be opened ({error}); "
            "install a wheel for this platform or build it with "
            "`pip install --no-binary spike-native spike-native`"
        ) from error
    kernels.spike_parameter_count.argtypes = [ctypes.POINTER(CNeuron)]
    kernels.spike_state_count.argtypes = [ctypes.POINTER(CNeuron)]
    kernels.spike_border_stride.restype = ctypes.c_int64
    description = [ctypes.POINTER(CNeuron), ctypes.c_int32, ctypes.POINTER(CShape)]
    for function, arrays in (
        (kernels.spike_forward, 6),
        (kernels.spike_backward, 8),
    ):
        function.argtypes = description + [ctypes.c_void_p] * arrays + [ctypes.c_int32]
    for function in (kernels.spike_dense_forward, kernels.spike_dense_backward):
        function.argtypes = [
            ctypes.c_int32,
            ctypes.POINTER(CDenseShape),
            *[ctypes.c_void_p] * 4,
            ctypes.c_int32,
        ]
    return kernels
