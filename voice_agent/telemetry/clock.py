"""The two clocks of a call and how the caller's audio lies on them."""

from __future__ import annotations

import time
from collections.abc import Callable


class CallClock:
    """Time since the call began, on the process's monotonic clock.

    Args:
        now: Seconds of a monotonic clock (tests bring their own).
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._start = now()

    def seconds(self) -> float:
        """Seconds since the call began."""
        return self._now() - self._start

    def ms(self) -> float:
        """Milliseconds since the call began."""
        return self.seconds() * 1000


class StreamClock:
    """Places positions of the caller's audio on the call's clock.

    A sample reached us at the latest when its frame did, and the least delayed frames say by how much the stream lags
    the clock. The offset follows a growing delay by ``drift_ms`` a frame at most, so one late frame moves nothing.
    """

    def __init__(self, drift_ms: float = 0.02) -> None:
        self._drift_ms = drift_ms
        self._offset_ms: float | None = None

    def arrived(self, position_ms: float, now_ms: float) -> None:
        """A frame that ends at ``position_ms`` of the stream arrived at ``now_ms`` of the call."""
        lag = now_ms - position_ms
        known = lag if self._offset_ms is None else self._offset_ms + self._drift_ms
        self._offset_ms = min(known, lag)

    def to_call_ms(self, position_ms: float) -> float:
        """When the sample at ``position_ms`` of the stream reached us (ms of the call)."""
        return position_ms + (self._offset_ms or 0.0)
