"""What the agent says, on its way out: segments of 48 kHz samples, pulled 20 ms at a time by the sender's clock.

Pure bookkeeping, no clock and no tasks: the outgoing track pulls, the session captures, flushes, pauses and clears.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 48_000
FRAME_SAMPLES = SAMPLE_RATE_HZ // 50
_FADE_SAMPLES = SAMPLE_RATE_HZ // 200  # 5 ms: no click when the voice is cut or lowered

Samples = npt.NDArray[np.int16]


@dataclass
class Segment:
    """One stretch of the agent's speech, between the first frame captured and the flush.

    Attributes:
        words: Words with the time (s, from the segment's start) at which their audio ends.
        played: Samples pulled so far.
        captured: Samples captured so far.
        flushed: No more will come.
        cut: The segment was cleared; what comes after is dropped.
    """

    words: list[tuple[str, float]] = field(default_factory=list)
    played: int = 0
    captured: int = 0
    flushed: bool = False
    cut: bool = False
    chunks: deque[Samples] = field(default_factory=deque)

    @property
    def position_s(self) -> float:
        """How much of it was played (s)."""
        return self.played / SAMPLE_RATE_HZ

    def heard_text(self, ahead_s: float = 0.0) -> str:
        """The words whose audio has ended, or will have in ``ahead_s``; all once it was played to its end."""
        if self.flushed and not self.cut and not self.chunks:
            return "".join(word for word, _ in self.words)
        return "".join(word for word, end_s in self.words if end_s <= self.position_s + ahead_s)


class Playback:
    """The queue of segments. Each one that is flushed or cut is reported exactly once to ``on_finished``.

    Args:
        on_started: Called with a segment when its first samples are pulled.
        on_finished: Called with a segment when its last sample was pulled, or when it was cut.
    """

    def __init__(self, on_started: Callable[[Segment], None], on_finished: Callable[[Segment], None]) -> None:
        self._on_started = on_started
        self._on_finished = on_finished
        self._segments: deque[Segment] = deque()
        self._capturing: Segment | None = None
        self._gain = 1.0
        self._target_gain = 1.0
        self._paused = False
        self._closed = False
        self._tail: Samples = np.zeros(0, np.int16)
        self.underruns = 0
        """Frames in which a segment had begun, was not complete, and had nothing to play."""

    @property
    def paused(self) -> bool:
        """Whether playing is paused."""
        return self._paused

    @property
    def current(self) -> Segment | None:
        """The segment being played, or the next one."""
        return self._segments[0] if self._segments else None

    def capture(self, samples: Samples) -> None:
        """Append mono samples to the segment under way, or open one."""
        if self._capturing is None:
            self._capturing = Segment(cut=self._closed)
            if not self._closed:
                self._segments.append(self._capturing)
        if not self._capturing.cut and samples.size:
            self._capturing.captured += samples.size
            self._capturing.chunks.append(samples)

    def add_word(self, word: str, end_s: float) -> None:
        """Note that ``word`` ends ``end_s`` (s) into the segment under way; words come with their audio.

        Raises:
            RuntimeError: no segment is under way.
        """
        if self._capturing is None:
            raise RuntimeError(f"the word {word!r} came without its audio")
        self._capturing.words.append((word, end_s))

    def flush(self) -> None:
        """The segment under way is complete."""
        segment, self._capturing = self._capturing, None
        if segment is None:
            return
        segment.flushed = True
        if segment.cut:
            self._on_finished(segment)

    def clear(self) -> None:
        """Drop all that was not played. A segment still being captured is reported when it is flushed."""
        self._fade_out()
        self._paused = False
        self._target_gain = 1.0
        segments, self._segments = list(self._segments), deque()
        for segment in segments:
            segment.cut = True
            segment.chunks.clear()
            if segment.flushed:
                self._on_finished(segment)

    def pause(self) -> None:
        """Fall silent, keep the rest. Idempotent."""
        if not self._paused:
            self._fade_out()
            self._paused = True

    def resume(self) -> None:
        """Go on where it was paused, at full volume. Idempotent."""
        if self._paused:
            self._gain = 0.0
        self._paused = False
        self._target_gain = 1.0

    def duck(self, gain: float) -> None:
        """Lower the voice to ``gain`` (0..1) of its amplitude until :meth:`resume`."""
        self._target_gain = gain

    def close(self) -> None:
        """Nothing will be pulled any more: cut what there is and all that comes."""
        self._closed = True
        self.clear()

    def pull(self) -> Samples:
        """The next 20 ms, shape (960,). Silence where there is nothing to say."""
        frame = np.zeros(FRAME_SAMPLES, np.int16)
        frame[: self._tail.size] = self._tail
        self._tail = self._tail[:0]
        if self._paused:
            return frame
        filled = 0
        while filled < FRAME_SAMPLES and self._segments:
            segment = self._segments[0]
            if segment.chunks and segment.played == 0:
                self._on_started(segment)
                if not self._segments or self._segments[0] is not segment or self._paused:
                    break  # a listener stopped it
            taken = _take(segment, FRAME_SAMPLES - filled)
            frame[filled : filled + taken.size] = taken
            filled += taken.size
            if segment.chunks:
                continue
            if not segment.flushed:
                self.underruns += segment.played > 0 and filled < FRAME_SAMPLES
                break
            self._segments.popleft()
            self._on_finished(segment)
        return self._with_gain(frame) if filled else frame

    def _with_gain(self, frame: Samples) -> Samples:
        if self._gain == self._target_gain == 1.0:
            return frame
        ramp = np.full(FRAME_SAMPLES, self._target_gain, np.float32)
        ramp[:_FADE_SAMPLES] = np.linspace(self._gain, self._target_gain, _FADE_SAMPLES, dtype=np.float32)
        self._gain = self._target_gain
        return (frame * ramp).astype(np.int16)

    def _fade_out(self) -> None:
        """Keep 5 ms of what would have come, fading; they are not counted as played."""
        segment = self.current
        if self._paused or segment is None or segment.played == 0 or not segment.chunks:
            return
        tail = segment.chunks[0][:_FADE_SAMPLES]
        self._tail = (tail * np.linspace(self._gain, 0.0, tail.size, dtype=np.float32)).astype(np.int16)


def _take(segment: Segment, count: int) -> Samples:
    """Remove up to ``count`` samples from the front of ``segment``."""
    parts: list[Samples] = []
    missing = count
    while missing and segment.chunks:
        chunk = segment.chunks.popleft()
        parts.append(chunk[:missing])
        if chunk.size > missing:
            segment.chunks.appendleft(chunk[missing:])
        missing -= parts[-1].size
    segment.played += count - missing
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)
