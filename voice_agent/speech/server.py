"""The speech process's server: requests in, transcripts and audio out. See `protocol` for the messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from websockets.asyncio.server import Server, ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

from voice_agent.speech import protocol
from voice_agent.speech.errors import SpeechError
from voice_agent.speech.protocol import PassKind
from voice_agent.speech.worker import Worker
from voice_agent.stt.whisper import SAMPLE_RATE_HZ, Recognition
from voice_agent.tts.synthesizer import PcmChunk

_PASS_KEY = {PassKind.FINAL: 0.0, PassKind.PREFLIGHT: 0.0, PassKind.PARTIAL: 1.0}
_BYTES_PER_SAMPLE = 2


class Recognizer(Protocol):
    """What the server needs of a recogniser, see `stt.whisper.WhisperRecognizer`."""

    name: str

    def transcribe(
        self, pcm: npt.NDArray[np.int16], *, word_times: bool = False, window: float | None = None
    ) -> Recognition:
        """One pass."""


class Voice(Protocol):
    """What the server needs of a voice, see `tts.synthesizer.Synthesizer`."""

    name: str
    sample_rate: int

    def synthesize(
        self, words: list[str], *, trim_lead: bool = False, length_scale: float | None = None
    ) -> Iterator[PcmChunk]:
        """One utterance, chunk by chunk."""


class SocketInUseError(SpeechError):
    """Another process serves the socket already."""


@dataclass
class _Pending:
    """A request that hasn't been answered yet."""

    task: asyncio.Task[None]
    partial_of: str | None
    running: bool = False
    superseded: bool = False


