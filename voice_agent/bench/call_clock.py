"""The caller's one clock, in samples of both channels of the recording."""

from __future__ import annotations

import time
from collections.abc import Callable

RATE = 48_000
"""Samples per second of both channels: Opus's own rate, so nothing is resampled on the way to the measurement."""

FRAME = RATE // 50
"""Samples of a 20 ms frame."""


class CallClock:
    """Monotonic time since the recording began, in samples (`now`) or milliseconds (`now_ms`)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._origin = monotonic()

    def now(self) -> int:
        """Return the sample that is being spoken and heard now."""
        return int((self._monotonic() - self._origin) * RATE)

    def now_ms(self) -> float:
        """Return milliseconds since the recording began."""
        return (self._monotonic() - self._origin) * 1000

    def seconds_until(self, sample: int) -> float:
        """Return how long it takes until a sample's time; negative when that is past."""
        return self._origin + sample / RATE - self._monotonic()
