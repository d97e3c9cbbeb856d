"""The caller's microphone: a WebRTC track that plays recordings, paced by the call's clock, and keeps what it sent."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from voice_agent.bench.call_clock import FRAME, RATE, CallClock
from voice_agent.bench.gaps import Span

ROOM_NOISE_DBFS = -66.0
"""RMS of the noise under everything, as a real microphone has: far below the measurement's threshold, never zero."""


class Microphone(MediaStreamTrack):
    """Sends sample n at the time of sample n; a frame leaves when its last sample has been spoken, as a browser's does.

    Frames keep to the clock and not to one another: one that was late doesn't delay the next. How late they left is in
    `late_ms`; the recording has the time at which they should have, so a stutter of the caller lengthens the gap.
    """

    kind = "audio"

    def __init__(self, clock: CallClock, seed: int = 0) -> None:
        super().__init__()
        self.late_ms: list[float] = []
        self._clock = clock
        self._noise = np.random.default_rng(seed)
        self._next: int | None = None
        self._first = 0
        self._sent: list[npt.NDArray[np.int16]] = []
        self._speech = np.zeros(0, dtype=np.float32)
        self._speech_start = 0

    def speak(self, samples: npt.NDArray[np.float32]) -> Span:
        """Play a recording (48 kHz mono float) from the next frame on; returns where it lies in the recording."""
        start = self._next if self._next is not None else -(-self._clock.now() // FRAME) * FRAME
        self._speech, self._speech_start = samples, start
        return Span(start, start + len(samples))

    async def recv(self) -> AudioFrame:
        """Return the next 20 ms when they are due (mono s16, 48 kHz)."""
        if self.readyState != "live":
            raise MediaStreamError
        if self._next is None:
            self._next = self._first = -(-self._clock.now() // FRAME) * FRAME
        start = self._next
        wait = self._clock.seconds_until(start + FRAME)
        if wait > 0:
            await asyncio.sleep(wait)
        self.late_ms.append(max(0.0, -self._clock.seconds_until(start + FRAME) * 1000))
        samples = self._samples(start)
        self._sent.append(samples)
        self._next = start + FRAME

        frame = AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = RATE
        frame.time_base = Fraction(1, RATE)
        frame.pts = start - self._first
        return frame

    def recording(self) -> npt.NDArray[np.int16]:
        """Return everything sent, from the clock's zero on, shape (samples,)."""
        return np.concatenate([np.zeros(self._first, dtype=np.int16), *self._sent])

    def _samples(self, start: int) -> npt.NDArray[np.int16]:
        amplitude = 10 ** (ROOM_NOISE_DBFS / 20)
        mixed = self._noise.normal(0.0, amplitude, FRAME)
        offset = start - self._speech_start
        if 0 <= offset < len(self._speech):
            spoken = self._speech[offset : offset + FRAME]
            mixed[: len(spoken)] += spoken
        return np.clip(np.round(mixed * 32768), -32768, 32767).astype(np.int16)
