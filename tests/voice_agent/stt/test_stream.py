"""When passes are run and what is made of them: a recogniser that says what it is told, audio by hand."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest
from livekit import rtc
from livekit.agents import APIConnectionError, APIConnectOptions
from livekit.agents.stt import SpeechEvent, SpeechEventType

from voice_agent.speech import protocol
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import SpeechConnectionError, SpeechRequestError
from voice_agent.speech.protocol import PassKind
from voice_agent.stt.options import STT_CONN_OPTIONS, RecognizerOptions
from voice_agent.stt.plugin import STT
from voice_agent.stt.stream import RecognizerStream
from voice_agent.vad.events import VadEvent, VadEventType

START, INTERIM, PREFLIGHT, FINAL, END = (
    SpeechEventType.START_OF_SPEECH,
    SpeechEventType.INTERIM_TRANSCRIPT,
    SpeechEventType.PREFLIGHT_TRANSCRIPT,
    SpeechEventType.FINAL_TRANSCRIPT,
    SpeechEventType.END_OF_SPEECH,
)


@dataclass
class Pass:
    kind: PassKind
    samples: np.ndarray


class ScriptedClient:
    """Answers pass n with `say(n)`, a text or an error."""

    def __init__(self, say: Callable[[int], str | Exception]) -> None:
        self.say = say
        self.passes: list[Pass] = []

    async def transcribe(
        self, pcm: bytes, *, stream: str, kind: PassKind = PassKind.FINAL, word_times: bool = False
    ) -> protocol.Transcript:
        self.passes.append(Pass(kind, np.frombuffer(pcm, np.int16)))
        said = self.say(len(self.passes))
        await asyncio.sleep(0)
        if isinstance(said, Exception):
            raise said
        return protocol.Transcript(
            id="x",
            text=said,
            segments=[],
            words=[],
            no_speech_prob=0.02,
            avg_logprob=-0.2,
            audio_ms=len(pcm) / 32,
            queue_ms=0.0,
            compute_ms=1.0,
        )

    def kinds(self) -> list[PassKind]:
        return [made.kind for made in self.passes]


class Caller:
    """Feeds a stream with a ramp, so that every sample tells its place, and collects the events."""

    def __init__(self, stream: RecognizerStream) -> None:
        self.stream = stream
        self.ms = 0
        self.events: list[SpeechEvent] = []
        self._task = asyncio.create_task(self._collect())

    async def _collect(self) -> None:
        async for event in self.stream:
            self.events.append(event)

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def hears(self, duration_ms: int) -> None:
        for start in range(self.ms, self.ms + duration_ms, 20):
            samples = (np.arange(start * 16, (start + 20) * 16) % 30_000 + 1).astype(np.int16)
            self.stream.push_frame(rtc.AudioFrame(samples.tobytes(), 16_000, 1, samples.size))
            await self.settle()
        self.ms += duration_ms

    async def end(self) -> None:
        self.stream.end_input()
        await self._task
        await self.stream.aclose()

    def kinds(self) -> list[SpeechEventType]:
        return [event.type for event in self.events if event.type is not SpeechEventType.RECOGNITION_USAGE]

    def texts(self, kind: SpeechEventType) -> list[str]:
        return [event.alternatives[0].text for event in self.events if event.type is kind]


def call(client: ScriptedClient, options: RecognizerOptions | None = None) -> Caller:
    plugin = STT(
        cast(SpeechClient, client),
        options=options,
        own_vad=False,
        conn_options=APIConnectOptions(max_retry=3, retry_interval=0.0, timeout=5.0),
    )
    return Caller(plugin.stream())


async def test_a_final_reuses_the_preflight_when_no_speech_came_after_it() -> None:
    client = ScriptedClient(lambda n: "Hello.")
    caller = call(client)
    await caller.hears(200)
    caller.stream.speech_started(200)
    await caller.hears(400)
    caller.stream.speech_paused(600)
    await caller.hears(200)
    caller.stream.speech_ended(640)
    await caller.end()
    assert client.kinds() == [PassKind.PREFLIGHT]
    assert caller.kinds() == [START, PREFLIGHT, FINAL, END]
    assert caller.texts(FINAL) == ["Hello."]
    final = next(event for event in caller.events if event.type is FINAL)
    assert final.alternatives[0].metadata is not None
    assert final.alternatives[0].metadata["reused_preflight"] is True
    assert final.alternatives[0].end_time == pytest.approx(0.64)


async def test_speech_after_a_dip_makes_the_next_preflight_the_final() -> None:
    client = ScriptedClient(lambda n: {1: "A table", 2: "A table for two."}.get(n, "?"))
    caller = call(client, RecognizerOptions(first_partial_ms=60_000))
    caller.stream.speech_started(0)
    await caller.hears(400)
    caller.stream.speech_paused(400)
    await caller.hears(100)
    caller.stream.speech_started(500)
    await caller.hears(400)
    caller.stream.speech_paused(900)
    await caller.hears(100)
    caller.stream.speech_ended(900)
    await caller.end()
    assert client.kinds() == [PassKind.PREFLIGHT, PassKind.PREFLIGHT]
    assert caller.texts(PREFLIGHT) == ["A table", "A table for two."]
    assert caller.texts(FINAL) == ["A table for two."]


async def test_a_preflight_that_missed_speech_is_not_reused() -> None:
    client = ScriptedClient(lambda n: {1: "A table", 2: "A table for two."}.get(n, "?"))
    caller = call(client)
    caller.stream.speech_started(0)
    await caller.hears(400)
    caller.stream.speech_paused(400)
    await caller.hears(400)
    caller.stream.speech_ended(700)  # the gate heard 300 ms that the trigger didn't
    await caller.end()
    assert client.kinds() == [PassKind.PREFLIGHT, PassKind.FINAL]
    assert caller.texts(FINAL) == ["A table for two."]


async def test_speech_going_on_without_a_new_dip_needs_a_pass_of_its_own() -> None:
    client = ScriptedClient(lambda n: f"text {n}")
    caller = call(client)
    caller.stream.speech_started(0)
    await caller.hears(200)
    caller.stream.speech_paused(200)
    await caller.hears(40)
    caller.stream.speech_started(220)
    caller.stream.speech_ended(240)
    await caller.end()
    assert client.kinds() == [PassKind.PREFLIGHT, PassKind.FINAL]
    assert caller.texts(FINAL) == ["text 2"]


async def test_partials_come_at_their_cadence_and_stop_in_a_pause() -> None:
    client = ScriptedClient(lambda n: f"word {n}")
    caller = call(client, RecognizerOptions(first_partial_ms=500, partial_interval_ms=600))
    caller.stream.speech_started(0)
    await caller.hears(2000)
    lengths = [made.samples.size / 16 for made in client.passes]
    assert lengths == [500, 1100, 1700]
    assert caller.texts(INTERIM) == ["word 1", "word 2", "word 3"]
    caller.stream.speech_paused(2000)
    await caller.hears(2000)
    assert client.kinds()[3:] == [PassKind.PREFLIGHT]
    await caller.end()


async def test_an_unchanged_partial_is_not_repeated() -> None:
    client = ScriptedClient(lambda n: "Hello")
    caller = call(client)
    caller.stream.speech_started(0)
    await caller.hears(2000)
    assert len(client.passes) == 3
    assert caller.texts(INTERIM) == ["Hello"]
    await caller.end()


async def test_the_audio_begins_before_the_onset() -> None:
    client = ScriptedClient(lambda n: "Hello.")
    caller = call(client)
    await caller.hears(1000)
    caller.stream.speech_started(980)
    await caller.hears(200)
    caller.stream.speech_paused(1200)
    await caller.end()
    assert client.passes[0].samples[0] == 680 * 16 % 30_000 + 1  # 980 - 300 ms
    assert client.passes[0].samples.size == (1200 - 680) * 16


async def test_no_words_no_final_but_the_end_is_told() -> None:
    client = ScriptedClient(lambda n: "...")
    caller = call(client)
    caller.stream.speech_started(0)
    await caller.hears(300)
    caller.stream.speech_paused(300)
    await caller.hears(100)
    caller.stream.speech_ended(300)
    await caller.end()
    assert caller.kinds() == [START, END]


async def test_a_long_utterance_is_recognised_in_parts_and_no_sample_is_lost() -> None:
    client = ScriptedClient(lambda n: f"part{n}")
    options = RecognizerOptions(
        max_utterance_ms=2000, cut_search_ms=500, partial_interval_ms=60_000, first_partial_ms=60_000
    )
    caller = call(client, options)
    caller.stream.speech_started(0)
    await caller.hears(5000)
    caller.stream.speech_ended(5000)
    await caller.end()
    heard = np.concatenate([made.samples for made in client.passes])
    assert np.array_equal(heard, (np.arange(5000 * 16) % 30_000 + 1).astype(np.int16))
    assert all(made.samples.size <= 2020 * 16 for made in client.passes)
    assert caller.texts(FINAL) == [" ".join(f"part{n + 1}" for n in range(len(client.passes)))]


async def test_a_lost_connection_is_retried_and_the_final_still_comes() -> None:
    def say(number: int) -> str | Exception:
        return SpeechConnectionError("gone") if number in (1, 2) else "Hello."

    client = ScriptedClient(say)
    caller = call(client)
    errors: list[bool] = []
    caller.stream._stt.on("error", lambda error: errors.append(error.recoverable))
    caller.stream.speech_started(0)
    await caller.hears(300)
    caller.stream.speech_paused(300)
    await caller.hears(100)
    caller.stream.speech_ended(300)
    await caller.end()
    assert caller.texts(FINAL) == ["Hello."]
    assert errors
    assert all(errors)


async def test_what_is_said_while_the_process_is_away_for_seconds_is_recognised_when_it_is_back() -> None:
    attempts = 30  # at the stream's own half second: 15 s

    def say(number: int) -> str | Exception:
        return SpeechConnectionError("gone") if number <= attempts else f"part {number - attempts}"

    client = ScriptedClient(say)
    at_once = APIConnectOptions(max_retry=STT_CONN_OPTIONS.max_retry, retry_interval=0.0)
    caller = Caller(STT(cast(SpeechClient, client), own_vad=False, conn_options=at_once).stream())
    for start in (0, 1000):
        caller.stream.speech_started(start)
        await caller.hears(400)
        caller.stream.speech_ended(start + 400)
        await caller.hears(600)
    await caller.end()
    assert caller.texts(FINAL) == ["part 1", "part 2"]
    first, second = client.passes[-2:]
    assert first.samples[-1] == 400 * 16
    assert second.samples[-1] == 1400 * 16


async def test_a_process_that_stays_away_ends_the_stream_with_a_connection_error() -> None:
    client = ScriptedClient(lambda n: SpeechConnectionError("gone"))
    plugin = STT(
        cast(SpeechClient, client),
        own_vad=False,
        conn_options=APIConnectOptions(max_retry=1, retry_interval=0.0, timeout=5.0),
    )
    stream = plugin.stream()
    stream.speech_started(0)
    samples = np.ones(1600, np.int16)
    stream.push_frame(rtc.AudioFrame(samples.tobytes(), 16_000, 1, samples.size))
    stream.speech_ended(100)
    with pytest.raises(APIConnectionError):
        async for _ in stream:
            pass
    await stream.aclose()
    assert plugin.streams == []


async def test_the_detector_s_events_open_mark_and_close() -> None:
    client = ScriptedClient(lambda n: "Hello.")
    caller = call(client)
    await caller.hears(100)
    for kind, at in [
        (VadEventType.TRIGGER_START, 80.0),  # alone it opens nothing: a click
        (VadEventType.TRIGGER_END, 100.0),
    ]:
        caller.stream.vad_event(VadEvent(kind, at, at + 30, 1.0))
    await caller.hears(100)
    assert caller.kinds() == []
    caller.stream.vad_event(VadEvent(VadEventType.SPEECH_START, 120.0, 200.0, 0.9))
    await caller.hears(300)
    caller.stream.vad_event(VadEvent(VadEventType.TRIGGER_END, 480.0, 500.0, 0.0))
    await caller.hears(300)
    caller.stream.vad_event(VadEvent(VadEventType.SPEECH_END, 500.0, 760.0, 0.1))
    await caller.end()
    assert caller.kinds() == [START, PREFLIGHT, FINAL, END]


async def test_a_stream_opened_during_the_call_counts_from_there() -> None:
    """The detector has run for a minute already."""
    client = ScriptedClient(lambda n: "Hello.")
    caller = call(client)
    await caller.hears(1000)
    caller.stream.vad_event(VadEvent(VadEventType.SPEECH_START, 60_900.0, 61_000.0, 0.9))
    await caller.hears(300)
    caller.stream.vad_event(VadEvent(VadEventType.TRIGGER_END, 61_270.0, 61_300.0, 0.0))
    await caller.hears(300)
    caller.stream.vad_event(VadEvent(VadEventType.SPEECH_END, 61_300.0, 61_600.0, 0.1))
    await caller.end()
    assert client.kinds() == [PassKind.PREFLIGHT]  # reused
    assert client.passes[0].samples[0] == 600 * 16 + 1  # 900 - 300 ms of this stream
    assert caller.texts(FINAL) == ["Hello."]


async def test_end_of_input_finishes_the_utterance() -> None:
    client = ScriptedClient(lambda n: "Hello.")
    caller = call(client)
    caller.stream.speech_started(0)
    await caller.hears(300)
    await caller.end()
    assert caller.texts(FINAL) == ["Hello."]


async def test_recognize_of_a_whole_buffer_resamples_and_maps_errors() -> None:
    client = ScriptedClient(lambda n: "Hello.")
    plugin = STT(cast(SpeechClient, client))
    frame = rtc.AudioFrame(bytes(48_000 * 2), 48_000, 1, 48_000)
    event = await plugin.recognize(frame)
    assert event.alternatives[0].text == "Hello."
    assert abs(client.passes[0].samples.size - 16_000) < 400
    client.say = lambda n: SpeechRequestError("bad_request", "too long")
    with pytest.raises(Exception, match="too long"):
        await plugin.recognize(frame, conn_options=APIConnectOptions(max_retry=0))


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="29000"):
        RecognizerOptions(max_utterance_ms=40_000)