class SpeechServer:
    """Serves one recogniser and one voice, each on a thread of its own, to any number of connections.

    Who goes next: finals and preflights before partials; the synthesis whose listener runs out of audio first (a first
    chunk is wanted at once, the next one when what was sent has been played).

    Args:
        recognizer: Loaded and warm.
        voice: Loaded and warm.
        threads: For `Health`.
        warmup_s: For `Health`.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        recognizer: Recognizer,
        voice: Voice,
        *,
        threads: dict[str, int] | None = None,
        warmup_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recognizer = recognizer
        self._voice = voice
        self._threads = threads or {}
        self._warmup_s = warmup_s
        self._clock = clock
        self._stt = Worker("recognizer")
        self._tts = Worker("synthesizer")
        self._passes = 0
        self._utterances = 0

    async def serve(self, path: Path) -> Server:
        """Listen on the Unix socket `path`.

        Raises:
            SocketInUseError: A process answers on `path`.
            OSError: The socket can't be made there.
        """
        clear_stale_socket(path)
        return await unix_serve(
            self._handle, str(path), max_size=protocol.MAX_MESSAGE_BYTES, compression=None, ping_interval=None
        )

    def close(self) -> None:
        """End the threads."""
        self._stt.close()
        self._tts.close()

    async def _handle(self, connection: ServerConnection) -> None:
        """One client; when it goes, what it had asked for stops."""
        pending: dict[str, _Pending] = {}
        try:
            async for data in connection:
                try:
                    request, payload = protocol.unpack_request(data)
                except protocol.ProtocolError as error:
                    reply = protocol.Failed(id=error.request_id, code="bad_request", message=str(error))
                    await connection.send(protocol.pack(reply))
                    continue
                if isinstance(request, protocol.Cancel):
                    if (found := pending.get(request.id)) is not None:
                        found.task.cancel()
                elif isinstance(request, protocol.HealthQuery):
                    await connection.send(protocol.pack(self._health(request.id)))
                elif request.id in pending:
                    reply = protocol.Failed(id=request.id, code="bad_request", message="this id is in use")
                    await connection.send(protocol.pack(reply))
                else:
                    self._start(connection, pending, request, payload)
        except ConnectionClosed:
            pass
        finally:
            tasks = [entry.task for entry in pending.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self,
        connection: ServerConnection,
        pending: dict[str, _Pending],
        request: protocol.Transcribe | protocol.Synthesize,
        payload: bytes,
    ) -> None:
        partial_of: str | None = None
        if isinstance(request, protocol.Transcribe):
            for entry in pending.values():
                if entry.partial_of == request.stream and not entry.running:
                    entry.superseded = True
                    entry.task.cancel()
            partial_of = request.stream if request.kind is PassKind.PARTIAL else None
        task = asyncio.create_task(self._answer(connection, pending, request, payload))
        pending[request.id] = _Pending(task, partial_of)

    async def _answer(
        self,
        connection: ServerConnection,
        pending: dict[str, _Pending],
        request: protocol.Transcribe | protocol.Synthesize,
        payload: bytes,
    ) -> None:
        """Answer one request; whatever happens to it, the client gets a last message about it."""
        last: protocol.Transcript | protocol.Done | protocol.Dropped | protocol.Failed
        try:
            if isinstance(request, protocol.Transcribe):
                last = await self._transcribe(pending, request, payload)
            else:
                last = await self._synthesize(connection, request)
        except asyncio.CancelledError:
            entry = pending.get(request.id)
            superseded = entry is not None and entry.superseded
            last = protocol.Dropped(id=request.id, reason="superseded" if superseded else "cancelled")
        except ConnectionClosed:
            return
        except ValueError as error:
            last = protocol.Failed(id=request.id, code="bad_request", message=str(error))
        except Exception as error:  # one request must not take the process down; the client is told
            last = protocol.Failed(id=request.id, code="failed", message=f"{type(error).__name__}: {error}")
        finally:
            pending.pop(request.id, None)
        with contextlib.suppress(ConnectionClosed):
            await connection.send(protocol.pack(last))

    async def _transcribe(
        self, pending: dict[str, _Pending], request: protocol.Transcribe, payload: bytes
    ) -> protocol.Transcript:
        if not payload or len(payload) % _BYTES_PER_SAMPLE:
            raise ValueError(f"a payload of {len(payload)} bytes isn't s16 PCM")
        pcm = np.frombuffer(payload, dtype="<i2")
        asked = self._clock()
        queue_ms = 0.0

        def work() -> Recognition:
            nonlocal queue_ms
            queue_ms = (self._clock() - asked) * 1000
            if (entry := pending.get(request.id)) is not None:
                entry.running = True
            return self._recognizer.transcribe(pcm, word_times=request.word_times, window=request.window_s)

        found = await self._stt.run(work, key=_PASS_KEY[request.kind])
        self._passes += 1
        return protocol.Transcript(
            id=request.id,
            text=found.text,
            segments=[protocol.WordTime(text=s.text, start_ms=s.start_ms, end_ms=s.end_ms) for s in found.segments],
            words=[protocol.WordTime(text=w.text, start_ms=w.start_ms, end_ms=w.end_ms) for w in found.words],
            no_speech_prob=found.no_speech_prob,
            avg_logprob=found.avg_logprob,
            audio_ms=pcm.size * 1000 / SAMPLE_RATE_HZ,
            queue_ms=queue_ms,
            compute_ms=found.compute_ms,
        )

    async def _synthesize(self, connection: ServerConnection, request: protocol.Synthesize) -> protocol.Done:
        chunks = self._voice.synthesize(request.words, trim_lead=request.trim_lead, length_scale=request.length_scale)
        asked = self._clock()
        plays_until = asked
        audio_ms = compute_ms = first_audio_ms = 0.0
        index = 0

        def work() -> PcmChunk | None:
            nonlocal compute_ms
            started = self._clock()
            chunk = next(chunks, None)
            compute_ms += (self._clock() - started) * 1000
            return chunk

        while (chunk := await self._tts.run(work, key=plays_until)) is not None:
            now = self._clock()
            chunk_ms = len(chunk.pcm) / _BYTES_PER_SAMPLE * 1000 / self._voice.sample_rate
            if index == 0:
                first_audio_ms = (now - asked) * 1000
            plays_until = max(plays_until, now) + chunk_ms / 1000
            audio_ms += chunk_ms
            message = protocol.Audio(
                id=request.id,
                index=index,
                sample_rate=self._voice.sample_rate,
                words=[protocol.SpokenWord(index=w.index, start_ms=w.start_ms, end_ms=w.end_ms) for w in chunk.words],
            )
            await connection.send(protocol.pack(message, chunk.pcm))
            index += 1
        self._utterances += 1
        return protocol.Done(id=request.id, audio_ms=audio_ms, first_audio_ms=first_audio_ms, compute_ms=compute_ms)

    def _health(self, request_id: str) -> protocol.Health:
        return protocol.Health(
            id=request_id,
            ready=True,
            pid=os.getpid(),
            recognizer=self._recognizer.name,
            voice=self._voice.name,
            sample_rate=self._voice.sample_rate,
            threads=self._threads,
            warmup_s=self._warmup_s,
            passes=self._passes,
            utterances=self._utterances,
        )


def clear_stale_socket(path: Path) -> None:
    """Remove a socket that nobody serves.

    Raises:
        SocketInUseError: Somebody serves it, or there is something that isn't a socket.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise SocketInUseError(f"{path} exists and isn't a socket: name another path with --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise SocketInUseError(f"another speech process serves {path}: stop it, or name another path with --socket")
