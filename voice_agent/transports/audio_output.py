"""livekit-agents' audio output over a :class:`Playback`, and the text output that captions the agent's words."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from livekit import rtc
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.agents.utils import is_given
from livekit.agents.voice import io

from voice_agent.transports.playback import SAMPLE_RATE_HZ, Playback, Samples, Segment

DUCKED_GAIN = 0.25
"""Amplitude of the agent's voice while the caller makes a sound (-12 dB)."""


class PlaybackOutput(io.AudioOutput):
    """What the session speaks into; it takes frames of any rate and plays them mono, at 48 kHz.

    Every flushed segment is answered by exactly one ``playback_finished``, with the time that was really played and,
    where the words' times are known, the words that were heard. The times come on the frames themselves (the session's
    own resampler would drop them), so words can't be credited to another segment's audio.
    """

    def __init__(self) -> None:
        super().__init__(label="Playback", capabilities=io.AudioOutputCapabilities(pause=True), sample_rate=None)
        self.playback = Playback(self._started, self._finished)
        self._resampler: rtc.AudioResampler | None = None
        self._resampled_hz = 0

    def _started(self, segment: Segment) -> None:
        self.on_playback_started(created_at=time.time())

    def _finished(self, segment: Segment) -> None:
        self.on_playback_finished(
            playback_position=segment.position_s,
            interrupted=segment.cut,
            synchronized_transcript=segment.heard_text() if segment.cut and segment.words else None,
        )

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        """Queue a frame; several seconds may come at once."""
        await super().capture_frame(frame)
        samples = np.frombuffer(frame.data, np.int16)
        if frame.num_channels != 1:
            samples = samples.reshape(-1, frame.num_channels).mean(axis=1).astype(np.int16)
        self.playback.capture(self._at_48_khz(samples.copy(), frame.sample_rate))
        for word in frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, []):
            if is_given(word.end_time):
                self.playback.add_word(str(word), float(word.end_time))

    def flush(self) -> None:
        """The segment is complete."""
        super().flush()
        if self._resampler is not None:
            self.playback.capture(_joined(self._resampler.flush()))
            self._resampler = None
        self.playback.flush()

    def _at_48_khz(self, samples: Samples, rate_hz: int) -> Samples:
        """Resample; the resampler keeps a few samples back until the segment is flushed."""
        if rate_hz == SAMPLE_RATE_HZ or not samples.size:
            return samples
        if self._resampler is None or self._resampled_hz != rate_hz:
            self._resampler, self._resampled_hz = rtc.AudioResampler(rate_hz, SAMPLE_RATE_HZ), rate_hz
        return _joined(self._resampler.push(bytearray(samples.tobytes())))

    def clear_buffer(self) -> None:
        """Stop at once."""
        self.playback.clear()

    def pause(self) -> None:
        """Fall silent, keep the rest."""
        super().pause()
        self.playback.pause()

    def resume(self) -> None:
        """Go on at full volume."""
        super().resume()
        self.playback.resume()

    def duck(self) -> None:
        """Lower the voice until :meth:`resume`."""
        self.playback.duck(DUCKED_GAIN)


class CaptionOutput(io.TextOutput):
    """The agent's words on their way to the page.

    Args:
        on_text: Called with each piece of text as it comes.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        super().__init__(label="Captions", next_in_chain=None)
        self._on_text = on_text

    async def capture_text(self, text: str) -> None:
        """Take the next piece of the utterance's text."""
        self._on_text(str(text))

    def flush(self) -> None:
        """The utterance's text is complete."""


def _joined(frames: list[rtc.AudioFrame]) -> Samples:
    parts = [np.frombuffer(frame.data, np.int16) for frame in frames]
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)
