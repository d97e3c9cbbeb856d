"""What the caller hears: received frames laid onto the call's clock as a browser's playout would, and recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voice_agent.bench.call_clock import RATE
from voice_agent.bench.gaps import DEFAULT_RULES, Span

PLAYOUT_DELAY_MS = 20.0


@dataclass(frozen=True)
class Underrun:
    """A frame came after the one before it had been played out: `duration_ms` of silence at sample `start`."""

    start: int
    duration_ms: float


class Playout:
    """A jitter buffer of fixed small delay.

    A frame is heard at its RTP time plus an offset. The first frame sets the offset so that it waits `delay_ms`. A late
    frame is heard when it arrives, the hole before it is silence, and everything after it is heard later by as much: as
    in a browser, whose buffer grows by a stutter. While the agent is silent the offset shrinks again, by at most a
    quarter of each frame (a browser drops that much without being heard).

    What this adds to a gap, in total: the packet's own 20 ms, one packet of waiting in aiortc's jitter buffer (20 ms:
    it hands a frame on when the next has come), and `delay_ms`. Left out: a network, and the buffers of the sound cards
    on both ends (10 to 40 ms on most machines).
    """

    def __init__(self, delay_ms: float = PLAYOUT_DELAY_MS) -> None:
        self.underruns: list[Underrun] = []
        """Only those next to audible frames: a hole in silence isn't heard."""
        self.most_delay_ms = 0.0
        self._delay = round(delay_ms * RATE / 1000)
        self._threshold = 32768 * 10 ** (DEFAULT_RULES.threshold_dbfs / 20)
        self._offset: int | None = None
        self._end = 0
        self._audible_before = False
        self._heard = np.zeros(RATE * 60, dtype=np.int16)

    def add(self, samples: npt.NDArray[np.int16], timestamp: int, arrival: int) -> Span:
        """Take one decoded frame; returns where it is heard.

        Args:
            samples: shape (samples,).
            timestamp: its RTP time in samples.
            arrival: the clock's sample at which it came.
        """
        audible = bool((np.abs(samples.astype(np.int32)) >= self._threshold).any())
        if self._offset is None:
            self._offset = arrival + self._delay - timestamp
        elif arrival > timestamp + self._offset:
            late = arrival - (timestamp + self._offset)
            if audible and self._audible_before:
                self.underruns.append(Underrun(start=self._end, duration_ms=late * 1000 / RATE))
            self._offset += late
        elif not audible and not self._audible_before:
            waits = timestamp + self._offset - arrival
            self._offset -= min(max(0, waits - self._delay), len(samples) // 4)
        start = timestamp + self._offset
        self.most_delay_ms = max(self.most_delay_ms, (start - arrival) * 1000 / RATE)
        self._write(start, samples)
        self._end = start + len(samples)
        self._audible_before = audible
        return Span(start, self._end)

    def recording(self, length: int) -> npt.NDArray[np.int16]:
        """Return the first `length` samples of what was heard."""
        heard = self._heard[:length]
        return np.concatenate([heard, np.zeros(length - len(heard), dtype=np.int16)])

    def _write(self, start: int, samples: npt.NDArray[np.int16]) -> None:
        end = start + len(samples)
        if end > len(self._heard):
            self._heard = np.concatenate([self._heard, np.zeros(max(len(self._heard), end), dtype=np.int16)])
        self._heard[start:end] = samples
