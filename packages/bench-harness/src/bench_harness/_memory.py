"""Memory of this process and of the devices it uses."""

import sys
from pathlib import Path
from typing import Any


def resident_bytes() -> int | None:
    """Return how much of this process is in memory now."""
    return _status("VmRSS")


def reset_peak() -> bool:
    """Start the peak of resident memory anew; tell whether the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Return the peak of resident memory since `reset_peak`, else of the whole life."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_device_peaks() -> None:
    """Start the peak of torch's CUDA allocator anew, where it is in use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def device_facts() -> list[dict[str, Any]]:
    """Return the devices of the engines that this process has imported, with peaks.

    An engine that was not imported is not asked: asking would start it.
    """
    return [*_torch_devices(), *_jax_devices()]


def _torch_devices() -> list[dict[str, Any]]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [
        {
            "engine": "torch",
            "platform": "cuda",
            "kind": torch.cuda.get_device_name(index),
            "peak_bytes": torch.cuda.max_memory_allocated(index),
        }
        for index in range(torch.cuda.device_count())
    ]


def _jax_devices() -> list[dict[str, Any]]:
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    facts = []
    for device in jax.local_devices():
        stats = device.memory_stats() or {}  # None on the CPU
        facts.append(
            {
                "engine": "jax",
                "platform": device.platform,
                "kind": device.device_kind,
                "peak_bytes": stats.get("peak_bytes_in_use"),
            }
        )
    return facts


def _status(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return None
