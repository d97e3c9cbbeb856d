"""The voice activity detector of a call: PCM in, events out, both engines on one sample-accurate clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from voice_agent.vad.activity import GateLogic, GateOptions, TriggerLogic, TriggerOptions
from voice_agent.vad.engines import SAMPLE_RATE_HZ, FrameClassifier, FrameScorer, SileroEngine, WebRtcEngine
from voice_agent.vad.events import VadEvent

_BYTES_PER_SAMPLE = 2


@dataclass(frozen=True)
class VadOptions:
    """Options of a `VoiceActivityDetector`: those of its trigger and those of its gate."""

    trigger: TriggerOptions = field(default_factory=TriggerOptions)
    gate: GateOptions = field(default_factory=GateOptions)


class VoiceActivityDetector:
    """Trigger and gate over one stream of 16 kHz mono s16 PCM.

    `push` takes any number of bytes and returns the events they caused, in order of detection. Times are stream times
    in milliseconds: sample n is at n / 16. Cost: about 2 ms of CPU per 100 ms
    of audio, nearly all of it the gate; cheap enough for the event loop.

    Args:
        options: See `VadOptions`.
        trigger_engine: Replaces webrtcvad (tests).
        gate_engine: Replaces Silero (tests).
    """

    def __init__(
        self,
        options: VadOptions | None = None,
        *,
        trigger_engine: FrameClassifier | None = None,
        gate_engine: FrameScorer | None = None,
    ) -> None:
        self.options = options or VadOptions()
        self._trigger_engine = trigger_engine or WebRtcEngine(self.options.trigger.mode)
        self._gate_engine = gate_engine or SileroEngine()
        self._trigger = TriggerLogic(self.options.trigger)
        self._gate = GateLogic(self.options.gate)
        self._trigger_pending = bytearray()
        self._gate_pending = bytearray()
        self._trigger_samples = 0
        self._gate_samples = 0
        self.probability = 0.0
        """The gate's last speech probability."""

    @property
    def triggered(self) -> bool:
        """Whether the trigger is up."""
        return self._trigger.active

    @property
    def speaking(self) -> bool:
        """Whether the gate says that the caller speaks (its hold included)."""
        return self._gate.active

    @property
    def position_ms(self) -> float:
        """Audio taken so far, in milliseconds."""
        pending = len(self._trigger_pending) // _BYTES_PER_SAMPLE
        return (self._trigger_samples + pending) * 1000.0 / SAMPLE_RATE_HZ

    def push(self, pcm: bytes) -> list[VadEvent]:
        """Take the next bytes of s16 PCM and return what they made happen."""
        self._trigger_pending += pcm
        self._gate_pending += pcm
        events = [*self._push_trigger(), *self._push_gate()]
        events.sort(key=lambda event: event.detected_ms)
        return events

    def _push_trigger(self) -> Iterator[VadEvent]:
        size = self._trigger_engine.frame_samples
        while len(self._trigger_pending) >= size * _BYTES_PER_SAMPLE:
            frame = _take(self._trigger_pending, size)
            start = self._trigger_samples
            self._trigger_samples += size
            yield from self._trigger.push(self._trigger_engine.is_speech(frame), _ms(start), _ms(self._trigger_samples))

    def _push_gate(self) -> Iterator[VadEvent]:
        size = self._gate_engine.frame_samples
        while len(self._gate_pending) >= size * _BYTES_PER_SAMPLE:
            frame = _take(self._gate_pending, size)
            start = self._gate_samples
            self._gate_samples += size
            self.probability = self._gate_engine.probability(frame)
            yield from self._gate.push(self.probability, _ms(start), _ms(self._gate_samples))


def _take(pending: bytearray, samples: int) -> bytes:
    size = samples * _BYTES_PER_SAMPLE
    frame = bytes(pending[:size])
    del pending[:size]
    return frame


def _ms(samples: int) -> float:
    return samples * 1000.0 / SAMPLE_RATE_HZ
