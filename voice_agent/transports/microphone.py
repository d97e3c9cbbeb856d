"""The caller's audio: a remote track in, 20 ms frames of 16 kHz mono out, on one clock without holes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from aiortc.rtcrtpreceiver import RTCRtpReceiver
from aiortc.rtp import RtpPacket
from av import AudioFrame, AudioResampler
from livekit import rtc
from livekit.agents.voice import io

SAMPLE_RATE_HZ = 16_000
FRAME_SAMPLES = SAMPLE_RATE_HZ // 50
_MAX_HOLE_S = 1.0
_MAX_QUEUED_FRAMES = 500


class ImmediateBuffer(JitterBuffer):
    """A jitter buffer that doesn't buffer: each audio packet is a frame, handed on at once.

    aiortc's own holds four packets (80 ms) and one more to see that a frame is complete. A recogniser needs no even
    pace. A packet that comes after its successor is dropped; the hole in the timestamps is filled with silence.
    """

    def __init__(self) -> None:
        super().__init__(capacity=16)
        self._latest: int | None = None
        self.dropped = 0

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        """Return the frame in ``packet``, or nothing if a later one was handed on already."""
        ahead = 1 if self._latest is None else (packet.sequence_number - self._latest) & 0xFFFF
        if ahead == 0 or ahead > 0x8000:
            self.dropped += 1
            return False, None
        self._latest = packet.sequence_number
        return False, JitterFrame(data=getattr(packet, "_data"), timestamp=packet.timestamp)  # noqa: B009 - set, not declared, by aiortc


def hand_on_at_once(receiver: RTCRtpReceiver) -> None:
    """Replace the receiver's jitter buffer. aiortc has no option for it; a test holds the name."""
    assert hasattr(receiver, "_RTCRtpReceiver__jitter_buffer"), "aiortc changed: look for its jitter buffer"
    receiver._RTCRtpReceiver__jitter_buffer = ImmediateBuffer()


class Microphone(io.AudioInput):
    """livekit-agents' audio input over a remote WebRTC track.

    Args:
        on_frame: Called with each frame (s16 PCM, 640 bytes) before the session gets it, on the event loop.
    """

    def __init__(self, on_frame: Callable[[bytes], None]) -> None:
        super().__init__(label="Microphone")
        self._on_frame = on_frame
        self._resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE_HZ)
        self._frames: deque[rtc.AudioFrame] = deque(maxlen=_MAX_QUEUED_FRAMES)
        self._more = asyncio.Event()
        self._ended = False
        self._pending = np.zeros(0, np.int16)
        self._next_s: float | None = None
        self.concealed_s = 0.0
        """Audio that never came and was replaced by silence (s)."""

    async def pump(self, track: MediaStreamTrack) -> None:
        """Read ``track`` until it ends."""
        try:
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                self.push(frame)
        except MediaStreamError:
            pass
        finally:
            self.end()

    def push(self, frame: AudioFrame) -> None:
        """Take one decoded frame of any rate and layout."""
        self._fill_hole(frame)
        for resampled in self._resampler.resample(frame):
            self._emit(resampled.to_ndarray().reshape(-1).astype(np.int16))

    def _fill_hole(self, frame: AudioFrame) -> None:
        if frame.pts is None or frame.time_base is None:
            return
        start_s = float(frame.pts * frame.time_base)
        hole_s = 0.0 if self._next_s is None else start_s - self._next_s
        if 0.001 < hole_s < _MAX_HOLE_S:
            self.concealed_s += hole_s
            self._emit(np.zeros(round(hole_s * SAMPLE_RATE_HZ), np.int16))
        self._next_s = start_s + frame.samples / frame.sample_rate
        # The resampler keeps its own time; a timestamp that jumps would make it complain.
        frame.pts = None

    def _emit(self, samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> None:
        self._pending = np.concatenate((self._pending, samples))
        while self._pending.size >= FRAME_SAMPLES:
            pcm = self._pending[:FRAME_SAMPLES].tobytes()
            self._pending = self._pending[FRAME_SAMPLES:]
            self._on_frame(pcm)
            self._frames.append(rtc.AudioFrame(pcm, SAMPLE_RATE_HZ, 1, FRAME_SAMPLES))
            self._more.set()

    def end(self) -> None:
        """No more will come: the session's loop over this input ends."""
        self._ended = True
        self._more.set()

    async def __anext__(self) -> rtc.AudioFrame:
        while not self._frames:
            if self._ended:
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        return self._frames.popleft()
