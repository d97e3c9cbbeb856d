"""What voice activity detection reports: events with times of the audio itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class VadEventType(StrEnum):
    """The four events, in the order in which they come for an utterance.

    The trigger is early and nervous (several start/end pairs in an utterance, one a dip of the energy); the gate is
    late and sure. Speculate on the trigger, commit on the gate.
    """

    TRIGGER_START = "trigger_start"
    TRIGGER_END = "trigger_end"
    SPEECH_START = "speech_start"
    SPEECH_END = "speech_end"


@dataclass(frozen=True, slots=True)
class VadEvent:
    """One event.

    Both times are stream times: milliseconds of audio since the detector's first sample.

    Attributes:
        type: What happened.
        at_ms: When it happened in the audio: the first sample of speech for a start, the first sample after speech for
            an end.
        detected_ms: How much audio had been consumed when it was known; `detected_ms - at_ms` is the detection delay.
        probability: The speech probability that decided (the gate's), 1.0 or 0.0 for the trigger.
    """

    type: VadEventType
    at_ms: float
    detected_ms: float
    probability: float
