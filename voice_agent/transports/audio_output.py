"""livekit-agents' audio output over a :class:`Playback`, and the text output that times the agent's words."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from livekit import rtc
from livekit.agents.types import TimedString
from livekit.agents.utils import is_given
from livekit.agents.voice import io

from voice_agent.transports.playback import SAMPLE_RATE_HZ, Playback, Segment

DUCKED_GAIN = 0.25
"""Amplitude of the agent's voice while the caller makes a sound (-12 dB)."""


class PlaybackOutput(io.AudioOutput):
    """What the session speaks into. Mono, 48 kHz; the session resamples to it.

    Every flushed segment is answered by exactly one ``playback_finished``, with the time that was really played and,
    where the words' times are known, the words that were heard.
    """

    def __init__(self) -> None:
        super().__init__(
            label="Playback", capabilities=io.AudioOutputCapabilities(pause=True), sample_rate=SAMPLE_RATE_HZ
        )
        self.playback = Playback(self._started, self._finished)

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
        if frame.sample_rate != SAMPLE_RATE_HZ:
            raise ValueError(f"the audio output takes {SAMPLE_RATE_HZ} Hz, not {frame.sample_rate}")
        await super().capture_frame(frame)
        samples = np.frombuffer(frame.data, np.int16)
        if frame.num_channels != 1:
            samples = samples.reshape(-1, frame.num_channels).mean(axis=1).astype(np.int16)
        self.playback.capture(samples.copy())

    def flush(self) -> None:
        """The segment is complete."""
        super().flush()
        self.playback.flush()

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
    """The agent's words on their way to the page; words with times are noted beside the audio they belong to.

    Args:
        playback: Where the audio of the words goes.
        on_text: Called with each piece of text as it comes.
    """

    def __init__(self, playback: Playback, on_text: Callable[[str], None]) -> None:
        super().__init__(label="Captions", next_in_chain=None)
        self._playback = playback
        self._on_text = on_text

    async def capture_text(self, text: str) -> None:
        """Take the next piece of the utterance's text."""
        if isinstance(text, TimedString) and is_given(text.end_time):
            self._playback.add_word(str(text), float(text.end_time))
        self._on_text(str(text))

    def flush(self) -> None:
        """The utterance's text is complete."""
