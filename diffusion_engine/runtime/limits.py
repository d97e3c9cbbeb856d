"""How much the engine takes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the engine takes on.

    Attributes:
        max_requests: run at the same time.
        max_waiting: wait beyond those; the next one is refused.
        prefill_rows: prompt tokens of one request in one step. Bounds how long a step takes, and a cancel with it.
        timeout_s: of a request, in seconds since it was submitted.
        prefix_cache: keep clean text for later requests.
    """

    max_requests: int = 8
    max_waiting: int = 32
    prefill_rows: int = 256
    timeout_s: float = 120.0
    prefix_cache: bool = True
