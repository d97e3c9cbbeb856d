"""What a request may say about how it is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Strategy(StrEnum):
    """How a reply is found."""

    AUTOREGRESSIVE = "autoregressive"
    """One token a pass, from the causal model."""
    HYBRID = "hybrid"
    """A block drafted by diffusion in one pass, verified causally in the next: the autoregressive text, sooner."""
    DYNAMIC = "dynamic"
    """Block denoising: every position above the threshold, at least the step's quota."""
    STATIC = "static"
    """Block denoising: the step's quota of the most confident positions."""
    SEQUENTIAL = "sequential"
    """Block denoising: the step's quota of the leftmost positions."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How one token is drawn.

    Attributes:
        temperature: 0 takes the most probable token.
        top_p: smallest share of the probability to draw from (nucleus sampling, Holtzman et al. 2020).
        seed: with a token's position it decides the draw, so a result never depends on other requests.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DecodingParameters:
    """One request's decoding.

    Attributes:
        strategy: see `Strategy`.
        block_length: tokens denoised or drafted together.
        threshold: confidence above which `dynamic` accepts a position.
        denoising_steps: steps among which a block's positions are divided (the quota); None for one position a step.
        sampling: see `Sampling`.
    """

    strategy: Strategy
    block_length: int
    threshold: float = 0.9
    denoising_steps: int | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a value that can't be served."""
        if self.block_length < 1:
            raise ValueError(f"block_length must be at least 1, not {self.block_length}")
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold must be between 0 and 1, not {self.threshold}")
        if self.denoising_steps is not None and not 1 <= self.denoising_steps <= self.block_length:
            raise ValueError(f"denoising_steps must be from 1 to block_length ({self.block_length})")
