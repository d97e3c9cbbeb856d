"""The recogniser as a livekit-agents STT: partials in speech, a preflight at every dip, a final at the end.

Who decides when speech starts, dips and ends: by default the stream's own webrtcvad and Silero; in a call that owns its
VAD, the call (`STT(own_vad=False)`), by `vad_event`, or more freely by `speech_started`, `speech_paused` and
`speech_ended`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from livekit import rtc
from livekit.agents import (
    DEFAULT_API_CONNECT_OPTIONS,
    NOT_GIVEN,
    APIConnectOptions,
    NotGivenOr,
    stt,
)
from livekit.agents.utils import AudioBuffer, shortuuid

from voice_agent.speech.api_errors import as_api_error
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import SpeechError
from voice_agent.speech.protocol import PassKind
from voice_agent.stt.guard import Heard, guard
from voice_agent.stt.options import STT_CONN_OPTIONS, RecognizerOptions
from voice_agent.stt.stream import RecognizerStream
from voice_agent.stt.utterance import SAMPLE_RATE_HZ
from voice_agent.vad.detector import VadOptions
from voice_agent.vad.events import VadEvent

LANGUAGE = "en"


class STT(stt.STT[Any]):
    """Short-window Whisper behind the speech process.

    One instance serves a call (or several); each `stream()` is one caller's audio. With `own_vad=False` the owner of
    the VAD calls the methods of the same names on `RecognizerStream`, or those here, which reach every open stream.

    Args:
        client: Connection to the speech process, shared by all calls.
        options: When passes are run.
        own_vad: Let each stream find speech itself. False: the call tells it.
        vad: Options of the streams' own VAD.
        conn_options: Used where the caller of `stream` and `recognize` gives none.
    """

    def __init__(
        self,
        client: SpeechClient,
        *,
        options: RecognizerOptions | None = None,
        own_vad: bool = True,
        vad: VadOptions | None = None,
        conn_options: APIConnectOptions = STT_CONN_OPTIONS,
    ) -> None:
        super().__init__(
            capabilities=stt.STTCapabilities(
                streaming=True, interim_results=True, aligned_transcript="word", manual_flush=True
            )
        )
        self._client = client
        self._options = options or RecognizerOptions()
        self._own_vad = own_vad
        self._vad = vad
        self._default_conn_options = conn_options
        self._streams: list[RecognizerStream] = []

    @property
    def model(self) -> str:
        """Name of the model."""
        return "whisper-tiny.en"

    @property
    def provider(self) -> str:
        """Where it runs."""
        return "local"

    @property
    def streams(self) -> list[RecognizerStream]:
        """The open streams."""
        self._streams = [stream for stream in self._streams if not stream.closed]
        return list(self._streams)

    def stream(
        self,
        *,
        language: NotGivenOr[str] = NOT_GIVEN,
        conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS,
    ) -> RecognizerStream:
        """Open a stream. `language` is ignored: the model is English."""
        if conn_options is DEFAULT_API_CONNECT_OPTIONS:
            conn_options = self._default_conn_options
        opened = RecognizerStream(self, self._client, self._options, conn_options, own_vad=self._own_vad, vad=self._vad)
        self._streams = [*self.streams, opened]
        return opened

    def vad_event(self, event: VadEvent) -> None:
        """See `RecognizerStream.vad_event`; for every open stream."""
        for stream in self.streams:
            stream.vad_event(event)

    def speech_started(self, at_ms: float) -> None:
        """See `RecognizerStream.speech_started`; for every open stream."""
        for stream in self.streams:
            stream.speech_started(at_ms)

    def speech_paused(self, at_ms: float) -> None:
        """See `RecognizerStream.speech_paused`; for every open stream."""
        for stream in self.streams:
            stream.speech_paused(at_ms)

    def speech_ended(self, at_ms: float) -> None:
        """See `RecognizerStream.speech_ended`; for every open stream."""
        for stream in self.streams:
            stream.speech_ended(at_ms)

    async def aclose(self) -> None:
        """Close every stream; the client stays open, it is shared."""
        for stream in self.streams:
            await stream.aclose()

    async def _recognize_impl(
        self,
        buffer: AudioBuffer,
        *,
        language: NotGivenOr[str] = NOT_GIVEN,
        conn_options: APIConnectOptions,
    ) -> stt.SpeechEvent:
        pcm = _mono_16k(buffer)
        try:
            result = await self._client.transcribe(pcm, stream=shortuuid("recognize_"), kind=PassKind.FINAL)
        except SpeechError as error:
            raise as_api_error(error) from error
        text = guard(Heard(result.text, result.no_speech_prob), self._options.guard)
        data = stt.SpeechData(
            language=LANGUAGE,  # type: ignore[arg-type]  # SpeechData converts it
            text=text,
            end_time=result.audio_ms / 1000,
            confidence=float(np.exp(result.avg_logprob)),
        )
        return stt.SpeechEvent(stt.SpeechEventType.FINAL_TRANSCRIPT, shortuuid("stt_"), [data])


def _mono_16k(buffer: AudioBuffer) -> bytes:
    """One frame or several as mono s16 PCM at 16 kHz."""
    frame = rtc.combine_audio_frames(buffer)
    pcm = np.frombuffer(bytes(frame.data), dtype=np.int16)
    if frame.num_channels > 1:
        pcm = pcm.reshape(-1, frame.num_channels).mean(axis=1).astype(np.int16)
    if frame.sample_rate == SAMPLE_RATE_HZ:
        return pcm.tobytes()
    mono = rtc.AudioFrame(pcm.tobytes(), frame.sample_rate, 1, pcm.size)
    resampler = rtc.AudioResampler(frame.sample_rate, SAMPLE_RATE_HZ, quality=rtc.AudioResamplerQuality.HIGH)
    return b"".join(bytes(part.data) for part in [*resampler.push(mono), *resampler.flush()])
