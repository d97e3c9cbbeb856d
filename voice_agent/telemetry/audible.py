"""Where the caller's speech ends, measured on its own samples."""

from __future__ import annotations

import numpy as np

THRESHOLD_DBFS = -45.0
MIN_SPEECH_MS = 50.0
_SAME_STRETCH_MS = 100.0
_VOICE_DIP_MS = 10.0
_AMPLITUDE = 32768 * 10 ** (THRESHOLD_DBFS / 20)


class LastAudible:
    """Follows one stream of s16 PCM and knows its last audible sample.

    Audible is a sample at or above -45 dBFS that belongs to at least 50 ms of speech: a stretch with no silence longer
    than 100 ms (a stop consonant's closure), its silences above 10 ms (a pitch period) not counted. Clicks don't count.
    These are the rules by which a recording of the call is measured.

    Args:
        rate_hz: Samples per second.
    """

    def __init__(self, rate_hz: int) -> None:
        self._per_ms = rate_hz / 1000
        self._position = 0  # samples taken
        self._last: int | None = None  # latest audible sample, a click perhaps
        self._spoken = 0  # audible samples of the stretch under way, short dips included
        self._end: int | None = None

    @property
    def position_ms(self) -> float:
        """Audio taken so far (ms)."""
        return self._position / self._per_ms

    @property
    def end_ms(self) -> float | None:
        """Where the last audible sample of speech ends, in ms of the stream; None before the first speech."""
        return None if self._end is None else (self._end + 1) / self._per_ms

    def push(self, pcm: bytes) -> None:
        """Take the next samples."""
        samples = np.frombuffer(pcm, np.int16).astype(np.int32)
        for offset in np.flatnonzero(np.abs(samples) >= _AMPLITUDE).tolist():
            self._hear(self._position + offset)
        self._position += samples.size

    def _hear(self, sample: int) -> None:
        silent = None if self._last is None else sample - self._last - 1
        if silent is None or silent > _SAME_STRETCH_MS * self._per_ms:
            self._spoken = 0
        elif silent <= _VOICE_DIP_MS * self._per_ms:
            self._spoken += silent
        self._spoken += 1
        self._last = sample
        if self._spoken >= MIN_SPEECH_MS * self._per_ms:
            self._end = sample
