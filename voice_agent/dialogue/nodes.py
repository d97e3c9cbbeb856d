"""livekit-agents' agent of a call: its pipeline nodes, handed to the call's own parts."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator
from contextvars import ContextVar
from typing import Any

from livekit import rtc
from livekit.agents import Agent, APIError, ModelSettings, llm, stt, tts

from voice_agent.dialogue.listening import Listener
from voice_agent.dialogue.phrases import Phrases, speak
from voice_agent.dialogue.reply import Reply

CURRENT_REPLY: ContextVar[Reply | None] = ContextVar("current_reply", default=None)
"""Set around ``session.generate_reply``: the speech's tasks inherit it, so both nodes find the reply they belong to."""


class _NotAtTheEnd(logging.Filter):
    """Drops a warning that every session in manual mode gives when it is closed.

    Closing commits the caller's turn although the session, which is told of none, has none to commit.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("skipping user input, speech scheduling is paused")


logging.getLogger("livekit.agents").addFilter(_NotAtTheEnd())


class CallAgent(Agent):
    """The session's agent. Turns are the floor's, messages and tools the conversation's, so little is left here.

    Args:
        instructions: The system prompt, for the session's own history.
        listener: Takes the caller's audio.
        voice: Speaks what no reply brings along.
        phrases: Prepared audio, looked up by its text.
    """

    def __init__(self, instructions: str, listener: Listener, voice: tts.TTS[Any], phrases: Phrases) -> None:
        super().__init__(instructions=instructions)
        self._listener = listener
        self._voice = voice
        self._phrases = phrases

    async def stt_node(
        self, audio: AsyncIterable[rtc.AudioFrame], model_settings: ModelSettings
    ) -> AsyncIterator[stt.SpeechEvent]:
        """Listen; the floor gets the transcripts, the session none: it commits nothing by itself."""
        await self._listener.listen(audio)
        return
        yield

    async def llm_node(
        self, chat_ctx: llm.ChatContext, tools: list[llm.Tool], model_settings: ModelSettings
    ) -> AsyncIterator[str]:
        """The words of the reply that was committed."""
        reply = CURRENT_REPLY.get()
        assert reply is not None, "generate_reply is called by the call alone"
        async for words in reply.text():
            yield words

    async def tts_node(self, text: AsyncIterable[str], model_settings: ModelSettings) -> AsyncIterator[rtc.AudioFrame]:
        """The reply's own audio; else prepared audio; else the synthesizer's."""
        reply = CURRENT_REPLY.get()
        if reply is not None:
            async for frame in reply.audio():
                yield frame
            return
        words = "".join([piece async for piece in text])
        prepared = self._phrases.get(words)
        if prepared is not None:
            for frame in prepared:
                yield frame
            return
        try:
            async for frame in speak(self._voice, words):
                yield frame
        except APIError:
            return  # nothing can be said without a voice; the error is the voice's to report
