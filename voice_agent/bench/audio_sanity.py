"""Whether a recorded channel sounds right: levels, clipping, and holes inside a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voice_agent.bench.gaps import Signal, Span, normalised

FULL_SCALE = 32700 / 32768
CLIPPED_RUN = 3
"""Samples in a row at full scale: a single one is a loud peak, three are a flattened one."""

HOLE_DBFS = -50.0
HOLE_MS = 8.0
EDGE_MS = 8.0
CONTEXT_MS = 40.0
STEEP_DB = 12.0
LOUD_DBFS = -30.0
"""A hole (an underrun) is a run of at least `HOLE_MS` below `HOLE_DBFS` with steep edges: within `EDGE_MS` of it the
level is at most `STEEP_DB` under that within `CONTEXT_MS`, and that is loud. A pause or a stop consonant fades out. The
run isn't zero, because a codec lets a hole at the sender ring: of 180 holes of 20 to 80 ms, cut into loud piper speech
before Opus (96 kbit/s), these values found 93 %, and none in 21 s of the same speech left whole."""


@dataclass(frozen=True)
class Levels:
    """Levels of one channel in dBFS, over the samples of its speech (None where there is none)."""

    peak_dbfs: float | None
    speech_rms_dbfs: float | None
    clipped_samples: int


@dataclass(frozen=True)
class Hole:
    """Speech that breaks off and resumes: where it begins (samples) and how long it is silent."""

    start: int
    duration_ms: float


def runs(mask: npt.NDArray[np.bool_]) -> list[Span]:
    """Return the runs of True in a mask of shape (samples,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
    return [Span(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def dbfs(amplitude: float) -> float | None:
    """Convert an amplitude (1.0 is full scale) to dBFS; None for digital silence."""
    return None if amplitude <= 0 else float(20 * np.log10(amplitude))


def measure_levels(signal: Signal, speech: Sequence[Span]) -> Levels:
    """Measure peak and RMS over the stretches of speech, and count clipped samples over the whole channel."""
    samples = normalised(signal)
    clipped = sum(
        run.end - run.start for run in runs(np.abs(samples) >= FULL_SCALE) if run.end - run.start >= CLIPPED_RUN
    )
    if not speech:
        return Levels(peak_dbfs=None, speech_rms_dbfs=None, clipped_samples=clipped)
    spoken = np.concatenate([samples[span.start : span.end] for span in speech])
    rms = float(np.sqrt(np.mean(np.square(spoken, dtype=np.float64))))
    return Levels(peak_dbfs=dbfs(float(np.abs(spoken).max())), speech_rms_dbfs=dbfs(rms), clipped_samples=clipped)


def holes(signal: Signal, reply: Span, rate: int) -> list[Hole]:
    """Find underruns inside one reply; natural pauses are left out.

    Args:
        signal: the agent's channel, shape (samples,).
        reply: first to last audible sample of the reply.
        rate: samples per second.
    """
    samples = np.abs(normalised(signal))[reply.start : reply.end]

    def is_steep(beside: npt.NDArray[np.float32], around: npt.NDArray[np.float32]) -> bool:
        if not beside.size:
            return False
        loudest = float(around.max())
        return loudest >= 10 ** (LOUD_DBFS / 20) and float(beside.max()) >= loudest * 10 ** (-STEEP_DB / 20)

    edge, context = round(EDGE_MS * rate / 1000), round(CONTEXT_MS * rate / 1000)
    return [
        Hole(start=reply.start + run.start, duration_ms=(run.end - run.start) * 1000 / rate)
        for run in runs(samples < 10 ** (HOLE_DBFS / 20))
        if run.end - run.start >= HOLE_MS * rate / 1000
        and is_steep(samples[max(0, run.start - edge) : run.start], samples[max(0, run.start - context) : run.start])
        and is_steep(samples[run.end : run.end + edge], samples[run.end : run.end + context])
    ]
