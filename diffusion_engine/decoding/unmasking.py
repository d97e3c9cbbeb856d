"""Which masked positions of a block a denoising step commits."""

from __future__ import annotations

from collections.abc import Callable

from diffusion_engine.decoding.parameters import Strategy

Unmasking = Callable[[list[float], int, float], list[int]]
"""(confidences of the masked positions, left to right; the step's quota; threshold) -> indices to commit, ascending."""


def quota(block_length: int, denoising_steps: int, step: int) -> int:
    """Positions that step `step` (from 0) may commit: the block divided among its steps, the remainder first."""
    base, remainder = divmod(block_length, denoising_steps)
    return base + (step < remainder)


def static(confidences: list[float], quota: int, threshold: float) -> list[int]:
    """The quota's most confident; in a tie the lower position."""
    order = sorted(range(len(confidences)), key=lambda i: (-confidences[i], i))
    return sorted(order[:quota])


def sequential(confidences: list[float], quota: int, threshold: float) -> list[int]:
    """The leftmost."""
    return list(range(min(quota, len(confidences))))


def dynamic(confidences: list[float], quota: int, threshold: float) -> list[int]:
    """All above the threshold, strictly, where they are at least the quota; else as `static`."""
    above = [i for i, confidence in enumerate(confidences) if confidence > threshold]
    return above if len(above) >= quota else static(confidences, quota, threshold)


UNMASKING: dict[Strategy, Unmasking] = {
    Strategy.STATIC: static,
    Strategy.SEQUENTIAL: sequential,
    Strategy.DYNAMIC: dynamic,
}
