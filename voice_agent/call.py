"""One call: a livekit-agents session over a transport, its turns taken by a floor.

The caller's frames go to the listener, its events to the floor, the floor's decisions come back here: prepare a reply,
commit it, duck, pause or stop the agent. The session runs in manual mode; it plays, interrupts and keeps the history.
What the language model sees is the conversation's business alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from livekit.agents import AgentSession

from voice_agent.agents.front_desk.agent import Turn
from voice_agent.dialogue.listening import Listener
from voice_agent.dialogue.nodes import CallAgent
from voice_agent.dialogue.page import Page, milliseconds
from voice_agent.dialogue.patience import Patience
from voice_agent.dialogue.replies import Replies
from voice_agent.dialogue.retraction import Checkpoint
from voice_agent.dialogue.session import make_session
from voice_agent.dialogue.speaker import Speaker
from voice_agent.dialogue.tasks import CallTasks
from voice_agent.dialogue.trouble import Process, Trouble
from voice_agent.dialogue.turn_log import TurnLog
from voice_agent.dialogue.utterance import Utterance
from voice_agent.services import Services
from voice_agent.telemetry.clock import CallClock
from voice_agent.transports.base import Transport
from voice_agent.transports.events import Message
from voice_agent.turn_taking import (
    AgentHeard,
    AgentReady,
    Commit,
    Decision,
    DropSpeculation,
    Duck,
    Event,
    Final,
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
_ABOUT_TO_BE_HEARD_S = 0.4


class Call:
    """See the module. ``transport``, set before media flow, calls the ``on_`` methods; tests bring their ``clock``."""

    transport: Transport

    def __init__(self, call_id: str, services: Services, clock: CallClock | None = None) -> None:
        self.call_id = call_id
        self._services = services
        self.clock = clock or CallClock()
        self._conversation = services.conversation()
        self._recognizer = services.recognizer()
        self._voice = services.voice()
        self._floor = services.floor()
        self._page = Page(lambda message: self.transport.send(message))
        self._tasks = CallTasks(self._on_task_failed)
        self._log = TurnLog(call_id, self.clock, services.store, services.metrics, self._page.record)
        self._listener = Listener(
            self._recognizer,
            self.clock,
            self.on_caller_event,
            on_error=self._on_recognizer_error,
            on_failure=lambda error: self._fail("listening", error),
        )
        self._replies = Replies(
            self._conversation,
            services.model,
            self._voice,
            services.phrases,
            self.clock,
            self._tasks,
            apology=lambda error: self._trouble.apology(error),
            on_dropped=self._log.speculation_dropped,
        )
        self._speaker = Speaker(
            self._conversation,
            self._log,
            self._page,
            self.clock,
            self._tasks,
            audio_end_ms=lambda: self._listener.caller_audio_end_ms,
            on_said=lambda: self._prefill(self._conversation.turn()),
            on_event=self._decide,
            on_spoken=self._on_spoken,
        )
        self._patience = Patience(self._speaker, services.max_call_s)
        self._trouble = Trouble(self.clock, self._page, self._speaker, services.metrics)
        self._session: AgentSession[None] | None = None
        self._answering: Utterance | None = None  # the latest that answers a turn
        self._closing: asyncio.Task[None] | None = None
        self._reason = ""  # why the call ends
        self._ended = asyncio.Event()

    # From the transport

    def on_connected(self) -> None:
        """Media flow: start the session and greet."""
        self._tasks.spawn(self._begin(), "call-begin")

    def on_caller_frame(self, pcm: bytes) -> None:
        """The session reads the frames itself."""

    def on_message(self, message: Message) -> None:
        """A message from the page."""
        match message.get("type"):
            case "ping":
                client_ms = milliseconds(message.get("client_ms")) or 0.0
                self._page.pong(client_ms, self._log.ping(client_ms))
            case "agent_audible":
                self._log.client_heard(milliseconds(message.get("client_ms")), milliseconds(message.get("gap_ms")))
            case "hangup":
                self.hang_up("the caller hung up")
            case "mute":
                self._patience.muted = message.get("muted") is True
                self._patience.timer.reset()
            case _:
                logger.debug("ignored a message of type %r", message.get("type"))

    def on_disconnected(self, reason: str) -> None:
        """The line is gone."""
        self.hang_up(reason)

    # Life

    async def _begin(self) -> None:
        self._log.start(self._services.info)
        self._page.info(self.call_id, self._services.info)
        self._session = make_session(self._recognizer, self._services.model, self._voice)
        self._session.input.audio = self.transport.microphone
        self._speaker.begin(self._session, self.transport.output)
        agent = CallAgent(
            str(self._conversation.messages[0]["content"]), self._listener, self._voice, self._services.phrases
        )
        await self._session.start(agent, record=False)
        self._speaker.say(self._conversation.greeting, record=self._log.greeting(self._conversation.greeting))
        self._prefill(self._conversation.turn())
        self._tasks.spawn(self._tick(), "call-tick")

    def hang_up(self, reason: str) -> None:
        """End the call, soon. Safe to call at any time, more than once."""
        if self._closing is None:
            self._speaker.close()
            self._reason = reason
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="call-close")

    async def ended(self) -> str:
        """Wait for the call's end and everything of it being gone; returns the reason."""
        await self._ended.wait()
        return self._reason

    async def _close(self) -> None:
        try:
            await self._speaker.break_off()
            self._page.bye(self._reason)
            await self._tasks.cancel()
            await self._replies.aclose()
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
                await self._log.end(self._reason, details)
        except Exception:
            logger.exception("call %s did not close cleanly", self.call_id)
            self._services.metrics.errors.labels("close").inc()
        finally:
            self._ended.set()

    def _on_task_failed(self, task: asyncio.Task[Any], error: BaseException) -> None:
        self._fail(task.get_name(), error)

    def _fail(self, what: str, error: BaseException) -> None:
        """Something went wrong that nobody foresaw: tell, and end the call rather than leave it half alive."""
        logger.error("call %s: %s failed", self.call_id, what, exc_info=error)
        self._services.metrics.errors.labels("call").inc()
        self.hang_up("an internal error")

    # Time

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self.clock.seconds()
            self._decide(Tick(now))
            if self._trouble.tick(now):
                self._decide(AgentReady(now))
            self._patience.tick(now, owing=self._trouble.owing)

    # The caller's side

    def on_caller_event(self, event: Event) -> None:
        """The listener heard something: note it, show it, let the floor decide."""
        self._log.note(event)
        match event:
            case SpeechStart():
                self._patience.caller_sounds = True
                self._patience.timer.reset()
                if self._speaker.utterance is not None:
                    self._decide(AgentHeard(event.at, self._speaker.heard(ahead_s=_ABOUT_TO_BE_HEARD_S)))
            case Partial() | Preflight() | Final() if event.text:
                self._patience.timer.reset()
            case SpeechEnd():
                self._patience.caller_sounds = False
            case _:
                pass
        self._decide(event)
        if isinstance(event, (Partial, Preflight, Final)) and (said := self._floor.turn_text):
            self._page.caller_says(self._log.turns + 1, said)
            if isinstance(event, Partial) and self._speaker.utterance is None:
                self._prefill(self._conversation.preview(said))

    def _prefill(self, prompt: Turn) -> None:
        self._services.model.prefill(prompt.messages, prompt.tools)

    # What the floor decides

    def _decide(self, event: Event) -> None:
        decisions = self._floor.handle(event)
        if logger.isEnabledFor(logging.DEBUG) and (decisions or not isinstance(event, (Tick, AgentReady))):
            logger.debug("%s %s -> %s", self.call_id, event, decisions)
        for decision in decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Speculate(text):
                self._replies.prepare(text)
            case DropSpeculation():
                self._replies.discard()
            case Commit(text, again):
                self._commit(text, again=again)
            case Reopen():
                self._reopen()
            case Duck():
                self._speaker.duck()
            case PauseAgent():
                self._speaker.pause()
            case ResumeAgent():
                self._speaker.resume()
            case StopAgent():
                self._speaker.stop()

    def _reopen(self) -> None:
        """The turn committed last wasn't over: forget that it was answered."""
        utterance, self._answering = self._answering, None
        if utterance is None or utterance.record is None:
            return
        if utterance.before is not None:
            utterance.before.restore()
        put_off = utterance.reply is not None and utterance.reply.put_off
        utterance.withdrawn = self._log.reopened(utterance.record, put_off=put_off)

    def _commit(self, text: str, *, again: bool) -> None:
        """The caller's turn is over: let the reply be heard."""
        if self._session is None or self._closing is not None:
            return
        before = Checkpoint(self._conversation)
        reply = self._replies.take(text)
        record = self._log.committed(text, self._listener.caller_audio_end_ms, reply, again=again)
        self._trouble.answering(again=again)
        self._page.caller_says(record.turn, text, final=True)
        self._answering = self._speaker.answer(text, reply, record, before)

    def _on_spoken(self, utterance: Utterance) -> None:
        """The agent has said something to its end."""
        reason = utterance.then_hang_up
        if utterance.reply is not None and utterance.reply.put_off:
            self._trouble.put_off()
        if utterance.reply is not None and self._conversation.outcome:
            handed_over = self._conversation.outcome == "hand_over"
            reason = "handed over to a person" if handed_over else "the agent said goodbye"
        if reason:
            self.hang_up(reason)

    # Trouble

    def process_changed(self, process: Process, up: bool) -> None:
        """A process that the call needs died, or is back."""
        self._trouble.changed(process, up)
        if up and process == "engine":
            self._prefill(self._conversation.turn())

    def _on_recognizer_error(self, message: str) -> None:
        logger.warning("%s: the recogniser failed: %s", self.call_id, message)
        self._trouble.tell("speech")
