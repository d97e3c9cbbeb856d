"""A call for tests: the real session, floor, conversation, LLM plugin and HTTP; a scripted voice and line.

The line plays faster than real time; what the caller says comes as the listener's events.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livekit.agents import DEFAULT_API_CONNECT_OPTIONS, APIConnectionError, APIConnectOptions, tts
from livekit.agents.types import TimedString

from tests.voice_agent.llm.scripted_endpoint import Body, Reply, scripted_endpoint
from tests.voice_agent.llm.scripted_endpoint import Endpoint as Server
from tests.voice_agent.transports.peer import until
from voice_agent.agents.front_desk import facts
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.call import Call
from voice_agent.dialogue.phrases import FIXED, Phrases
from voice_agent.llm import LLM, Endpoint, Timeouts
from voice_agent.services import Services
from voice_agent.speech.client import SpeechClient
from voice_agent.stt.plugin import STT
from voice_agent.telemetry.clock import CallClock
from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.store import RecordStore
from voice_agent.transports.audio_output import PlaybackOutput
from voice_agent.transports.events import Message, encode
from voice_agent.transports.microphone import Microphone
from voice_agent.turn_taking import Event, Preflight, SilenceFloorConfig, SpeechEnd, SpeechStart, TriggerEnd

SPEED = 4
WORD_S = 0.2
RATE_HZ = 48_000
RESTAURANT = facts.load()


class Voice(tts.TTS[Any]):
    """Speaks each word for 0.2 s."""

    def __init__(self) -> None:
        capabilities = tts.TTSCapabilities(streaming=True, aligned_transcript=True)
        super().__init__(capabilities=capabilities, sample_rate=RATE_HZ, num_channels=1)
        self.broken = False

    def synthesize(self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS) -> Any:
        raise NotImplementedError

    def stream(self, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS) -> VoiceStream:
        return VoiceStream(tts=self, conn_options=APIConnectOptions(max_retry=0))


class VoiceStream(tts.SynthesizeStream):
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        if isinstance(self._tts, Voice) and self._tts.broken:
            raise APIConnectionError("scripted", retryable=False)
        output_emitter.initialize(
            request_id="v", sample_rate=RATE_HZ, num_channels=1, mime_type="audio/pcm", frame_size_ms=20, stream=True
        )
        output_emitter.start_segment(segment_id="s")
        at, pending = 0.0, ""
        async for item in self._input_ch:
            pending += item if isinstance(item, str) else " "
            *complete, pending = pending.split(" ")
            for word in filter(None, complete):
                output_emitter.push_timed_transcript(TimedString(f"{word} ", start_time=at, end_time=at + WORD_S))
                output_emitter.push(b"\x10\x27" * round(WORD_S * RATE_HZ))
                at += WORD_S
        if pending:
            output_emitter.push_timed_transcript(TimedString(pending, start_time=at, end_time=at + WORD_S))
            output_emitter.push(b"\x10\x27" * round(WORD_S * RATE_HZ))


class Line:
    """The transport: keeps messages, pulls the agent's audio."""

    def __init__(self) -> None:
        self.output = PlaybackOutput()
        self.microphone = Microphone(lambda pcm: None)
        self.messages: list[Message] = []
        self.closed = False
        self._player = asyncio.create_task(self._play(), name="line-player")

    async def _play(self) -> None:
        while True:
            for _ in range(SPEED):
                self.output.playback.pull()
            await asyncio.sleep(0.02)

    def send(self, message: Message) -> None:
        encode(message)
        self.messages.append(message)

    async def aclose(self) -> None:
        self.closed = True
        self.output.playback.close()
        self.microphone.end()
        self._player.cancel()
        await asyncio.gather(self._player, return_exceptions=True)

    def of(self, kind: str) -> list[Message]:
        return [message for message in self.messages if message["type"] == kind]


@dataclass
class Ahead:
    """By how much a call's clock is ahead of the real one: so tests let time go by."""

    seconds: float = 0.0


