"""What a request may say about how it is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Strategy(StrEnum):
    """How a reply is found. The first four read one causal text; the others denoise block by block."""

    AUTOREGRESSIVE = "autoregressive"
    """One token a pass, from the causal model."""
    HYBRID = "hybrid"
    """A block drafted by diffusion in one pass, verified causally in the next: the autoregressive text, sooner."""
    HYBRID_ONE_PASS = "hybrid_one_pass"
    """As hybrid, but a pass verifies a draft and drafts behind every possible end of its acceptance."""
    PROMPT_LOOKUP = "prompt_lookup"
    """As autoregressive, with drafts read off the text so far: what followed the last tokens earlier."""
    DYNAMIC = "dynamic"
    """Every position above the threshold, at least the step's quota."""
    STATIC = "static"
    """The step's quota of the most confident positions."""
    SEQUENTIAL = "sequential"
    """The step's quota of the leftmost positions."""
    ENTROPY_BOUND = "entropy_bound"
    """The surest positions, as many as their joint entropy allows."""
    FIRST_CLAUSE = "first_clause"
    """As `dynamic`, but until the first clause is out the quota goes to the left and the leftmost is always taken."""
    EDITING = "editing"
    """As `dynamic`, and what was written may be replaced until a further pass has confirmed it."""
    ENTROPY = "entropy"
    """Dream's: the positions of lowest entropy, on Dream's schedule."""
    MASKGIT_PLUS = "maskgit_plus"
    """Dream's: the most confident positions, on Dream's schedule."""
    TOPK_MARGIN = "topk_margin"
    """Dream's: the positions whose two best tokens lie furthest apart, on Dream's schedule."""


class CanvasCache(StrEnum):
    """What a bidirectional model recomputes in a step (Fast-dLLM, arXiv 2505.22618)."""

    NONE = "none"
    """Everything: exact."""
    PREFIX = "prefix"
    """The open block and what is right of it; the rest once a block. Approximate."""
    DUAL = "dual"
    """The open block alone; the rest once a block. Approximate."""


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
        threshold: confidence above which `dynamic` and its relatives accept a position.
        denoising_steps: steps among which a block's positions are divided (the quota); None for one position a step.
        entropy_bound: nats; `entropy_bound` accepts positions while the sum of their entropies, the largest left out,
            stays within it.
        edit_threshold: probability above which `editing` replaces a written token by a better one.
        sub_block_length: parts of a block that are denoised one after the other; None for the checkpoint's habit.
        canvas_cache: of bidirectional models.
        fold_commit: run a finished block's clean pass together with the next block's first step. Off it costs one more
            forward a block and changes nothing in the text; for comparison. Where clean text gives the next token, the
            clean pass opens the next block, and is never folded into it.
        top_logprobs: alternatives whose log-probabilities are noted beside each token's own; None for none at all.
        sampling: see `Sampling`.
    """

    strategy: Strategy
    block_length: int
    threshold: float = 0.9
    denoising_steps: int | None = None
    entropy_bound: float = 0.1
    edit_threshold: float = 0.9
    sub_block_length: int | None = None
    canvas_cache: CanvasCache = CanvasCache.NONE
    fold_commit: bool = True
    top_logprobs: int | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a value that can't be served."""
        if self.block_length < 1:
            raise ValueError(f"block_length must be at least 1, not {self.block_length}")
        for name in ("threshold", "edit_threshold"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if not self.entropy_bound >= 0.0:
            raise ValueError(f"entropy_bound must be 0 or more, not {self.entropy_bound}")
        if self.denoising_steps is not None and not 1 <= self.denoising_steps <= self.block_length:
            raise ValueError(f"denoising_steps must be from 1 to block_length ({self.block_length})")
        if self.sub_block_length is not None and not 1 <= self.sub_block_length <= self.block_length:
            raise ValueError(f"sub_block_length must be from 1 to block_length ({self.block_length})")
