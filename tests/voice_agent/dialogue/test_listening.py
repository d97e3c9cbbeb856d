"""What the listener tells the floor, with the real voice activity detection and a scripted recogniser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import APIConnectionError, stt

from tests.voice_agent.transports.peer import until
from voice_agent.bench.recordings import load_recording
from voice_agent.dialogue.listening import Listener
from voice_agent.telemetry.clock import CallClock
from voice_agent.turn_taking import Event, Final, Partial, Preflight, SpeechEnd, SpeechStart, TriggerEnd, TriggerStart
from voice_agent.vad.events import VadEvent

pytestmark = pytest.mark.usefixtures("no_leaks")
KIND = stt.SpeechEventType
Sound = np.ndarray[Any, np.dtype[np.int16]]


class ScriptedStream:
    """A recogniser's stream: notes what it is given, yields what the test puts in."""

    def __init__(self) -> None:
        self.closed = False
        self.given: list[rtc.AudioFrame | VadEvent] = []
        self.events: asyncio.Queue[stt.SpeechEvent | Exception] = asyncio.Queue()

    def push_frame(self, frame: rtc.AudioFrame) -> None:
        self.given.append(frame)

    def vad_event(self, event: VadEvent) -> None:
        self.given.append(event)

    def say(self, kind: stt.SpeechEventType, text: str = "") -> None:
        data = [stt.SpeechData(language="en", text=text)] if text else []  # type: ignore[arg-type]
        self.events.put_nowait(stt.SpeechEvent(kind, "r", data))

    async def __aenter__(self) -> ScriptedStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> stt.SpeechEvent:
        event = await self.events.get()
        if isinstance(event, Exception):
            raise event
        return event


class ScriptedRecognizer:
    def __init__(self) -> None:
        self.streams: list[ScriptedStream] = []

    def stream(self) -> ScriptedStream:
        self.streams.append(ScriptedStream())
        return self.streams[-1]

    def on(self, name: str, callback: Any) -> None: ...

    def off(self, name: str, callback: Any) -> None: ...


class Ears:
    def __init__(self) -> None:
        self.recognizer = ScriptedRecognizer()
        self.events: list[Event] = []
        self.errors: list[str] = []
        self.now = 0.0
        clock = CallClock(lambda: self.now)
        self.failures: list[Exception] = []
        self.listener = Listener(
            self.recognizer,  # type: ignore[arg-type]
            clock,
            self.events.append,
            self.errors.append,
            self.failures.append,
        )

    async def frames(
        self, samples: np.ndarray[Any, np.dtype[np.int16]], end: asyncio.Event
    ) -> AsyncIterator[rtc.AudioFrame]:
        """20 ms frames that arrive 60 ms after they were spoken."""
        for start in range(0, samples.size - 319, 320):
            self.now = (start + 320) / 16_000 + 0.06
            yield rtc.AudioFrame(samples[start : start + 320].tobytes(), 16_000, 1, 320)
            await asyncio.sleep(0)
        await end.wait()


def load_speech() -> Sound:
    return (load_recording("Tomorrow, please.", "slt", 16_000) * 32767).astype(np.int16)


async def test_speech_is_told_with_the_times_of_the_audio_itself() -> None:
    spoken = load_speech()
    ears, end = Ears(), asyncio.Event()
    silence = np.zeros(16_000, np.int16)
    samples = np.concatenate((silence, spoken, silence))
    end.set()
    await ears.listener.listen(ears.frames(samples, end))
    kinds = [type(event) for event in ears.events]
    assert kinds.count(SpeechStart) == kinds.count(SpeechEnd) == 1
    assert TriggerStart in kinds
    (speech_end,) = [event for event in ears.events if isinstance(event, SpeechEnd)]
    audible = np.flatnonzero(np.abs(samples.astype(np.int32)) >= 185)
    true_end_s = (audible[-1] + 1) / 16_000 + 0.06
    assert ears.listener.caller_audio_end_ms == pytest.approx(true_end_s * 1000, abs=1)
    assert speech_end.audio_end == pytest.approx(true_end_s, abs=0.2)
    assert speech_end.at > speech_end.audio_end
    last_trigger = [event for event in ears.events if isinstance(event, TriggerEnd)][-1]
    assert last_trigger.at < speech_end.at

    # The recogniser is told in the order of the audio: an event comes after the frame that caused it.
    given = ears.recognizer.streams[0].given
    position_ms = 0.0
    for item in given:
        if isinstance(item, VadEvent):
            assert item.detected_ms <= position_ms + 1e-6
        else:
            position_ms += 20.0
    assert sum(isinstance(item, VadEvent) for item in given) == len(ears.events)


