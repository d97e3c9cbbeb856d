"""What the agent says that no model writes, synthesized once when the process starts.

An apology must be there when the language model or the synthesizer is not; a greeting must be there at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from livekit import rtc
from livekit.agents import tts

APOLOGY = "Sorry, I didn't get that. Could you say it again, please?"
"""The language model failed to answer."""
OUTAGE = "Sorry, something isn't working here. One moment please, I'll answer that in a few seconds."
"""A reply failed because a process is being restarted: it isn't the caller's fault, and the answer comes by itself."""
TROUBLE = "Sorry, one moment please."
"""A process died and is being restarted."""
STILL_THERE = ("Are you still there?", "Hello? I can't hear you.")
GOODBYE_SILENT = "I can't hear you, so I'll hang up now. Please call again. Goodbye."
GOODBYE_TIME = "I'm sorry, our time is up. Please call again. Goodbye."

FIXED = (APOLOGY, OUTAGE, TROUBLE, *STILL_THERE, GOODBYE_SILENT, GOODBYE_TIME)


@dataclass
class Phrases:
    """Prepared audio by its text, shared by all calls. Frames carry their words' times as userdata."""

    frames: dict[str, list[rtc.AudioFrame]] = field(default_factory=dict)

    async def prepare(self, voice: tts.TTS[Any], texts: list[str]) -> None:
        """Synthesize ``texts``.

        Raises:
            livekit.agents.APIError: the synthesizer failed.
        """
        for text in texts:
            self.frames[text] = [frame async for frame in speak(voice, text)]

    def get(self, text: str) -> list[rtc.AudioFrame] | None:
        """The frames of ``text``, if it was prepared."""
        return self.frames.get(text.strip())


async def speak(voice: tts.TTS[Any], text: str) -> AsyncIterator[rtc.AudioFrame]:
    """Synthesize one text; yields its frames as they come."""
    async with voice.stream() as stream:
        stream.push_text(text)
        stream.end_input()
        async for audio in stream:
            yield audio.frame
