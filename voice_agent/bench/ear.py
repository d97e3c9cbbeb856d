"""The caller's live sense of when the agent speaks. Rough on purpose: the figures come from the recording."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from voice_agent.bench.call_clock import RATE
from voice_agent.bench.gaps import DEFAULT_RULES, Span

AMPLITUDE = 10 ** (DEFAULT_RULES.threshold_dbfs / 20)


def audible_positions(samples: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
    """Return the indices of the samples (int16, or float in -1..1) above the threshold."""
    scale = 32768 if samples.dtype == np.int16 else 1
    return np.flatnonzero(np.abs(samples.astype(np.float32)) >= AMPLITUDE * scale)


class Ear:
    """Tells when the agent became audible and since when it is silent, in samples of the call's clock."""

    def __init__(self) -> None:
        self.onset: int | None = None
        """The first audible sample since `listen`, None while there is none."""
        self.last_audible = 0
        self._from = 0
        self._spoken: deque[Span] = deque(maxlen=50)

    def listen(self, since: int) -> None:
        """Wait for a new onset from sample `since` on."""
        self.onset, self._from = None, since

    def hear(self, samples: npt.NDArray[np.int16], where: Span) -> None:
        """Take what is heard at `where`."""
        audible = audible_positions(samples)
        if not audible.size:
            return
        self.last_audible = where.start + int(audible[-1])
        self._spoken.append(Span(where.start + int(audible[0]), self.last_audible + 1))
        after = audible[audible >= self._from - where.start]
        if self.onset is None and after.size:
            self.onset = where.start + int(after[0])

    def speech_after(self, since: int) -> bool:
        """Tell whether enough was heard after sample `since` to be speech and not a click or the end of a word."""
        heard = sum(max(0, span.end - max(span.start, since)) for span in self._spoken)
        return heard * 1000 / RATE >= DEFAULT_RULES.min_speech_ms

    def silent_for_s(self, now: int) -> float:
        """Return the seconds since the last audible sample; since the call's beginning when there was none."""
        return (now - self.last_audible) / RATE
