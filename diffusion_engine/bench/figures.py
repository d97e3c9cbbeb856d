"""Samples to figures: median, 95th percentile, count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np

Figure = dict[str, Any]
"""`{"p50", "p95", "n"}`; the percentiles are None where n is 0."""


def figure(samples: Iterable[float | None], scale: float = 1.0, digits: int = 2) -> Figure:
    """Summarise samples; those that are None were not taken and are left out.

    Args:
        samples: in any unit.
        scale: multiplies them, such as 1000 from seconds to ms.
        digits: kept behind the point.
    """
    taken = [sample * scale for sample in samples if sample is not None]
    if not taken:
        return {"p50": None, "p95": None, "n": 0}
    p50, p95 = np.percentile(taken, [50, 95])
    return {"p50": round(float(p50), digits), "p95": round(float(p95), digits), "n": len(taken)}


def milliseconds(seconds: Iterable[float | None]) -> Figure:
    """Summarise durations in seconds as ms."""
    return figure(seconds, 1000.0)


def paired_ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    """Median of our sample divided by theirs, pair by pair: what loaded the machine then loaded both. None without any.

    Args:
        ours: in the order of `theirs`.
        theirs: of the same cases, taken right before or after.
    """
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if a is not None and b]
    return round(median(ratios), 3) if ratios else None
