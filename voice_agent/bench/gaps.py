"""Turn gaps, takeovers and missed turns, measured from the two channels of a recorded call.

Everything here sees only audio: the left channel is what the caller sent, the right one what the caller received, both
on the caller's clock. Positions are sample indices, half open (`end` is one past the last sample).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Signal = npt.NDArray[np.generic]
"""One channel, shape (samples,): int16, or float in -1..1."""


@dataclass(frozen=True)
class Span:
    """Samples `start` to `end` (exclusive) of one channel."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, not {self.start}..{self.end}")


@dataclass(frozen=True)
class Rules:
    """What counts as audible, as a turn and as an overlap.

    The first two are the measurement's definition. The others say how speech is told from clicks and turns from pauses:
    a dip of one pitch period (100 Hz) is still voice; a stop consonant's closure (up to ~100 ms) is still the same
    stretch. Speakers overlap the last syllable of a turn routinely: an onset that late (`terminal_overlap_ms`) is an
    early answer, a negative gap; an earlier one cut the caller off. But where the caller had paused shortly before
    (`pause_reaction_ms`), every onset before the end is the answer to that pause, however late it became audible.
    """

    threshold_dbfs: float = -45.0
    min_speech_ms: float = 50.0
    pitch_period_ms: float = 10.0
    closure_ms: float = 100.0
    turn_pause_ms: float = 200.0
    reply_pause_ms: float = 500.0
    terminal_overlap_ms: float = 250.0
    pause_reaction_ms: float = 1500.0
    missed_after_ms: float = 5000.0


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class TurnGap:
    """One caller turn and how it was answered.

    Attributes:
        caller: first to last audible sample of the turn.
        pauses: silences inside the turn, of at least `Rules.turn_pause_ms`.
        reply: the agent's answer, from its first to its last audible sample before the caller's next turn.
        gap_ms: first audible agent sample minus last audible caller sample; negative for a terminal overlap; None after
            a takeover and for a missed turn.
        takeover: the agent became audible inside the turn, before its last syllables.
        takeover_at_ms: where it did, relative to the turn's end (negative).
        pause_takeovers: how many of `pauses` it became audible in.
        missed: nothing of an answer was audible within `Rules.missed_after_ms` of the turn's end.
    """

    caller: Span
    pauses: list[Span] = field(default_factory=list)
    reply: Span | None = None
    gap_ms: float | None = None
    takeover: bool = False
    takeover_at_ms: float | None = None
    pause_takeovers: int = 0
    missed: bool = False


def normalised(signal: Signal) -> npt.NDArray[np.float32]:
    """Return one channel as float32 in -1..1; raises ValueError for other shapes or values that aren't finite."""
    if signal.ndim != 1:
        raise ValueError(f"expected one channel of shape (samples,), got shape {signal.shape}")
    if signal.dtype == np.int16:
        return signal.astype(np.float32) / np.float32(32768)
    if not np.issubdtype(signal.dtype, np.floating):
        raise ValueError(f"expected int16 or float samples, got {signal.dtype}")
    samples = signal.astype(np.float32)
    if not np.isfinite(samples).all():
        raise ValueError("the signal holds samples that are not finite")
    return samples


def audible_stretches(signal: Signal, rate: int, rules: Rules = DEFAULT_RULES) -> list[Span]:
    """Find the stretches of speech: from an audible sample to an audible sample, no silence over `closure_ms` inside.

    A stretch holds at least `min_speech_ms` of speech, silences longer than a pitch period not counted; shorter ones
    are clicks and are dropped.
    """
    amplitude = 10 ** (rules.threshold_dbfs / 20)
    audible = np.flatnonzero(np.abs(normalised(signal)) >= amplitude)
    if audible.size == 0:
        return []
    silent = np.diff(audible) - 1
    edges = np.flatnonzero(silent > rules.closure_ms * rate / 1000)
    first = audible[np.concatenate(([0], edges + 1))]
    last = audible[np.concatenate((edges, [audible.size - 1]))]
    # Silence inside each stretch that is longer than a pitch period; the silence between stretches is counted with the
    # stretch before it by reduceat, so it is blanked first.
    unvoiced = np.where(silent > rules.pitch_period_ms * rate / 1000, silent, 0)
    unvoiced[edges] = 0
    inside = np.add.reduceat(np.append(unvoiced, 0), np.concatenate(([0], edges + 1)))
    spoken = last - first + 1 - inside
    return [
        Span(int(start), int(end) + 1)
        for start, end, samples in zip(first, last, spoken, strict=True)
        if samples >= rules.min_speech_ms * rate / 1000
    ]


