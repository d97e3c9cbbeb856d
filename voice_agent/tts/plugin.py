"""The voice as a livekit-agents TTS: early audio, words with their times, captions as written."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from livekit.agents import (
    DEFAULT_API_CONNECT_OPTIONS,
    APIConnectOptions,
    tts,
)
from livekit.agents.types import TimedString
from livekit.agents.utils import aio, shortuuid

from voice_agent.speech.api_errors import as_api_error
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import SpeechError
from voice_agent.speech.protocol import SpokenWord
from voice_agent.tts.clauses import ClauseOptions, ClauseSplitter
from voice_agent.tts.normalise import SpokenUnit, normalise

TTS_CONN_OPTIONS = APIConnectOptions(max_retry=6, retry_interval=0.5, timeout=2.0)
"""As for the recogniser: a speech process that died is back within about 3 s."""

SAMPLE_RATE_HZ = 22_050
_BYTES_PER_SECOND = SAMPLE_RATE_HZ * 2
_SILENCE = bytes(_BYTES_PER_SECOND // 50 // 2 * 2)


@dataclass(frozen=True)
class TTSOptions:
    """Options of the voice.

    Attributes:
        urgent_below_s: With less audio than this ahead of the listener a clause is synthesized as soon as it is there;
            with more, whole sentences are awaited.
        length_scale: Slower above 1, faster below; None for the voice's own.
        clauses: Lengths of the pieces.
    """

    urgent_below_s: float = 1.0
    length_scale: float | None = None
    clauses: ClauseOptions = field(default_factory=ClauseOptions)


class TTS(tts.TTS[Any]):
    """A piper voice behind the speech process: mono, 22.05 kHz, streaming, with word times.

    Text is normalised for speech here ("$4" is spoken "four dollars") and the times are given to the words as
    written, so hand it the text unfiltered (`tts_text_transforms=None`): markdown and emoji aren't spoken, and
    captions keep them.

    Args:
        client: Connection to the speech process, shared by all calls.
        options: See `TTSOptions`.
        conn_options: Used where the caller of `stream` and `synthesize` gives none.
        clock: Seconds, monotonic; tells how much audio is ahead of the listener.
    """

    def __init__(
        self,
        client: SpeechClient,
        *,
        options: TTSOptions | None = None,
        conn_options: APIConnectOptions = TTS_CONN_OPTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            capabilities=tts.TTSCapabilities(streaming=True, aligned_transcript=True),
            sample_rate=SAMPLE_RATE_HZ,
            num_channels=1,
        )
        self._client = client
        self._options = options or TTSOptions()
        self._default_conn_options = conn_options
        self._clock = clock

    @property
    def model(self) -> str:
        """Name of the voice."""
        return "piper-en_US-joe-medium"

    @property
    def provider(self) -> str:
        """Where it runs."""
        return "local"

    def stream(self, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS) -> SynthesizeStream:
        """Open a stream for one reply, whose text may come in pieces."""
        return SynthesizeStream(self, self._client, self._options, self._conn(conn_options), self._clock)

    def synthesize(
        self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.ChunkedStream:
        """Synthesize a whole text."""
        return self._synthesize_with_stream(text, conn_options=self._conn(conn_options))

    def _conn(self, given: APIConnectOptions) -> APIConnectOptions:
        return self._default_conn_options if given is DEFAULT_API_CONNECT_OPTIONS else given


class SynthesizeStream(tts.SynthesizeStream):
    """One reply. Made by `TTS.stream`."""

    def __init__(
        self,
        owner: TTS,
        client: SpeechClient,
        options: TTSOptions,
        conn_options: APIConnectOptions,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(tts=owner, conn_options=conn_options)
        self._client = client
        self._options = options
        self._clock = clock

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id=shortuuid("tts_"),
            sample_rate=SAMPLE_RATE_HZ,
            num_channels=1,
            mime_type="audio/pcm",
            frame_size_ms=20,
            stream=True,
        )
        output_emitter.start_segment(segment_id=shortuuid("segment_"))
        splitter = ClauseSplitter(self._options.clauses)
        arrived = asyncio.Event()
        reader = asyncio.create_task(self._read(splitter, arrived))
        reply = _Reply(output_emitter, self._clock)
        try:
            while not splitter.finished:
                ahead_s = reply.ahead_s()
                piece = splitter.take(urgent=ahead_s < self._options.urgent_below_s)
                if piece is None:
                    await self._wait(arrived, ahead_s - self._options.urgent_below_s)
                elif piece:
                    await self._speak(piece, reply)
            reply.finish()
        except SpeechError as error:
            raise as_api_error(error) from error
        finally:
            await aio.cancel_and_wait(reader)

    async def _read(self, splitter: ClauseSplitter, arrived: asyncio.Event) -> None:
        async for item in self._input_ch:
            if isinstance(item, str):
                self._mark_started()
                splitter.push(item)
            else:
                splitter.end()  # one segment a stream: a flush is its end
            arrived.set()
        splitter.end()
        arrived.set()

    async def _wait(self, arrived: asyncio.Event, spare_s: float) -> None:
        """Wait for text; while there is audio to spare, no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(spare_s if spare_s > 0 else None):
                await arrived.wait()
        arrived.clear()

    async def _speak(self, piece: str, reply: _Reply) -> None:
        """Synthesize one piece and pass it on as it comes."""
        units = normalise(piece)
        words = [word for unit in units for word in unit.spoken]
        if not words:
            reply.unspoken(piece)
            return
        chunks = self._client.synthesize(words, trim_lead=not reply.audible, length_scale=self._options.length_scale)
        async with contextlib.aclosing(chunks) as stream:
            async for chunk in stream:
                if chunk.words:
                    reply.times(units, chunk.words)
                reply.audio(chunk.pcm)