class Scene:
    """One connected call, and ways to speak to it."""

    def __init__(
        self, call: Call, line: Line, server: Server, voice: Voice, conversation: Conversation, ahead: Ahead
    ) -> None:
        self.call, self.line, self.server, self.voice, self.conversation = call, line, server, voice, conversation
        self._ahead = ahead
        self.stored: dict[str, Any] = {}
        """The record, once the scene is over."""

    def tell(self, make: Callable[..., Event], **fields: Any) -> None:
        self.call.on_caller_event(make(self.call.clock.seconds(), **fields))

    def start_speaking(self) -> None:
        self.tell(SpeechStart)

    def stop_speaking(self, text: str) -> None:
        """The caller's last sound was 0.4 s ago, and the transcript is there."""
        end = self.call.clock.seconds() - 0.4
        self.tell(TriggerEnd, audio_end=end)
        self.tell(Preflight, text=text)
        self.tell(SpeechEnd, audio_end=end)

    def speak(self, text: str) -> None:
        self.start_speaking()
        self.stop_speaking(text)

    def captions(self, role: str) -> list[str]:
        return [m["text"] for m in self.line.of("caption") if m["role"] == role and m["final"]]

    def turns(self) -> dict[int, Message]:
        """The latest record of every turn that has ended."""
        records = [m["record"] for m in self.line.of("turn")]
        return {r["turn"]: r for r in records if r["events"]["reply_ended"] is not None}

    async def greeted(self) -> None:
        await until(lambda: 0 in self.turns())

    async def audible(self) -> None:
        """The agent has been heard for so long that a caller who cuts in reacts to it."""
        heard_s = 1.2 * SPEED * SilenceFloorConfig().reaction_s
        await until(lambda: (s := self.line.output.playback.current) is not None and s.position_s > heard_s)

    async def pass_time(self, seconds: float) -> None:
        """Let ``seconds`` go by for the call at once; returns when it has noticed."""
        self._ahead.seconds += seconds
        now = self.call.clock.seconds()
        timer = self.call._patience.timer
        await until(lambda: timer._last_at is not None and timer._last_at >= now)

    async def record(self) -> dict[str, Any]:
        found = await self.call._services.store.call(self.call.call_id)
        assert found is not None
        return found


@contextlib.asynccontextmanager
async def shared(
    script: Callable[[Body], Reply], *, first_token_s: float = 5.0, extensions: bool = False
) -> AsyncIterator[tuple[Services, Server]]:
    """What calls share, around a model that answers by ``script``."""
    async with scripted_endpoint(script) as server:
        timeouts = Timeouts(connect_s=1.0, first_token_s=first_token_s, between_tokens_s=first_token_s)
        model = LLM(Endpoint(server.url, "m", extensions=extensions, timeouts=timeouts))
        voice = Voice()
        bookings = BookingStore(":memory:", RESTAURANT)
        now = dt.datetime(2026, 11, 30, 12, tzinfo=RESTAURANT.zone)
        phrases = Phrases()
        await phrases.prepare(voice, [RESTAURANT.greeting, *FIXED])
        store = RecordStore(":memory:")
        client = SpeechClient(Path("/nonexistent/speech.sock"))
        try:
            yield (
                Services(
                    model=model,
                    recognizer=lambda: STT(client, own_vad=False),
                    voice=lambda: voice,
                    phrases=phrases,
                    conversation=lambda: Conversation(RESTAURANT, bookings, lambda: now),
                    store=store,
                    metrics=Metrics(),
                    info={"model": "m", "llm": "m", "engine": "scripted", "agent": "a", "version": "0"},
                ),
                server,
            )
        finally:
            await store.aclose()
            await model.aclose()
            bookings.close()


@contextlib.asynccontextmanager
async def scene(
    script: Callable[[Body], Reply], *, first_token_s: float = 5.0, extensions: bool = False
) -> AsyncIterator[Scene]:
    """A call whose model answers by ``script``."""
    async with shared(script, first_token_s=first_token_s, extensions=extensions) as (services, server):
        conversation = services.conversation()
        services.conversation = lambda: conversation
        voice = services.voice()
        assert isinstance(voice, Voice)
        ahead = Ahead()
        call = Call("call-1", services, CallClock(lambda: time.monotonic() + ahead.seconds))
        line = Line()
        made = Scene(call, line, server, voice, conversation, ahead)
        call.transport = line
        call.on_connected()
        try:
            yield made
        finally:
            call.hang_up("the test is over")
            await asyncio.wait_for(call.ended(), 10)
            made.stored = await services.store.call(call.call_id) or {}
