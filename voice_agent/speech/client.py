"""The calls process's side of the speech process: one connection, many requests at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from voice_agent.speech import protocol
from voice_agent.speech.errors import (
    PassDroppedError,
    SpeechConnectionError,
    SpeechRequestError,
    SpeechTimeoutError,
)
from voice_agent.speech.protocol import PassKind

Reply = protocol.Transcript | protocol.Audio | protocol.Done | protocol.Dropped | protocol.Failed | protocol.Health


@dataclass(frozen=True)
class SynthesizedChunk:
    """A chunk of an utterance: mono s16 PCM, and with the first one the times of all its words."""

    pcm: bytes
    sample_rate: int
    words: list[protocol.SpokenWord]


class SpeechClient:
    """Requests to the speech process; shared by all calls of a process, for use on one event loop.

    It connects with the first request. When the connection goes, every request under way fails with
    `SpeechConnectionError`, and the next request connects again: a restarted process is found without further ado.
    Cancelling a request (or leaving a `synthesize` loop early) cancels it in the speech process too.

    Args:
        path: The Unix socket.
        connect_timeout_s: Limit of one attempt to connect.
        request_timeout_s: Limit of the wait for the next message about a request.
    """

    def __init__(self, path: Path | str, *, connect_timeout_s: float = 1.0, request_timeout_s: float = 5.0) -> None:
        self.path = Path(path)
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._connection: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._waiting: dict[str, asyncio.Queue[tuple[Reply, bytes] | SpeechConnectionError]] = {}
        self._ids = (f"{uuid.uuid4().hex[:8]}-{number}" for number in itertools.count())

    async def __aenter__(self) -> SpeechClient:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect, if there is no connection. Raises `SpeechConnectionError`."""
        await self._connected()

    async def close(self) -> None:
        """Close the connection; requests under way fail."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    async def health(self) -> protocol.Health:
        """The process's state. Raises `SpeechConnectionError`."""
        async with self._request(protocol.HealthQuery(id=next(self._ids))) as replies:
            reply, _ = await self._next(replies)
        if not isinstance(reply, protocol.Health):
            raise SpeechRequestError("protocol", f"{type(reply).__name__} in answer to a health query")
        return reply

    async def transcribe(
        self,
        pcm: bytes,
        *,
        stream: str,
        kind: PassKind = PassKind.FINAL,
        word_times: bool = False,
        window_s: float | None = None,
    ) -> protocol.Transcript:
        """One recogniser pass.

        Args:
            pcm: Mono s16 PCM at 16 kHz, at most 30 s.
            stream: Who asks: a newer pass of the same stream drops a partial that is still queued.
            kind: Priority.
            word_times: Also align the words.
            window_s: See `protocol.Transcribe`.

        Raises:
            PassDroppedError: A newer pass took its place.
            SpeechConnectionError: The process went away, or can't be reached.
            SpeechRequestError: The process refused or failed the pass.
        """
        request = protocol.Transcribe(
            id=next(self._ids), stream=stream, kind=kind, word_times=word_times, window_s=window_s
        )
        async with self._request(request, pcm) as replies:
            reply, _ = await self._next(replies)
        if isinstance(reply, protocol.Transcript):
            return reply
        raise _unexpected(reply)

    async def synthesize(
        self, words: list[str], *, trim_lead: bool = False, length_scale: float | None = None
    ) -> AsyncGenerator[SynthesizedChunk]:
        """Speak words as one utterance; yields chunks as they arrive. See `protocol.Synthesize`.

        Raises:
            SpeechConnectionError: The process went away, or can't be reached.
            SpeechRequestError: The process refused or failed the synthesis.
        """
        request = protocol.Synthesize(id=next(self._ids), words=words, trim_lead=trim_lead, length_scale=length_scale)
        async with self._request(request) as replies:
            while True:
                reply, payload = await self._next(replies)
                if isinstance(reply, protocol.Done):
                    return
                if not isinstance(reply, protocol.Audio):
                    raise _unexpected(reply)
                yield SynthesizedChunk(payload, reply.sample_rate, reply.words)

    @contextlib.asynccontextmanager
    async def _request(
        self,
        request: protocol.Transcribe | protocol.Synthesize | protocol.HealthQuery,
        payload: bytes = b"",
    ) -> AsyncIterator[asyncio.Queue[tuple[Reply, bytes] | SpeechConnectionError]]:
        """Send a request and collect its replies; leaving before the last one cancels it."""
        connection = await self._connected()
        replies: asyncio.Queue[tuple[Reply, bytes] | SpeechConnectionError] = asyncio.Queue()
        self._waiting[request.id] = replies
        try:
            try:
                await connection.send(protocol.pack(request, payload))
            except ConnectionClosed as error:
                raise self._lost() from error
            yield replies
        finally:
            if self._waiting.pop(request.id, None) is not None and self._connection is connection:
                # Still waited for: the last message hasn't come. The process answers `dropped`, which nobody awaits.
                with contextlib.suppress(ConnectionClosed):
                    await connection.send(protocol.pack(protocol.Cancel(id=request.id)))

    async def _next(self, replies: asyncio.Queue[tuple[Reply, bytes] | SpeechConnectionError]) -> tuple[Reply, bytes]:
        try:
            item = await asyncio.wait_for(replies.get(), self._request_timeout_s)
        except TimeoutError as error:
            raise SpeechTimeoutError(
                f"the speech process at {self.path} hasn't answered for {self._request_timeout_s:g} s"
            ) from error
        if isinstance(item, SpeechConnectionError):
            raise item
        return item

    async def _connected(self) -> ClientConnection:
        async with self._connecting:
            if self._connection is not None:
                return self._connection
            try:
                connection = await asyncio.wait_for(
                    unix_connect(
                        str(self.path), max_size=protocol.MAX_MESSAGE_BYTES, compression=None, ping_interval=None
                    ),
                    self._connect_timeout_s,
                )
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                reason = str(error) or type(error).__name__
                raise SpeechConnectionError(
                    f"the speech process can't be reached at {self.path} ({reason}): start it with "
                    f"`voice-agent speech --socket {self.path}`, or wait until it has restarted"
                ) from error
            self._connection = connection
            self._reader = asyncio.create_task(self._read(connection))
            return connection

    async def _read(self, connection: ClientConnection) -> None:
        """Hand every reply to the request it belongs to; fail them all when the connection ends."""
        try:
            async for data in connection:
                reply, payload = protocol.unpack_reply(data)
                final = not isinstance(reply, protocol.Audio)
                queue = self._waiting.pop(reply.id, None) if final else self._waiting.get(reply.id)
                if queue is not None:
                    queue.put_nowait((reply, payload))
        except (ConnectionClosed, protocol.ProtocolError):
            pass
        finally:
            if self._connection is connection:
                self._connection = None
            waiting, self._waiting = self._waiting, {}
            for queue in waiting.values():
                queue.put_nowait(self._lost())
            await connection.close()

    def _lost(self) -> SpeechConnectionError:
        return SpeechConnectionError(f"the speech process at {self.path} went away during the request")


def _unexpected(reply: Reply) -> Exception:
    if isinstance(reply, protocol.Dropped):
        return PassDroppedError(f"the request was dropped: {reply.reason}")
    if isinstance(reply, protocol.Failed):
        return SpeechRequestError(reply.code, reply.message)
    return SpeechRequestError("protocol", f"an unexpected {type(reply).__name__}")