class _Reply:
    """What has been passed on of a reply, and when the listener will have heard it."""

    def __init__(self, emitter: tts.AudioEmitter, clock: Callable[[], float]) -> None:
        self._emitter = emitter
        self._clock = clock
        self._seconds = 0.0
        self._plays_until = 0.0
        self._waiting = ""
        self.audible = False

    def ahead_s(self) -> float:
        """Audio that the listener hasn't heard yet, if it is played as it comes."""
        return max(0.0, self._plays_until - self._clock())

    def audio(self, pcm: bytes) -> None:
        """Pass audio on."""
        self._emitter.push(pcm)
        seconds = len(pcm) / _BYTES_PER_SECOND
        self._seconds += seconds
        self._plays_until = max(self._plays_until, self._clock()) + seconds
        self.audible = True

    def unspoken(self, text: str) -> None:
        """Keep text that has no sound; it goes with the next words."""
        self._waiting += text

    def times(self, units: list[SpokenUnit], words: list[SpokenWord]) -> None:
        """Pass on when each unit of the piece that begins now is heard; one without a sound goes with its neighbour."""
        timed: list[TimedString] = []
        index = 0
        for unit in units:
            if not unit.spoken:
                if timed:
                    timed[-1] = _longer(timed[-1], unit.written)
                else:
                    self._waiting += unit.written
                continue
            first, last = words[index], words[index + len(unit.spoken) - 1]
            index += len(unit.spoken)
            start, end = self._seconds + first.start_ms / 1000, self._seconds + last.end_ms / 1000
            timed.append(TimedString(self._waiting + unit.written, start_time=start, end_time=end))
            self._waiting = ""
        self._emitter.push_timed_transcript(timed)

    def finish(self) -> None:
        """Pass on what is left: text without a sound, and, for a reply that has none at all, a moment of silence."""
        if self._waiting:
            at = self._seconds
            self._emitter.push_timed_transcript(TimedString(self._waiting, start_time=at, end_time=at))
            self._waiting = ""
        if not self.audible:
            self.audio(_SILENCE)


def _longer(text: TimedString, more: str) -> TimedString:
    return TimedString(str(text) + more, start_time=text.start_time, end_time=text.end_time)
