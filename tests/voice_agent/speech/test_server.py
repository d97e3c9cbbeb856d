"""The server's order of work, over its real socket, with models that do as they are told."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import unix_connect

from voice_agent.speech import protocol
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import (
    PassDroppedError,
    SpeechConnectionError,
    SpeechRequestError,
    SpeechTimeoutError,
)
from voice_agent.speech.protocol import PassKind
from voice_agent.speech.server import SocketInUseError, SpeechServer
from voice_agent.stt.whisper import Recognition
from voice_agent.tts.synthesizer import PcmChunk, WordTiming


class ScriptedRecognizer:
    """Says its audio's first sample; waits for `gate` while that is closed."""

    name = "scripted"

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def transcribe(self, pcm: np.ndarray, *, word_times: bool = False, window: float | None = None) -> Recognition:
        self.heard.append(int(pcm[0]))
        self.entered.set()
        self.gate.wait(10)
        if pcm[0] == -1:
            raise RuntimeError("the model broke")
        return Recognition(str(pcm[0]), (), (), 0.01, -0.1, pcm.size / 16, 1.0)


class ScriptedVoice:
    """Three chunks of 100 ms an utterance; the word "stall" waits for `gate` before its second chunk."""

    name = "scripted"
    sample_rate = 22_050

    def __init__(self) -> None:
        self.made: list[str] = []
        self.gate = threading.Event()
        self.stalled = threading.Event()

    def synthesize(
        self, words: list[str], *, trim_lead: bool = False, length_scale: float | None = None
    ) -> Iterator[PcmChunk]:
        for number in range(3):
            if words[0] == "stall" and number == 1:
                self.stalled.set()
                self.gate.wait(10)
            self.made.append(f"{words[0]} {number}")
            yield PcmChunk(b"\1\0" * 2205, (WordTiming(0, 0.0, 90.0),) if number == 0 else ())


class Rig:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.recognizer = ScriptedRecognizer()
        self.voice = ScriptedVoice()
        self.server = SpeechServer(self.recognizer, self.voice)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "speech.sock")
    listener = await made.server.serve(made.path)
    yield made
    made.recognizer.gate.set()
    made.voice.gate.set()
    listener.close()
    await listener.wait_closed()
    made.server.close()


def pcm(first: int) -> bytes:
    return np.full(1600, first, np.int16).tobytes()


async def busy(rig: Rig, client: SpeechClient) -> asyncio.Task[protocol.Transcript]:
    """Occupy the recogniser."""
    rig.recognizer.gate.clear()
    task = asyncio.create_task(client.transcribe(pcm(99), stream="busy"))
    await asyncio.to_thread(rig.recognizer.entered.wait, 10)
    return task


async def queued(client: SpeechClient, first: int, stream: str, kind: PassKind) -> asyncio.Task[protocol.Transcript]:
    """Queue a pass and make sure that the server has it."""
    task = asyncio.create_task(client.transcribe(pcm(first), stream=stream, kind=kind))
    await asyncio.sleep(0)
    await client.health()  # answered in order, so the pass has arrived
    return task


