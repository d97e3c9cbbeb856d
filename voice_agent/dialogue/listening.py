"""The call's ears: caller frames in; events for the floor, transcripts and the end of the caller's speech out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable
from typing import Any

from livekit import rtc
from livekit.agents import APIError, stt

from voice_agent.stt.plugin import STT
from voice_agent.stt.stream import RecognizerStream
from voice_agent.telemetry.audible import LastAudible
from voice_agent.telemetry.clock import CallClock, StreamClock
from voice_agent.turn_taking import (
    Event,
    Final,
    Partial,
    Preflight,
    SpeechEnd,
    SpeechStart,
    TriggerEnd,
    TriggerStart,
)
from voice_agent.vad.detector import VoiceActivityDetector
from voice_agent.vad.events import VadEvent, VadEventType

logger = logging.getLogger(__name__)

_REOPEN_AFTER_S = 0.5
_TAIL_MS = 100.0


class Listener:
    """Feeds one caller's audio to the voice activity detector and the recogniser, in this order, frame by frame.

    Args:
        recognizer: Told by us where speech starts and ends (``own_vad=False``).
        clock: The call's clock.
        on_event: Gets the floor's events as they happen.
        on_error: Called with a message while the recogniser can't be reached.
        on_failure: Called with any other error, which ends the listening: a call that hears nothing must not go on.
    """

    def __init__(
        self,
        recognizer: STT,
        clock: CallClock,
        on_event: Callable[[Event], None],
        on_error: Callable[[str], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._recognizer = recognizer
        self._clock = clock
        self._on_event = on_event
        self._on_error = on_error
        self._on_failure = on_failure
        self._stream_clock = StreamClock()
        self._audible = LastAudible(16_000)
        self._stream: RecognizerStream | None = None
        self._awaiting_final = False
        self._latest = ""  # words of a stretch whose final is awaited

    @property
    def caller_audio_end_ms(self) -> float | None:
        """The caller's last audible sample, on the call's clock (ms)."""
        end_ms = self._audible.end_ms
        return None if end_ms is None else self._stream_clock.to_call_ms(end_ms)

    async def listen(self, audio: AsyncIterable[rtc.AudioFrame]) -> None:
        """Run until ``audio`` ends, or ``on_failure`` was told why not. The recogniser may come and go meanwhile."""
        detector = VoiceActivityDetector()
        self._stream = self._recognizer.stream()  # before the first frame: it counts time from there, as the detector
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._recognize(self._stream), name="listener-recognize")
                async for frame in audio:
                    self._hear(frame, detector)
                reader.cancel()
        except ExceptionGroup as failed:
            for error in failed.exceptions:
                self._on_failure(error)
        finally:
            # A cancelled task keeps its frames until the garbage collector comes, and the network has megabytes.
            del detector

    def _hear(self, frame: rtc.AudioFrame, detector: VoiceActivityDetector) -> None:
        pcm = bytes(frame.data)
        self._audible.push(pcm)
        self._stream_clock.arrived(self._audible.position_ms, self._clock.ms())
        if self._stream is not None and not self._stream.closed:
            self._stream.push_frame(frame)
        for event in detector.push(pcm):
            if self._stream is not None:
                self._stream.vad_event(event)
            self._on_event(self._floor_event(event))

    def _floor_event(self, event: VadEvent) -> Event:
        now = self._clock.seconds()
        at_s = self._stream_clock.to_call_ms(self._end_of_sound_ms(event.at_ms)) / 1000
        match event.type:
            case VadEventType.TRIGGER_START:
                return TriggerStart(now)
            case VadEventType.TRIGGER_END:
                return TriggerEnd(now, audio_end=at_s)
            case VadEventType.SPEECH_START:
                return SpeechStart(now)
            case VadEventType.SPEECH_END:
                return SpeechEnd(now, audio_end=at_s)

    def _end_of_sound_ms(self, vad_end_ms: float) -> float:
        """The detector hears a tail of up to 100 ms that nobody else does: silence is counted from the last audible
        sample, but a quiet voice must not lose its last word by that.
        """
        audible_ms = self._audible.end_ms
        return vad_end_ms if audible_ms is None else max(vad_end_ms - _TAIL_MS, min(vad_end_ms, audible_ms))

    async def _recognize(self, stream: RecognizerStream) -> None:
        """Read transcripts; open the stream anew when it failed for good."""
        self._recognizer.on("error", self._on_stt_error)
        try:
            while True:
                try:
                    async with stream:
                        async for event in stream:
                            self._take(event)
                    return
                except APIError as error:
                    self._on_error(str(error))
                    if self._awaiting_final:  # what it had understood by then is all there will be
                        self._awaiting_final = False
                        self._on_event(Final(self._clock.seconds(), self._latest))
                    await asyncio.sleep(_REOPEN_AFTER_S)
                    self._stream = stream = self._recognizer.stream()
        finally:
            self._recognizer.off("error", self._on_stt_error)
            self._stream = None

    def _on_stt_error(self, error: Any) -> None:
        self._on_error(str(error.error))

    def _take(self, event: stt.SpeechEvent) -> None:
        now = self._clock.seconds()
        text = event.alternatives[0].text if event.alternatives else ""
        kind = stt.SpeechEventType
        if event.type is kind.START_OF_SPEECH:
            self._awaiting_final, self._latest = True, ""
        elif event.type is kind.INTERIM_TRANSCRIPT:
            self._latest = text
            self._on_event(Partial(now, text))
        elif event.type is kind.PREFLIGHT_TRANSCRIPT:
            self._latest = text
            self._on_event(Preflight(now, text))
        elif event.type is kind.FINAL_TRANSCRIPT:
            self._awaiting_final = False
            self._on_event(Final(now, text))
        elif event.type is kind.END_OF_SPEECH and self._awaiting_final:
            # The guard found no words in it.
            self._awaiting_final = False
            self._on_event(Final(now, ""))
