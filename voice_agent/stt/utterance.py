"""The caller's audio while it is being recognised: the pre-roll, the utterance, and where a long one is cut. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000
_SAMPLES_PER_MS = SAMPLE_RATE_HZ // 1000
_LEVEL_STEP_MS = 20
_QUIET_STRETCH_MS = 100

Pcm = npt.NDArray[np.int16]


class PreRoll:
    """The last moments of audio, kept because an onset is known only after it happened.

    Args:
        keep_ms: Audio kept, in milliseconds.
    """

    def __init__(self, keep_ms: float) -> None:
        self._keep = int(keep_ms * _SAMPLES_PER_MS)
        self._audio: Pcm = np.zeros(0, dtype=np.int16)
        self._end = 0

    @property
    def position_ms(self) -> float:
        """Stream time of the last sample."""
        return self._end / _SAMPLES_PER_MS

    def push(self, pcm: Pcm) -> None:
        """Take the next samples of the stream."""
        self._end += pcm.size
        self._audio = np.concatenate([self._audio, pcm])[-self._keep :] if self._keep else pcm[:0]

    def since(self, at_ms: float) -> tuple[Pcm, float]:
        """What is kept of the audio since stream time `at_ms`, and the stream time at which it begins."""
        first = self._end - self._audio.size
        start = min(max(first, int(at_ms * _SAMPLES_PER_MS)), self._end)
        return self._audio[start - first :], start / _SAMPLES_PER_MS


@dataclass
class Utterance:
    """One stretch of the caller's speech, from its onset to its confirmed end.

    Attributes:
        start_ms: Stream time of the first sample of `audio()`.
        committed: Text of parts that were cut off the front because the whole grew too long.
        paused: The trigger has fallen and not risen again.
    """

    start_ms: float
    committed: list[str] = field(default_factory=list)
    paused: bool = False
    _pieces: list[Pcm] = field(default_factory=list)
    _samples: int = 0

    @property
    def end_ms(self) -> float:
        """Stream time behind the last sample."""
        return self.start_ms + self._samples / _SAMPLES_PER_MS

    @property
    def length_ms(self) -> float:
        """Length of `audio()`."""
        return self._samples / _SAMPLES_PER_MS

    def append(self, pcm: Pcm) -> None:
        """Take the next samples of the stream."""
        self._pieces.append(pcm)
        self._samples += pcm.size

    def audio(self) -> Pcm:
        """All samples that aren't committed yet, int16 [samples]."""
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0] if self._pieces else np.zeros(0, dtype=np.int16)

    def dips(self) -> bool:
        """Whether the last 40 ms are far below the utterance's level: its end, or a pause, has probably begun."""
        audio = self.audio()
        tail = audio[-40 * _SAMPLES_PER_MS :].astype(np.float32)
        if audio.size < 10 * tail.size:
            return False
        level = np.sqrt(np.mean(np.square(audio.astype(np.float32))))
        return bool(np.sqrt(np.mean(np.square(tail))) < 0.1 * level)

    def cut(self, search_ms: float) -> Pcm:
        """Cut the utterance at the quietest 100 ms of its last `search_ms` and return what lies before.

        What lies behind stays, so no word is lost where the caller took a breath; without one a word may be split.
        """
        audio = self.audio()
        step = _LEVEL_STEP_MS * _SAMPLES_PER_MS
        begin = max(0, audio.size - int(search_ms * _SAMPLES_PER_MS)) // step
        frames = audio[: audio.size // step * step].reshape(-1, step).astype(np.float32)
        energy = np.mean(np.square(frames), axis=1)
        width = _QUIET_STRETCH_MS // _LEVEL_STEP_MS
        smooth = np.convolve(energy, np.ones(width) / width, mode="valid")
        quietest = begin + int(np.argmin(smooth[begin:])) if smooth.size > begin else begin
        at = (quietest * step) + width * step // 2
        head, tail = audio[:at], audio[at:]
        self._pieces = [tail]
        self._samples = tail.size
        self.start_ms += at / _SAMPLES_PER_MS
        return head
