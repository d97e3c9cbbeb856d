"""Which masked positions of a block a denoising step commits: one entry a strategy, data and a function.

A strategy is a score (what makes a position sure), a schedule (how many positions a step owes) and a selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diffusion_engine.decoding.parameters import DecodingParameters, Strategy
from diffusion_engine.decoding.reading import Reading, Reads

FIRST_CLAUSE_TOKENS = 12
"""Tokens of a reply after which a synthesizer has its first clause."""
LEFT_WEIGHT = 0.8
"""What a confidence counts, in the first clause, for each place that it is further right."""
DREAM_EPSILON = 1e-3
"""Where Dream's time ends, which begins at 1."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The masked positions of a step, left to right.

    Attributes:
        confidences: probability of each position's token under the softmax of its raw logits, untempered.
        scores: what the strategy ranks by, higher is surer.
        offset: of the leftmost in the reply, in tokens.
        quota: positions that the step owes.
        parameters: of the request.
    """

    confidences: list[float]
    scores: list[float]
    offset: int
    quota: int
    parameters: DecodingParameters


Score = Callable[[Reading], float]
"""Higher is surer."""
Schedule = Callable[[int, int, int, int], int]
"""(block length, positions still masked, steps, step from 0) -> positions that the step owes."""
Selection = Callable[[Candidates], list[int]]
"""-> indices of the candidates to commit, ascending."""


@dataclass(frozen=True)
class Unmasking:
    """One strategy; see the module.

    Attributes:
        reads: what the score needs beside probabilities.
        edits: written positions may be replaced as well.
    """

    select: Selection
    score: Score
    schedule: Schedule
    reads: Reads = Reads.BEST
    edits: bool = False


def confidence(reading: Reading) -> float:
    """The probability of the token."""
    return reading.probability


def negative_entropy(reading: Reading) -> float:
    """Minus the entropy of the position's distribution, in nats."""
    return -reading.entropy


def margin(reading: Reading) -> float:
    """How far the two most probable tokens lie apart."""
    return reading.margin


def quota(block_length: int, masked: int, denoising_steps: int, step: int) -> int:
    """The block divided evenly among its steps, the remainder first (SDAR, LLaDA)."""
    base, remainder = divmod(block_length, denoising_steps)
    return base + (step < remainder)


def dream_time(block_length: int, masked: int, denoising_steps: int, step: int) -> int:
    """Dream's: time runs evenly from 1 to `DREAM_EPSILON`, a step owes its share of the time left; the last takes all.

    A share below one commits nothing: Dream's first steps of many may be idle.
    """
    if step >= denoising_steps - 1:
        return masked
    now, then = (1 + (DREAM_EPSILON - 1) * i / denoising_steps for i in (step, step + 1))
    return int(masked * (1 - then / now))


def static(candidates: Candidates) -> list[int]:
    """The quota's surest; in a tie the lower position."""
    return _surest(candidates.scores, candidates.quota)


def sequential(candidates: Candidates) -> list[int]:
    """The leftmost."""
    return list(range(min(candidates.quota, len(candidates.scores))))


def dynamic(candidates: Candidates) -> list[int]:
    """All above the threshold, strictly, where they are at least the quota; else as `static`."""
    above = _above(candidates)
    return above if len(above) >= candidates.quota else static(candidates)


def entropy_bound(candidates: Candidates) -> list[int]:
    """The surest while the sum of entropies without the largest stays within the bound (arXiv 2505.24857).

    That sum bounds how far tokens drawn independently can be from their joint distribution. The quota is a minimum.
    """
    entropies = [-score for score in candidates.scores]
    order = sorted(range(len(entropies)), key=lambda i: (entropies[i], i))
    accepted, others = 0, 0.0
    for index in order:
        if others > candidates.parameters.entropy_bound:
            break
        accepted += 1
        others += entropies[index]
    return sorted(order[: max(accepted, candidates.quota)])


def first_clause(candidates: Candidates) -> list[int]:
    """Until the first clause is out: the leftmost, all above the threshold, and the quota weighted to the left."""
    if candidates.offset >= FIRST_CLAUSE_TOKENS:
        return dynamic(candidates)
    weighted = [score * LEFT_WEIGHT**place for place, score in enumerate(candidates.scores)]
    return sorted({0, *_above(candidates), *_surest(weighted, candidates.quota)})


def _above(candidates: Candidates) -> list[int]:
    return [i for i, value in enumerate(candidates.confidences) if value > candidates.parameters.threshold]


def _surest(scores: list[float], count: int) -> list[int]:
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    return sorted(order[:count])


UNMASKING: dict[Strategy, Unmasking] = {
    Strategy.DYNAMIC: Unmasking(dynamic, confidence, quota),
    Strategy.STATIC: Unmasking(static, confidence, quota),
    Strategy.SEQUENTIAL: Unmasking(sequential, confidence, quota),
    Strategy.ENTROPY_BOUND: Unmasking(entropy_bound, negative_entropy, quota, Reads.ENTROPY),
    Strategy.FIRST_CLAUSE: Unmasking(first_clause, confidence, quota),
    Strategy.EDITING: Unmasking(dynamic, confidence, quota, edits=True),
    Strategy.ENTROPY: Unmasking(static, negative_entropy, dream_time, Reads.ENTROPY),
    Strategy.MASKGIT_PLUS: Unmasking(static, confidence, dream_time),
    Strategy.TOPK_MARGIN: Unmasking(static, margin, dream_time, Reads.MARGIN),
}
