"""The agent's audio track: 20 ms frames, paced by one monotonic clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from fractions import Fraction

from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame

from voice_agent.transports.playback import FRAME_SAMPLES, SAMPLE_RATE_HZ, Playback

_TIME_BASE = Fraction(1, SAMPLE_RATE_HZ)
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_GIVE_UP_S = 0.2


class OutgoingTrack(MediaStreamTrack):
    """Pulls a :class:`Playback` at its own pace; idle, it sends silence, so the far jitter buffer stays put.

    Frame n is due at start + n * 20 ms, whatever the frames before it cost: there is no drift. When the event loop was
    held up for long, the clock is set anew instead of sending a burst, which would only fill the far buffer.
    """

    kind = "audio"

    def __init__(self, playback: Playback, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._playback = playback
        self._clock = clock
        self._due: float | None = None
        self._pts = 0
        self.late_frames = 0
        """Frames that were sent more than 20 ms after their time."""

    async def recv(self) -> AudioFrame:
        """Wait until the next frame is due and return it (mono, s16, 960 samples)."""
        if self.readyState != "live":
            raise MediaStreamError
        now = self._clock()
        self._due = now if self._due is None else self._due + _FRAME_S
        if self._due > now:
            await asyncio.sleep(self._due - now)
        else:
            late = now - self._due
            self.late_frames += late > _FRAME_S
            if late > _GIVE_UP_S:
                self._due = now
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME_SAMPLES)
        frame.planes[0].update(self._playback.pull().tobytes())
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.time_base = _TIME_BASE
        frame.pts = self._pts
        self._pts += FRAME_SAMPLES
        return frame