async def test_transcripts_become_the_floor_s_events() -> None:
    ears, end = Ears(), asyncio.Event()
    task = asyncio.create_task(ears.listener.listen(ears.frames(np.zeros(320, np.int16), end)))
    await until(lambda: bool(ears.recognizer.streams))
    stream = ears.recognizer.streams[0]
    stream.say(KIND.START_OF_SPEECH)
    stream.say(KIND.INTERIM_TRANSCRIPT, "a table")
    stream.say(KIND.PREFLIGHT_TRANSCRIPT, "a table for two")
    stream.say(KIND.FINAL_TRANSCRIPT, "A table for two.")
    stream.say(KIND.END_OF_SPEECH)
    stream.say(KIND.START_OF_SPEECH)
    stream.say(KIND.END_OF_SPEECH)
    await until(lambda: len(ears.events) == 4)
    assert [(type(event), event.text) for event in ears.events] == [  # type: ignore[attr-defined]
        (Partial, "a table"),
        (Preflight, "a table for two"),
        (Final, "A table for two."),
        (Final, ""),  # a noise: the guard found no words in it
    ]
    end.set()
    await task


async def test_a_recogniser_that_fails_is_told_and_opened_anew() -> None:
    ears, end = Ears(), asyncio.Event()
    task = asyncio.create_task(ears.listener.listen(ears.frames(np.zeros(320, np.int16), end)))
    await until(lambda: bool(ears.recognizer.streams))
    ears.recognizer.streams[0].events.put_nowait(APIConnectionError("the speech process went away"))
    await until(lambda: len(ears.recognizer.streams) == 2)
    assert "went away" in ears.errors[0]
    ears.recognizer.streams[1].say(KIND.FINAL_TRANSCRIPT, "hello")
    await until(lambda: len(ears.events) == 1)
    end.set()
    await task


async def test_what_was_understood_before_the_recogniser_failed_is_kept() -> None:
    ears, end = Ears(), asyncio.Event()
    task = asyncio.create_task(ears.listener.listen(ears.frames(np.zeros(320, np.int16), end)))
    await until(lambda: bool(ears.recognizer.streams))
    stream = ears.recognizer.streams[0]
    stream.say(KIND.START_OF_SPEECH)
    stream.say(KIND.INTERIM_TRANSCRIPT, "a table for two")
    stream.events.put_nowait(APIConnectionError("the speech process went away"))
    await until(lambda: len(ears.recognizer.streams) == 2)
    assert [(type(event), event.text) for event in ears.events] == [  # type: ignore[attr-defined]
        (Partial, "a table for two"),
        (Final, "a table for two"),
    ]
    end.set()
    await task


async def test_any_other_error_ends_the_listening_and_is_told() -> None:
    ears, end = Ears(), asyncio.Event()
    task = asyncio.create_task(ears.listener.listen(ears.frames(np.zeros(320, np.int16), end)))
    await until(lambda: bool(ears.recognizer.streams))
    ears.recognizer.streams[0].events.put_nowait(ValueError("a transcript that can't be read"))
    await asyncio.wait_for(task, 5)  # although the audio goes on
    assert [str(error) for error in ears.failures] == ["a transcript that can't be read"]
    assert len(ears.recognizer.streams) == 1
    assert ears.recognizer.streams[0].closed


async def test_an_error_over_a_frame_ends_the_listening_and_is_told() -> None:
    ears, end = Ears(), asyncio.Event()

    def fail(event: VadEvent) -> None:
        raise ValueError("scripted")

    task = asyncio.create_task(ears.listener.listen(ears.frames(load_speech(), end)))
    await until(lambda: bool(ears.recognizer.streams))
    ears.recognizer.streams[0].vad_event = fail  # type: ignore[method-assign]
    await asyncio.wait_for(task, 20)
    assert [str(error) for error in ears.failures] == ["scripted"]
    assert ears.recognizer.streams[0].closed


async def test_a_listener_that_is_cancelled_has_not_failed() -> None:
    ears, end = Ears(), asyncio.Event()
    task = asyncio.create_task(ears.listener.listen(ears.frames(np.zeros(320, np.int16), end)))
    await until(lambda: bool(ears.recognizer.streams))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ears.failures == []