def silences(stretches: Sequence[Span], at_least: float) -> list[Span]:
    """Return the silences between consecutive stretches that last `at_least` samples."""
    between = itertools.pairwise(stretches)
    return [Span(a.end, b.start) for a, b in between if b.start - a.end >= at_least]


def replies(stretches: Sequence[Span], turn_ends: Sequence[int], longest_pause: float) -> list[Span]:
    """Join stretches into replies across pauses of up to `longest_pause` samples, but never across a turn's end."""
    joined: list[Span] = []
    for stretch in stretches:
        previous = joined[-1] if joined else None
        if (
            previous is not None
            and stretch.start - previous.end <= longest_pause
            and not any(previous.end < end <= stretch.start for end in turn_ends)
        ):
            joined[-1] = Span(previous.start, stretch.end)
        else:
            joined.append(stretch)
    return joined


def measure_turns(
    caller: Signal, agent: Signal, rate: int, turns: Sequence[Span], rules: Rules = DEFAULT_RULES
) -> list[TurnGap]:
    """Measure every scripted caller turn of a call.

    Args:
        caller: left channel, shape (samples,).
        agent: right channel, same shape and rate (Hz).
        rate: samples per second.
        turns: where each utterance was played into the left channel, in order; pauses inside belong to the turn.
        rules: thresholds.

    Raises:
        ValueError: the channels differ in length, or a turn has no audible speech.
    """
    if caller.shape != agent.shape:
        raise ValueError(f"the channels differ in length: {caller.shape} and {agent.shape}")
    per_ms = rate / 1000
    spoken = audible_stretches(caller, rate, rules)
    turn_stretches = []
    for number, turn in enumerate(turns):
        mine = [s for s in spoken if s.start < turn.end and s.end > turn.start]
        if not mine:
            raise ValueError(f"caller turn {number} ({turn.start}..{turn.end}) has no audible speech")
        turn_stretches.append(mine)

    ends = [stretches[-1].end for stretches in turn_stretches]
    heard = replies(audible_stretches(agent, rate, rules), ends, rules.reply_pause_ms * per_ms)
    starts_of_next = [stretches[0].start for stretches in turn_stretches[1:]] + [len(caller)]
    return [
        _measure_turn(stretches, heard, until, per_ms, rules)
        for stretches, until in zip(turn_stretches, starts_of_next, strict=True)
    ]


def _measure_turn(stretches: list[Span], heard: Sequence[Span], until: int, per_ms: float, rules: Rules) -> TurnGap:
    whole = Span(stretches[0].start, stretches[-1].end)
    pauses = silences(stretches, rules.turn_pause_ms * per_ms)
    # Soon after a pause, an onset before the end answers the pause: the caller had gone on before it was audible.
    answers_pause = bool(pauses) and whole.end - pauses[-1].end < rules.pause_reaction_ms * per_ms
    earliest_answer = whole.end if answers_pause else whole.end - rules.terminal_overlap_ms * per_ms

    began = [reply for reply in heard if whole.start < reply.start < until]
    early = [reply for reply in began if reply.start < earliest_answer]
    latest_answer = whole.end + rules.missed_after_ms * per_ms
    answers = [reply for reply in began if earliest_answer <= reply.start <= latest_answer]
    if early:
        return TurnGap(
            caller=whole,
            pauses=pauses,
            reply=Span(early[0].start, max(r.end for r in [*early, *answers])),
            takeover=True,
            takeover_at_ms=(early[0].start - (whole.end - 1)) / per_ms,
            pause_takeovers=sum(any(p.start <= r.start < p.end for r in early) for p in pauses),
            missed=not answers and all(reply.end <= whole.end for reply in early),
        )
    if not answers:
        return TurnGap(caller=whole, pauses=pauses, missed=True)
    return TurnGap(
        caller=whole,
        pauses=pauses,
        reply=Span(answers[0].start, max(reply.end for reply in began)),
        gap_ms=(answers[0].start - (whole.end - 1)) / per_ms,
    )
