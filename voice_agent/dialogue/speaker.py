"""The call's mouth: what the agent is saying, what the caller has heard of it, and how it is cut off."""

from __future__ import annotations

from collections.abc import Callable

from livekit.agents import AgentSession
from livekit.agents.voice.events import AgentStateChangedEvent
from livekit.agents.voice.io import PlaybackStartedEvent

from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.dialogue.page import Page
from voice_agent.dialogue.reply import Reply
from voice_agent.dialogue.retraction import Checkpoint
from voice_agent.dialogue.tasks import CallTasks
from voice_agent.dialogue.turn_log import TurnLog
from voice_agent.dialogue.utterance import Utterance, speaking
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.record import TurnRecord
from voice_agent.transports.audio_output import CaptionOutput, PlaybackOutput
from voice_agent.turn_taking import AgentAudioStarted, AgentFinished, AgentHeard, Event


class Speaker:
    """One utterance at a time. It says nothing before `begin` and after `close`.

    Args:
        conversation: Told which words of a reply were heard.
        log: Told when a reply was audible and when it ended.
        page: Shown the words.
        clock: The call's clock.
        tasks: Where a reply that was stopped ends its work.
        audio_end_ms: The caller's last audible sample (ms of the call).
        on_said: Called when the dialogue has got the words of a whole reply.
        on_event: Gets the floor's events about the agent.
        on_spoken: Called with an utterance that came to its end.
    """

    def __init__(
        self,
        conversation: Conversation,
        log: TurnLog,
        page: Page,
        clock: CallClock,
        tasks: CallTasks,
        audio_end_ms: Callable[[], float | None],
        on_said: Callable[[], None],
        on_event: Callable[[Event], None],
        on_spoken: Callable[[Utterance], None],
    ) -> None:
        self._conversation = conversation
        self._log = log
        self._page = page
        self._clock = clock
        self._tasks = tasks
        self._audio_end_ms = audio_end_ms
        self._on_said = on_said
        self._on_event = on_event
        self._on_spoken = on_spoken
        self._session: AgentSession[None] | None = None
        self._output: PlaybackOutput | None = None
        self._closed = False
        self.utterance: Utterance | None = None
        """What is being said, or about to be."""

    def begin(self, session: AgentSession[None], output: PlaybackOutput) -> None:
        """Speak through ``session`` into ``output`` from now on."""
        self._session, self._output = session, output
        session.output.audio = output
        session.output.transcription = CaptionOutput(self._on_words)
        session.on("agent_state_changed", self._on_state)
        output.on("playback_started", self._on_audible)

    def close(self) -> None:
        """Say nothing more."""
        self._closed = True

    def heard(self, ahead_s: float = 0.0) -> str:
        """The words of the current utterance that the caller has heard, or will have in ``ahead_s``."""
        segment = self._output.playback.current if self._output is not None else None
        return segment.heard_text(ahead_s).strip() if segment is not None and segment.played else ""

    # Speaking

    def say(self, text: str, *, record: TurnRecord | None = None, then_hang_up: str = "") -> None:
        """Say a fixed phrase."""
        if self._session is None or self._closed:
            return
        handle = speaking(None, self._session.say, text)
        self._begin(Utterance(self._log.turns, handle, record=record, then_hang_up=then_hang_up))

    def answer(self, text: str, reply: Reply, record: TurnRecord, before: Checkpoint) -> Utterance | None:
        """Say ``reply``, which answers the caller's ``text``."""
        if self._session is None or self._closed:
            return None
        handle = speaking(reply, self._session.generate_reply, user_input=text)
        utterance = Utterance(record.turn, handle, reply, record, before)
        self._begin(utterance)
        return utterance

    def _begin(self, utterance: Utterance) -> None:
        self.utterance = utterance
        utterance.handle.add_done_callback(lambda handle: self._spoken(utterance))

    # Being cut off

    def pause(self) -> None:
        """Fall silent, keep the rest."""
        if self._output is not None:
            self._output.pause()
        if self.utterance is not None and self.utterance.reply is not None:
            self.utterance.reply.hold()

    def resume(self) -> None:
        """Go on at full volume, where it was paused."""
        if self._output is not None:
            self._output.resume()
        if self.utterance is not None and self.utterance.reply is not None:
            self.utterance.reply.release()

    def duck(self) -> None:
        """Lower the voice."""
        if self._output is not None:
            self._output.duck()

    def stop(self) -> None:
        """The caller claims the turn: silence at once, and only what was heard is remembered."""
        utterance = self.utterance
        if utterance is None or self._session is None or self._output is None:
            return
        if utterance.reply is not None:
            utterance.reply.cancel()  # before anything is taken back: it works on the dialogue itself
        self._finish(utterance, heard=self.heard(), interrupted=True)
        self._conversation.outcome = ""  # a goodbye that was cut off is none
        self._output.clear_buffer()
        self._session.interrupt(force=True)
        self._tasks.spawn(self._end_reply(utterance), "call-drop")

    async def break_off(self) -> None:
        """The line is gone in mid-utterance; returns when no work on a reply is left."""
        utterance = self.utterance
        if utterance is None or utterance.over:
            return
        if utterance.reply is not None:
            utterance.reply.cancel()  # at once: nothing may be booked for a caller who has gone
        self._finish(utterance, heard=self.heard(), interrupted=True)
        await self._end_reply(utterance)

    async def _end_reply(self, utterance: Utterance) -> None:
        """End the work on a reply that was stopped, and complete its turn's record."""
        if utterance.reply is not None:
            await utterance.reply.drop()
            if utterance.record is not None and not utterance.withdrawn:
                self._log.completed(utterance.record, utterance.reply)

    # What the session and the line tell

    def _on_state(self, event: AgentStateChangedEvent) -> None:
        if event.new_state in ("listening", "thinking", "speaking") and not self._closed:
            self._page.state(event.new_state)

    def _on_audible(self, event: PlaybackStartedEvent) -> None:
        utterance = self.utterance
        if utterance is None or utterance.audible:
            return
        utterance.audible = True
        if utterance.record is not None:
            self._log.first_packet(utterance.record, self._audio_end_ms())
        self._on_event(AgentAudioStarted(self._clock.seconds()))

    def _on_words(self, words: str) -> None:
        utterance = self.utterance
        if utterance is not None and not utterance.over:
            utterance.caption += words
            self._page.agent_says(utterance)

    def _spoken(self, utterance: Utterance) -> None:
        """The session is done with an utterance."""
        if utterance.over:
            return
        heard = utterance.caption.strip() if utterance.audible else ""
        self._finish(utterance, heard=heard, interrupted=False)
        now = self._clock.seconds()
        if utterance.audible:
            self._on_event(AgentHeard(now, heard))
        answered = utterance.reply is None or not utterance.reply.put_off
        self._on_event(AgentFinished(now, answered))
        self._on_spoken(utterance)

    def _finish(self, utterance: Utterance, *, heard: str, interrupted: bool) -> None:
        utterance.over = True
        if self.utterance is utterance:
            self.utterance = None
        if utterance.reply is not None:
            self._conversation.said(heard)
            if not interrupted:
                self._on_said()
        self._page.agent_says(utterance, final=True, heard=heard if interrupted else None)
        if utterance.record is not None:
            self._log.ended(utterance.record, heard=heard, interrupted=interrupted, reply=utterance.reply)
