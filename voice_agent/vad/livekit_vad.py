"""The detector behind livekit-agents' `vad.VAD` interface, for sessions and tools that want one.

A session in manual mode needs no VAD: the call owns a `VoiceActivityDetector` and tells the recogniser and the floor.
"""

from __future__ import annotations

import time

from livekit import rtc
from livekit.agents import vad

from voice_agent.vad.detector import VadOptions, VoiceActivityDetector
from voice_agent.vad.engines import SAMPLE_RATE_HZ
from voice_agent.vad.events import VadEventType

_FRAME_S = 512 / SAMPLE_RATE_HZ


class VAD(vad.VAD):
    """livekit-agents VAD: START_OF_SPEECH and END_OF_SPEECH of the gate, INFERENCE_DONE per pushed frame.

    Args:
        options: Options of the detector that each stream gets.
    """

    def __init__(self, options: VadOptions | None = None) -> None:
        super().__init__(capabilities=vad.VADCapabilities(update_interval=_FRAME_S))
        self._options = options or VadOptions()

    @property
    def model(self) -> str:
        """Name of the model behind the gate."""
        return "silero-v6"

    @property
    def provider(self) -> str:
        """Where it runs."""
        return "local"

    def stream(self) -> VADStream:
        """Open a stream; each has its own recurrent state."""
        return VADStream(self, self._options)


class VADStream(vad.VADStream):
    """One stream of frames; any sample rate, mono."""

    def __init__(self, owner: VAD, options: VadOptions) -> None:
        self._options = options
        super().__init__(owner)

    async def _main_task(self) -> None:
        detector = VoiceActivityDetector(self._options)
        resampler: rtc.AudioResampler | None = None
        speech_from_ms: float | None = None
        silence_from_ms = 0.0
        async for item in self._input_ch:
            if not isinstance(item, rtc.AudioFrame):  # a flush is a hard boundary between segments
                detector, speech_from_ms, silence_from_ms = VoiceActivityDetector(self._options), None, 0.0
                continue
            frames = [item]
            if item.sample_rate != SAMPLE_RATE_HZ:
                resampler = resampler or rtc.AudioResampler(item.sample_rate, SAMPLE_RATE_HZ)
                frames = resampler.push(item)
            started = time.perf_counter()
            events = [event for frame in frames for event in detector.push(bytes(frame.data))]
            inference_s = time.perf_counter() - started
            for event in events:
                if event.type is VadEventType.SPEECH_START:
                    speech_from_ms = event.at_ms
                    kind = vad.VADEventType.START_OF_SPEECH
                elif event.type is VadEventType.SPEECH_END:
                    silence_from_ms = event.at_ms
                    kind = vad.VADEventType.END_OF_SPEECH
                else:
                    continue
                spoken_s = (event.detected_ms - speech_from_ms) / 1000 if speech_from_ms is not None else 0.0
                self._event_ch.send_nowait(
                    vad.VADEvent(
                        type=kind,
                        samples_index=int(event.at_ms * SAMPLE_RATE_HZ / 1000),
                        timestamp=event.at_ms / 1000,
                        speech_duration=spoken_s,
                        silence_duration=(event.detected_ms - event.at_ms) / 1000
                        if kind is vad.VADEventType.END_OF_SPEECH
                        else 0.0,
                        speaking=kind is vad.VADEventType.START_OF_SPEECH,
                    )
                )
                if kind is vad.VADEventType.END_OF_SPEECH:
                    speech_from_ms = None
            now_ms = detector.position_ms
            self._event_ch.send_nowait(
                vad.VADEvent(
                    type=vad.VADEventType.INFERENCE_DONE,
                    samples_index=int(now_ms * SAMPLE_RATE_HZ / 1000),
                    timestamp=now_ms / 1000,
                    speech_duration=(now_ms - speech_from_ms) / 1000 if speech_from_ms is not None else 0.0,
                    silence_duration=(now_ms - silence_from_ms) / 1000 if speech_from_ms is None else 0.0,
                    probability=detector.probability,
                    inference_duration=inference_s,
                    speaking=detector.speaking,
                )
            )
