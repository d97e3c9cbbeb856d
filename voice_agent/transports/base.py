"""What a call needs from a transport: audio each way, messages, and the end of the line."""

from __future__ import annotations

from typing import Protocol

from voice_agent.transports.audio_output import PlaybackOutput
from voice_agent.transports.events import Message
from voice_agent.transports.microphone import Microphone


class CallEvents(Protocol):
    """What a transport tells the call. All are called on the event loop and return at once."""

    def on_connected(self) -> None:
        """Media flows both ways."""

    def on_caller_frame(self, pcm: bytes) -> None:
        """20 ms of the caller: 16 kHz, mono, s16 (640 bytes)."""

    def on_message(self, message: Message) -> None:
        """A message from the page."""

    def on_disconnected(self, reason: str) -> None:
        """The line is gone."""


class Transport(Protocol):
    """Moves audio, messages and hang-ups, nothing else."""

    @property
    def microphone(self) -> Microphone:
        """The caller's audio."""

    @property
    def output(self) -> PlaybackOutput:
        """The agent's audio."""

    def send(self, message: Message) -> None:
        """Send a message to the page; kept until the channel is open, dropped when it is gone."""

    async def aclose(self) -> None:
        """Hang up and free everything."""
