"""One call: a livekit-agents session over a transport, its turns taken by a floor.

The caller's frames go to the listener, its events to the floor, the floor's decisions come back here: prepare a reply,
commit it, duck, pause or stop the agent. The session runs in manual mode; it plays, interrupts and keeps the history.
What the language model sees is the conversation's business alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from livekit.agents import AgentSession
from livekit.agents.voice.events import AgentStateChangedEvent
from livekit.agents.voice.io import PlaybackStartedEvent

from voice_agent.dialogue import phrases as say
from voice_agent.dialogue.listening import Listener
from voice_agent.dialogue.nodes import CallAgent
from voice_agent.dialogue.reply import Reply
from voice_agent.dialogue.retraction import Checkpoint
from voice_agent.dialogue.session import make_session
from voice_agent.dialogue.turn_log import TurnLog
from voice_agent.dialogue.utterance import Utterance, speaking
from voice_agent.llm import Draft
from voice_agent.services import Services
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.record import TurnRecord
from voice_agent.transports.audio_output import CaptionOutput
from voice_agent.transports.base import Transport
from voice_agent.transports.events import Message
from voice_agent.turn_taking import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    Commit,
    Decision,
    DropSpeculation,
    Duck,
    Event,
    Final,
    NoInput,
    NoInputTimer,
    Partial,
    PauseAgent,
    Preflight,
    Reopen,
    ResumeAgent,
    Speculate,
    SpeechEnd,
    SpeechStart,
    StopAgent,
    Tick,
)

logger = logging.getLogger(__name__)

_TICK_S = 0.02
_NOTICE_EVERY_S = 8.0
_ABOUT_TO_BE_HEARD_S = 0.4
_LONGEST_MS = 1e12


@dataclass
class _Closing:
    """How the call ends."""

    task: asyncio.Task[None] | None = None
    reason: str = ""
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Call:
    """See the module. ``transport`` must be set before media flow; the transport calls the ``on_`` methods."""

    transport: Transport

    def __init__(self, call_id: str, services: Services) -> None:
        self.call_id = call_id
        self._services = services
        self.clock = CallClock()
        self._conversation = services.conversation()
        self._recognizer = services.recognizer()
        self._voice = services.voice()
        self._floor = services.floor()
        self._no_input = NoInputTimer()
        self._log = TurnLog(call_id, self.clock, services.store, services.metrics, self._publish_record)
        self._listener = Listener(self._recognizer, self.clock, self.on_caller_event, self._on_recognizer_error)
        self._session: AgentSession[None] | None = None
        self._speculation: Reply | None = None
        self._earlier: Draft | None = None
        self._utterance: Utterance | None = None
        self._answering: Utterance | None = None  # the latest that answers a turn
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = _Closing()
        self._notice_at: float | None = None
        self._engine_up = True
        self._caller_sounds = False
        self._muted = False

    # From the transport

    def on_connected(self) -> None:
        """Media flow: start the session and greet."""
        self._spawn(self._begin(), "call-begin")

    def on_caller_frame(self, pcm: bytes) -> None:
        """The session reads the frames itself."""

    def on_message(self, message: Message) -> None:
        """A message from the page."""
        match message.get("type"):
            case "ping":
                client_ms = _number(message.get("client_ms")) or 0.0
                self.transport.send({"type": "pong", "client_ms": client_ms, "server_ms": self._log.ping(client_ms)})
            case "agent_audible":
                self._log.client_heard(_number(message.get("client_ms")), _number(message.get("gap_ms")))
            case "hangup":
                self.hang_up("the caller hung up")
            case "mute":
                self._muted = message.get("muted") is True
                self._no_input.reset()
            case _:
                logger.debug("ignored a message of type %r", message.get("type"))

    def on_disconnected(self, reason: str) -> None:
        """The line is gone."""
        self.hang_up(reason)

    # Life

    async def _begin(self) -> None:
        self._log.start(self._services.info)
        self.transport.send({"type": "info", "call_id": self.call_id, **self._services.info})
        self._session = make_session(self._recognizer, self._services.model, self._voice)
        output = self.transport.output
        self._session.input.audio = self.transport.microphone
        self._session.output.audio = output
        self._session.output.transcription = CaptionOutput(self._on_agent_words)
        self._session.on("agent_state_changed", self._on_agent_state)
        output.on("playback_started", self._on_audible)
        agent = CallAgent(
            str(self._conversation.messages[0]["content"]), self._listener, self._voice, self._services.phrases
        )
        await self._session.start(agent, record=False)
        self._say(self._conversation.greeting, record=self._log.greeting(self._conversation.greeting))
        self._prefill(self._conversation.turn())
        self._spawn(self._tick(), "call-tick")

    def hang_up(self, reason: str) -> None:
        """End the call, soon. Safe to call at any time, more than once."""
        if self._closing.task is None:
            self._closing.reason = reason
            self._closing.task = asyncio.get_running_loop().create_task(self._close(), name="call-close")

    async def ended(self) -> str:
        """Wait for the call's end and everything of it being gone; returns the reason."""
        await self._closing.done.wait()
        return self._closing.reason

    async def _close(self) -> None:
        try:
            if self._utterance is not None and not self._utterance.over:
                self._finish(self._utterance, heard=self._heard(), interrupted=True)
            self.transport.send({"type": "state", "state": "ended"})
            self.transport.send({"type": "bye", "reason": self._closing.reason})
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._speculation is not None:
                await self._speculation.drop()
            await self.transport.aclose()
            if self._session is not None:
                await self._session.aclose()
            await self._recognizer.aclose()
            await self._voice.aclose()
            underruns = self.transport.output.playback.underruns
            self._services.metrics.underruns.inc(underruns)
            details: dict[str, Any] = {**self._services.info, "underruns": underruns}
            details["concealed_ms"] = round(self.transport.microphone.concealed_s * 1000)
            if self._session is not None:
                await self._log.end(self._closing.reason, details)
        except Exception:
            logger.exception("call %s did not close cleanly", self.call_id)
            self._services.metrics.errors.labels("close").inc()
        finally:
            self._closing.done.set()

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("call %s: %s failed", self.call_id, task.get_name(), exc_info=error)
            self._services.metrics.errors.labels("call").inc()
            self.hang_up("an internal error")

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self.clock.seconds()
            self._decide(Tick(now))
            idle = self._utterance is None and not self._caller_sounds and not self._muted
            match self._no_input.tick(now, idle=idle):
                case NoInput.PROMPT:
                    self._say(say.STILL_THERE[min(self._no_input.prompts, len(say.STILL_THERE)) - 1])
                case NoInput.GOODBYE:
                    self._say(say.GOODBYE_SILENT, then_hang_up="the caller was silent")
            if now > self._services.max_call_s and self._utterance is None:
                self._say(say.GOODBYE_TIME, then_hang_up="the longest time of a call was reached")

    # The caller's side

    def on_caller_event(self, event: Event) -> None:
        """The listener heard something: note it, show it, let the floor decide."""
        self._log.note(event)
        match event:
            case SpeechStart():
                self._caller_sounds = True
                self._no_input.reset()
                if self._utterance is not None:
                    self._decide(AgentHeard(event.at, self._heard(ahead_s=_ABOUT_TO_BE_HEARD_S)))
            case Partial() | Preflight() | Final() if event.text:
                self._no_input.reset()
            case SpeechEnd():
                self._caller_sounds = False
            case _:
                pass
        self._decide(event)
        if isinstance(event, (Partial, Preflight, Final)) and (said := self._floor.turn_text):
            self._caption_caller(said)
            if isinstance(event, Partial) and self._utterance is None:
                self._prefill(self._conversation.preview(said))

    def _caption_caller(self, text: str, *, final: bool = False) -> None:
        turn = self._log.turns if final else self._log.turns + 1
        self.transport.send({"type": "caption", "role": "caller", "turn": turn, "text": text, "final": final})

    def _prefill(self, prompt: Any) -> None:
        self._services.model.prefill(prompt.messages, prompt.tools)

    def _publish_record(self, record: Message) -> None:
        self.transport.send({"type": "turn", "record": record})

    # What the floor decides

    def _decide(self, event: Event) -> None:
        decisions = self._floor.handle(event)
        if logger.isEnabledFor(logging.DEBUG) and (decisions or not isinstance(event, Tick)):
            logger.debug("%s %s -> %s", self.call_id, event, decisions)
        for decision in decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Speculate(text):
                self._speculate(text)
            case DropSpeculation():
                self._discard_speculation()
            case Commit(text):
                self._commit(text)
            case Duck():
                self.transport.output.duck()
            case Reopen():
                self._reopen()
            case PauseAgent():
                self.transport.output.pause()
                if self._utterance is not None and self._utterance.reply is not None:
                    self._utterance.reply.hold()
            case ResumeAgent():
                self.transport.output.resume()
                if self._utterance is not None and self._utterance.reply is not None:
                    self._utterance.reply.release()
            case StopAgent():
                self._stop_agent()

    def _new_reply(self, text: str, *, speculative: bool) -> Reply:
        shared = self._services
        return Reply(
            text,
            self._conversation,
            shared.model,
            self._voice,
            shared.phrases,
            self.clock,
            speculative=speculative,
            earlier=self._earlier,
            apology=lambda: say.APOLOGY if self._engine_up else say.OUTAGE,
        )

    def _speculate(self, text: str) -> None:
        self._discard_speculation()
        self._speculation = self._new_reply(text, speculative=True)

    def _discard_speculation(self) -> None:
        reply, self._speculation = self._speculation, None
        if reply is not None:
            self._earlier = reply.beginning or self._earlier
            self._log.speculation_dropped()
            self._spawn(reply.drop(), "call-drop")

    def _reopen(self) -> None:
        """The turn committed last wasn't over: forget that it was answered."""
        utterance, self._answering = self._answering, None
        if utterance is None or utterance.record is None:
            return
        if utterance.before is not None:
            utterance.before.restore()
        utterance.withdrawn = self._log.reopened(utterance.record)

    def _commit(self, text: str) -> None:
        """The caller's turn is over: let the reply be heard."""
        if self._session is None or self._closing.task is not None:
            return
        before = Checkpoint(self._conversation)
        reply = self._speculation
        usable = reply is not None and reply.error is None and reply.answers(self._conversation.preview(text))
        if reply is not None and usable:
            self._speculation = None
        else:
            self._discard_speculation()
            reply = self._new_reply(text, speculative=False)
        self._earlier = None
        reply.commit()
        record = self._log.committed(text, self._listener.caller_audio_end_ms, reply)
        self._caption_caller(text, final=True)

        handle = speaking(reply, self._session.generate_reply, user_input=text)
        self._answering = Utterance(record.turn, handle, reply, record, before)
        self._begin_utterance(self._answering)

    # The agent's side

    def _say(self, text: str, *, record: TurnRecord | None = None, then_hang_up: str = "") -> None:
        """Say a fixed phrase."""
        if self._session is None or self._closing.task is not None:
            return
        handle = speaking(None, self._session.say, text)
        self._begin_utterance(Utterance(self._log.turns, handle, record=record, then_hang_up=then_hang_up))

    def _begin_utterance(self, utterance: Utterance) -> None:
        self._utterance = utterance
        utterance.handle.add_done_callback(lambda handle: self._on_spoken(utterance))

    def _on_audible(self, event: PlaybackStartedEvent) -> None:
        utterance = self._utterance
        if utterance is None or utterance.audible:
            return
        utterance.audible = True
        if utterance.record is not None:
            self._log.first_packet(utterance.record, self._listener.caller_audio_end_ms)
        self._decide(AgentAudioStarted(self.clock.seconds()))

    def _on_agent_words(self, words: str) -> None:
        utterance = self._utterance
        if utterance is not None and not utterance.over:
            utterance.caption += words
            self._caption_agent(utterance)

    def _caption_agent(self, utterance: Utterance, *, final: bool = False, heard: str | None = None) -> None:
        text = utterance.caption.strip()
        caption: Message = {"type": "caption", "role": "agent", "turn": utterance.turn, "text": text, "final": final}
        if heard is not None:
            caption["heard_text"] = heard
        self.transport.send(caption)

    def _on_agent_state(self, event: AgentStateChangedEvent) -> None:
        if event.new_state in ("listening", "thinking", "speaking") and self._closing.task is None:
            self.transport.send({"type": "state", "state": event.new_state})

    def _heard(self, ahead_s: float = 0.0) -> str:
        """The words of the current utterance that the caller has heard, or will have in ``ahead_s``."""
        segment = self.transport.output.playback.current
        return segment.heard_text(ahead_s).strip() if segment is not None and segment.played else ""

    def _stop_agent(self) -> None:
        """The caller claims the turn: silence at once, and only what was heard is remembered."""
        utterance = self._utterance
        if utterance is None or self._session is None:
            return
        if utterance.reply is not None:
            utterance.reply.cancel()  # before anything is taken back: it works on the dialogue itself
        self._finish(utterance, heard=self._heard(), interrupted=True)
        self._conversation.outcome = ""  # a goodbye that was cut off is none
        self.transport.output.clear_buffer()
        self._session.interrupt(force=True)
        self._spawn(self._end_reply(utterance), "call-drop")

    async def _end_reply(self, utterance: Utterance) -> None:
        """End the work on a reply that was stopped, and complete its turn's record."""
        if utterance.reply is not None:
            await utterance.reply.drop()
            if utterance.record is not None and not utterance.withdrawn:
                self._log.completed(utterance.record, utterance.reply)

    def _on_spoken(self, utterance: Utterance) -> None:
        """The session is done with an utterance."""
        if utterance.over:
            return
        heard = utterance.caption.strip() if utterance.audible else ""
        self._finish(utterance, heard=heard, interrupted=False)
        now = self.clock.seconds()
        if utterance.audible:
            self._decide(AgentHeard(now, heard))
        self._decide(AgentFinished(now))
        reason = utterance.then_hang_up
        if utterance.reply is not None and self._conversation.outcome:
            handed_over = self._conversation.outcome == "hand_over"
            reason = "handed over to a person" if handed_over else "the agent said goodbye"
        if reason:
            self.hang_up(reason)

    def _finish(self, utterance: Utterance, *, heard: str, interrupted: bool) -> None:
        utterance.over = True
        if self._utterance is utterance:
            self._utterance = None
        if utterance.reply is not None:
            self._conversation.said(heard)
            if not interrupted:
                self._prefill(self._conversation.turn())
        self._caption_agent(utterance, final=True, heard=heard if interrupted else None)
        if utterance.record is not None:
            self._log.ended(utterance.record, heard=heard, interrupted=interrupted, reply=utterance.reply)

    # Trouble

    def engine_changed(self, up: bool) -> None:
        """The engine died, or is back."""
        self._engine_up = up
        if up:
            self._prefill(self._conversation.turn())
        else:
            self._notice("engine", "The language model is being restarted.")

    def _on_recognizer_error(self, message: str) -> None:
        logger.warning("%s: the recogniser failed: %s", self.call_id, message)
        self._notice("speech", "The recogniser is being restarted.")

    def _notice(self, code: Literal["engine", "speech"], message: str) -> None:
        """Tell a caller who waits, with prepared audio, but not again and again."""
        now = self.clock.seconds()
        if self._notice_at is not None and now - self._notice_at < _NOTICE_EVERY_S:
            return
        self._notice_at = now
        self._services.metrics.errors.labels(code).inc()
        self.transport.send({"type": "error", "code": code, "message": message})
        if self._utterance is None:
            self._say(say.TROUBLE)


def _number(value: object) -> float | None:
    """A time of the page's; None for anything else, such as NaN or 10**400, which no record can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= _LONGEST_MS else None
