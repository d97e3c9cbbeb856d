"""The replies of a call: at most one is prepared before the caller's turn is over, and used if the turn is that one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from livekit.agents import APIError, tts

from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.dialogue.phrases import Phrases
from voice_agent.dialogue.reply import Reply
from voice_agent.dialogue.tasks import CallTasks
from voice_agent.llm import LLM, Draft
from voice_agent.telemetry.clock import CallClock


class Replies:
    """Makes replies.

    Args:
        conversation: The call's dialogue.
        model: The language model.
        voice: The synthesizer.
        phrases: Prepared audio.
        clock: The call's clock.
        tasks: Where a dropped reply ends its work.
        apology: What a reply says where the model or the voice fails, by its error.
        on_dropped: Called when a prepared reply is thrown away.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: LLM,
        voice: tts.TTS[Any],
        phrases: Phrases,
        clock: CallClock,
        tasks: CallTasks,
        apology: Callable[[APIError], Awaitable[str]],
        on_dropped: Callable[[], None],
    ) -> None:
        self._conversation = conversation
        self._model = model
        self._voice = voice
        self._phrases = phrases
        self._clock = clock
        self._tasks = tasks
        self._apology = apology
        self._on_dropped = on_dropped
        self._prepared: Reply | None = None
        self._taken: Reply | None = None  # the latest that answers a turn
        self._earlier: Draft | None = None  # how the latest reply to the turn under way began

    def prepare(self, text: str) -> None:
        """Begin a reply to ``text``, instead of the one begun before."""
        self.discard()
        self._prepared = self._make(text, speculative=True)

    def discard(self) -> None:
        """Throw the prepared reply away: the caller went on."""
        reply, self._prepared = self._prepared, None
        if reply is not None:
            self._earlier = reply.beginning or self._earlier
            self._on_dropped()
            self._tasks.spawn(reply.drop(), "call-drop")

    def take(self, text: str) -> Reply:
        """The reply to the turn ``text``, which is over: the prepared one where it answers just that, or a new one."""
        reply = self._prepared
        usable = reply is not None and reply.error is None and reply.answers(self._conversation.preview(text))
        if reply is not None and usable:
            self._prepared = None
        else:
            self.discard()
            reply = self._make(text, speculative=False)
        self._earlier = None
        reply.commit()
        self._taken = reply
        return reply

    async def aclose(self) -> None:
        """End the work on a prepared reply, and on the one taken last."""
        for reply in (self._prepared, self._taken):
            if reply is not None:
                await reply.drop()

    def _make(self, text: str, *, speculative: bool) -> Reply:
        return Reply(
            text,
            self._conversation,
            self._model,
            self._voice,
            self._phrases,
            self._clock,
            speculative=speculative,
            earlier=self._earlier,
            apology=self._apology,
        )