async def test_finals_and_preflights_go_before_partials(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        first = await busy(rig, client)
        tasks = [
            await queued(client, 1, "a", PassKind.PARTIAL),
            await queued(client, 2, "b", PassKind.PARTIAL),
            await queued(client, 3, "c", PassKind.PREFLIGHT),
            await queued(client, 4, "d", PassKind.FINAL),
        ]
        rig.recognizer.gate.set()
        await asyncio.gather(first, *tasks)
    assert rig.recognizer.heard == [99, 3, 4, 1, 2]


async def test_a_newer_pass_of_a_stream_replaces_its_queued_partial(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        first = await busy(rig, client)
        old = await queued(client, 1, "a", PassKind.PARTIAL)
        other = await queued(client, 2, "b", PassKind.PARTIAL)
        new = await queued(client, 3, "a", PassKind.PARTIAL)
        with pytest.raises(PassDroppedError, match="superseded"):
            await old
        rig.recognizer.gate.set()
        await asyncio.gather(first, other, new)
    assert rig.recognizer.heard == [99, 2, 3]


async def test_a_queued_final_is_never_replaced(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        first = await busy(rig, client)
        final = await queued(client, 1, "a", PassKind.FINAL)
        partial = await queued(client, 2, "a", PassKind.PARTIAL)
        rig.recognizer.gate.set()
        results = await asyncio.gather(first, final, partial)
    assert [result.text for result in results] == ["99", "1", "2"]


async def test_cancelling_drops_a_queued_pass(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        first = await busy(rig, client)
        task = await queued(client, 1, "a", PassKind.FINAL)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.health()
        rig.recognizer.gate.set()
        await first
        await client.transcribe(pcm(5), stream="z")
    assert rig.recognizer.heard == [99, 5]


async def test_leaving_a_synthesis_stops_it_within_a_chunk(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        chunks = client.synthesize(["stall"])
        await anext(chunks)
        await asyncio.to_thread(rig.voice.stalled.wait, 10)
        await chunks.aclose()
        await client.health()
        rig.voice.gate.set()
        assert [chunk.pcm async for chunk in client.synthesize(["next"])]
    assert rig.voice.made == ["stall 0", "stall 1", "next 0", "next 1", "next 2"]


async def test_a_client_that_goes_takes_its_work_with_it(rig: Rig) -> None:
    leaver, stayer = SpeechClient(rig.path), SpeechClient(rig.path)
    first = await busy(rig, stayer)
    gone = await queued(leaver, 1, "a", PassKind.FINAL)
    await leaver.close()
    with pytest.raises(SpeechConnectionError):
        await gone
    await stayer.health()
    rig.recognizer.gate.set()
    await first
    await stayer.transcribe(pcm(2), stream="b")
    await stayer.close()
    assert rig.recognizer.heard == [99, 2]


async def test_first_chunks_of_a_second_caller_do_not_wait_for_the_first_one_s_reply(rig: Rig) -> None:
    """Earliest deadline first: 'stall' has audio to play when 'other' asks for its first chunk."""
    async with SpeechClient(rig.path) as client:

        async def speak(word: str) -> None:
            async for _ in client.synthesize([word]):
                pass

        one = asyncio.create_task(speak("stall"))
        await asyncio.to_thread(rig.voice.stalled.wait, 10)
        two = asyncio.create_task(speak("other"))
        await asyncio.sleep(0)
        await client.health()
        rig.voice.gate.set()
        await asyncio.gather(one, two)
    assert rig.voice.made.index("other 0") < rig.voice.made.index("stall 2")


async def test_a_broken_pass_is_reported_and_others_go_on(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        with pytest.raises(SpeechRequestError, match="the model broke") as caught:
            await client.transcribe(pcm(-1), stream="a")
        assert caught.value.code == "failed"
        assert (await client.transcribe(pcm(1), stream="a")).text == "1"


async def test_bad_requests_are_named(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        with pytest.raises(SpeechRequestError, match="PCM") as caught:
            await client.transcribe(b"\1", stream="a")
        assert caught.value.code == "bad_request"
    async with unix_connect(str(rig.path)) as raw:
        await raw.send(b"nonsense that is no message")
        reply, _ = protocol.unpack_reply(await raw.recv())
        assert isinstance(reply, protocol.Failed)
        assert reply.code == "bad_request"


async def test_word_times_come_with_the_first_chunk(rig: Rig) -> None:
    async with SpeechClient(rig.path) as client:
        chunks = [chunk async for chunk in client.synthesize(["hello"])]
    assert [len(chunk.words) for chunk in chunks] == [1, 0, 0]
    assert chunks[0].sample_rate == 22_050


async def test_a_socket_in_use_is_refused_and_a_stale_one_replaced(rig: Rig, tmp_path: Path) -> None:
    second = SpeechServer(ScriptedRecognizer(), ScriptedVoice())
    try:
        with pytest.raises(SocketInUseError, match=str(rig.path)):
            await second.serve(rig.path)
        plain = tmp_path / "file"
        plain.write_text("mine")
        with pytest.raises(SocketInUseError, match="isn't a socket"):
            await second.serve(plain)
        assert plain.read_text() == "mine"
    finally:
        second.close()


async def test_the_client_finds_a_restarted_process(tmp_path: Path) -> None:
    path = tmp_path / "speech.sock"
    client = SpeechClient(path)
    with pytest.raises(SpeechConnectionError, match="voice-agent speech"):
        await client.health()
    for _ in range(2):
        server = SpeechServer(ScriptedRecognizer(), ScriptedVoice())
        listener = await server.serve(path)
        assert (await client.health()).ready
        listener.close()
        await listener.wait_closed()
        server.close()
    await client.close()


async def test_a_silent_process_is_given_up(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "speech.sock")
    listener = await rig.server.serve(rig.path)
    rig.recognizer.gate.clear()
    client = SpeechClient(rig.path, request_timeout_s=0.05)
    with pytest.raises(SpeechTimeoutError, match=r"0\.05 s"):
        await client.transcribe(pcm(1), stream="a")
    rig.recognizer.gate.set()
    await client.close()
    listener.close()
    await listener.wait_closed()
    rig.server.close()
