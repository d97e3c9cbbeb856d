"""The two decisions as pure logic: frames of speech or silence in, events out. No audio, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from voice_agent.vad.events import VadEvent, VadEventType


@dataclass(frozen=True)
class TriggerOptions:
    """Options of the early trigger (webrtcvad).

    Attributes:
        mode: webrtcvad's aggressiveness, 0 to 3. Mode 3 with 30 ms hang-over reports an end 52-79 ms (median) after the
            true one, sometimes before it; mode 2 needs 280-370 ms.
        hangover_ms: Silence after which the trigger falls.
        onset_ms: Speech after which it rises: one 10 ms frame alone is more often a click than a word.
    """

    mode: int = 3
    hangover_ms: float = 30.0
    onset_ms: float = 20.0

    def __post_init__(self) -> None:
        if not 0 <= self.mode <= 3:
            raise ValueError(f"TriggerOptions.mode is {self.mode}; webrtcvad has the modes 0 to 3")
        if self.hangover_ms < 0 or self.onset_ms < 0:
            raise ValueError("TriggerOptions.hangover_ms and onset_ms can't be negative")


@dataclass(frozen=True)
class GateOptions:
    """Options of the gate (Silero).

    Attributes:
        threshold: Speech probability at which speech starts.
        release: Probability below which a frame counts as silence. Lower than `threshold`, or a quiet vowel flickers.
        hold_ms: Silence that confirms an end. 250 ms split 2 of 30 clean utterances in two, 400 ms none.
        min_speech_ms: Speech that confirms a start (one Silero frame is 32 ms).
    """

    threshold: float = 0.5
    release: float = 0.35
    hold_ms: float = 250.0
    min_speech_ms: float = 60.0

    def __post_init__(self) -> None:
        if not 0.0 < self.release <= self.threshold < 1.0:
            raise ValueError(f"GateOptions needs 0 < release <= threshold < 1, not {self.release} and {self.threshold}")
        if self.hold_ms < 0 or self.min_speech_ms < 0:
            raise ValueError("GateOptions.hold_ms and min_speech_ms can't be negative")


class _Hysteresis:
    """On after `rise_ms` of speech, off after `fall_ms` of silence, with the times of the audio itself."""

    def __init__(self, rise_ms: float, fall_ms: float) -> None:
        self._rise_ms = rise_ms
        self._fall_ms = fall_ms
        self.active = False
        self._speech_since: float | None = None
        self._silence_since: float | None = None

    def push(self, speech: bool | None, start_ms: float, end_ms: float) -> float | None:
        """Take one frame; return the audio time of a change, if this frame made one.

        `None` for `speech` is neither: it keeps what is going on, but confirms nothing.
        """
        if speech is True:
            self._silence_since = None
            if self._speech_since is None:
                self._speech_since = start_ms
            if not self.active and end_ms - self._speech_since >= self._rise_ms:
                self.active = True
                return self._speech_since
        elif speech is False:
            self._speech_since = None if not self.active else self._speech_since
            if self._silence_since is None:
                self._silence_since = start_ms
            if self.active and end_ms - self._silence_since >= self._fall_ms:
                self.active = False
                self._speech_since = None
                return self._silence_since
        else:
            self._silence_since = None
        return None


class TriggerLogic:
    """The early trigger: speech or not, per 10 ms frame."""

    def __init__(self, options: TriggerOptions | None = None) -> None:
        options = options or TriggerOptions()
        self._state = _Hysteresis(options.onset_ms, options.hangover_ms)

    @property
    def active(self) -> bool:
        """Whether the trigger is up."""
        return self._state.active

    def push(self, speech: bool, start_ms: float, end_ms: float) -> Iterator[VadEvent]:
        """Take one frame that spans `start_ms` to `end_ms` of the stream."""
        at_ms = self._state.push(speech, start_ms, end_ms)
        if at_ms is not None:
            kind = VadEventType.TRIGGER_START if self._state.active else VadEventType.TRIGGER_END
            yield VadEvent(kind, at_ms, end_ms, 1.0 if self._state.active else 0.0)


class GateLogic:
    """The gate: a speech probability per 32 ms frame, hysteresis between `threshold` and `release`."""

    def __init__(self, options: GateOptions | None = None) -> None:
        self.options = options or GateOptions()
        self._state = _Hysteresis(self.options.min_speech_ms, self.options.hold_ms)

    @property
    def active(self) -> bool:
        """Whether the gate says speech."""
        return self._state.active

    def push(self, probability: float, start_ms: float, end_ms: float) -> Iterator[VadEvent]:
        """Take one frame that spans `start_ms` to `end_ms` of the stream.

        Raises:
            ValueError: `probability` is outside 0..1 (or not a number).
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"speech probability {probability} is outside 0..1")
        speech: bool | None = None
        if probability >= self.options.threshold:
            speech = True
        elif probability < self.options.release or not self._state.active:
            speech = False
        at_ms = self._state.push(speech, start_ms, end_ms)
        if at_ms is not None:
            kind = VadEventType.SPEECH_START if self._state.active else VadEventType.SPEECH_END
            yield VadEvent(kind, at_ms, end_ms, probability)
