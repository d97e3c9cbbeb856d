"""On what a figure was measured: processor, cores, load."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Return the processor's name, the cores this process may use, and the load averages (1, 5, 15 min)."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in _lines(cpuinfo) if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": cores,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def cpu_times() -> tuple[float, float] | None:
    """Return (busy, total) seconds of all cores since boot; None where the kernel doesn't say (not Linux)."""
    for line in _lines(Path("/proc/stat")):
        if line.startswith("cpu "):
            user, nice, system, idle, iowait, irq, softirq, steal, *_ = (float(value) for value in line.split()[1:])
            busy = user + nice + system + irq + softirq + steal
            return busy, busy + idle + iowait
    return None


def busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Return the share of all cores that was busy between two `cpu_times`, 0..1."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return round((after[0] - before[0]) / (after[1] - before[1]), 2)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
