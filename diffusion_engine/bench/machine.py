"""On what a figure was measured: processor, cores, load, memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GPU = "not measured here"


def describe_machine() -> dict[str, Any]:
    """The processor's name, the cores that this process may use, and the system."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    import torch

    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": cores,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "torch": torch.__version__,
    }


def load_average() -> list[float]:
    """Runnable processes, averaged over 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def resident_mb() -> float:
    """Memory that this process holds now, in MB (10^6 bytes); the peak where the system doesn't say."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return peak_mb()


def peak_mb() -> float:
    """The most memory that this process has held, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def gpu(device: torch.device, *, in_process: bool = True) -> dict[str, Any] | str:
    """The GPU that computed what was measured, and what was used of its memory; else why there is nothing to say.

    Args:
        device: that computed.
        in_process: here, rather than in a server's process, whose memory isn't known.
    """
    import torch

    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        memory = {"total": round(properties.total_memory / 1e6)}
        if in_process:
            memory["peak"] = round(torch.cuda.max_memory_reserved(device) / 1e6)
        return {
            "name": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
            "memory_mb": memory,
        }
    if not torch.cuda.is_available():
        return f"{GPU}: this machine has no GPU"
    return f"{GPU}: {torch.cuda.get_device_name()} is there, but the CPU computed; see --device"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
