"""What a checkpoint says of its model, in one vocabulary for all families."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Attention(StrEnum):
    """What a position may see of the clean text around it (masks of an open block always see their whole block)."""

    BLOCK_CAUSAL = "block_causal"
    """Its own block and every earlier one: finished blocks can be cached exactly."""
    CAUSAL = "causal"
    """Itself and what stands before it: clean text is cached exactly, token by token."""
    BIDIRECTIONAL = "bidirectional"
    """The whole canvas, masks to its right included: keys and values change with every step, nothing is shared."""

    @property
    def exact(self) -> bool:
        """Keys and values of clean text never change."""
        return self is not Attention.BIDIRECTIONAL


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """Rotary frequencies stretched to a longer context (Peng et al. 2023, arXiv 2309.00071).

    Attributes:
        factor: of the stretch.
        original_positions: context of the body before it.
        beta_fast: rotations over the original context from which on a frequency is kept.
        beta_slow: rotations up to which a frequency is divided by `factor`.
        attention_factor: multiplies cosines and sines.
        truncate: round the borders of the ramp to whole frequencies.
    """

    factor: float
    original_positions: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    truncate: bool = True


@dataclass(frozen=True, kw_only=True)
class QueryScaling:
    """Llama 4's scaling: a query at position p is multiplied by 1 + beta * log(1 + floor(p / original_positions))."""

    beta: float
    original_positions: int


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Routed experts beside a layer's gated feed-forward, which then is the shared expert.

    A token's scores are the sigmoids of its router logits. The best `per_token` experts are chosen by score plus a
    learned bias, among the `groups_per_token` groups whose two best experts have the largest sum; the bias chooses
    only, the weights are the scores themselves, normalised and scaled (DeepSeek-V3, arXiv 2412.19437).

    Attributes:
        count: experts of a layer.
        per_token: experts that a token goes through.
        groups: that divide the experts evenly.
        groups_per_token: groups that a token may choose from.
        scaling: of the weights after normalisation.
        intermediate_size: width inside one expert.
        shared_intermediate_size: width inside the shared expert.
        first_layer: layers before it have the plain feed-forward only.
    """

    count: int
    per_token: int
    groups: int
    groups_per_token: int
    scaling: float
    intermediate_size: int
    shared_intermediate_size: int
    first_layer: int

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a shape that no model has."""
        for name in ("count", "per_token", "groups", "intermediate_size", "shared_intermediate_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"experts: {name} must be at least 1, not {getattr(self, name)}")
        if self.count % self.groups or self.count // self.groups < 2:
            raise ValueError(f"experts: {self.groups} groups must divide {self.count} experts, two or more in each")
        if not 1 <= self.groups_per_token <= self.groups:
            raise ValueError(f"experts: groups_per_token must be from 1 to {self.groups}, not {self.groups_per_token}")
        if self.per_token > self.groups_per_token * self.count // self.groups:
            raise ValueError(f"experts: {self.per_token} a token are more than its groups hold")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Shape and conventions of one checkpoint.

    Attributes:
        family: key of the registry entry, the checkpoint's `model_type`.
        vocab_size: rows of the output projection.
        hidden_size: width of the residual stream.
        intermediate_size: width inside the gated feed-forward layer.
        num_layers: transformer layers.
        num_heads: query heads.
        num_kv_heads: key and value heads; divides `num_heads`.
        head_dim: width of a head; even.
        rms_norm_eps: added to the mean square in every norm.
        rope_theta: base of the rotary frequencies.
        max_positions: tokens that fit, prompt and reply together.
        tie_embeddings: the output projection is the embedding's transpose.
        qk_norm: queries and keys are normalised per head before the rotation.
        qkv_bias: the query, key and value projections have a bias.
        attention: what clean text sees.
        shift_logits: position i is predicted by the hidden state at i - 1 (bodies adapted from autoregressive models).
        block_length: tokens denoised together, as the checkpoint was trained.
        mask_token_ids: the input id of a mask. One id for most families; with several, the mask at offset j of a block
            is `mask_token_ids[j]`, and a block can't be longer than there are ids. Ids at or above `vocab_size` exist
            only as input.
        eos_token_ids: ids that end a reply.
        sub_block_length: a block is denoised in parts of this length, left to right; None for the block as a whole.
        rotary_dim: leading dimensions of a head that are rotated; None for all.
        yarn: stretching of the rotary frequencies, or None.
        query_scaling: of late positions, or None.
        experts: of a mixture of experts, or None.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int
    tie_embeddings: bool
    qk_norm: bool
    qkv_bias: bool
    attention: Attention
    shift_logits: bool
    block_length: int
    mask_token_ids: tuple[int, ...]
    eos_token_ids: tuple[int, ...]
    sub_block_length: int | None = None
    rotary_dim: int | None = None
    yarn: Yarn | None = None
    query_scaling: QueryScaling | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, naming the field, for a shape that no model has."""
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_layers",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "max_positions",
            "block_length",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads ({self.num_kv_heads}) must divide num_heads ({self.num_heads})")
        if self.rotated % 2 or not 0 < self.rotated <= self.head_dim:
            raise ValueError(f"the rotary embedding needs an even part of head_dim, not {self.rotated}")
        if not self.mask_token_ids:
            raise ValueError("mask_token_ids must name at least one id")
        if len(self.mask_token_ids) > 1 and self.block_length > len(self.mask_token_ids):
            raise ValueError(
                f"block_length ({self.block_length}) exceeds the {len(self.mask_token_ids)} masks the model knows"
            )
        for eos in self.eos_token_ids:
            if not 0 <= eos < self.vocab_size:
                raise ValueError(f"eos_token_ids: {eos} is outside the vocabulary of {self.vocab_size}")
        if min(self.mask_token_ids) < 0:
            raise ValueError(f"mask_token_ids: {min(self.mask_token_ids)} is no token")

    @property
    def text_gives_next(self) -> bool:
        """The last row of clean text predicts the token behind it: no mask at that token's place is asked."""
        return self.shift_logits or self.attention is Attention.CAUSAL

    @property
    def rotated(self) -> int:
        """Dimensions of a head that are rotated."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has routed experts."""
        return self.experts is not None and layer >= self.experts.first_layer

    def feed_forward_size(self, layer: int) -> int:
        """Width inside a layer's gated feed-forward: of the shared expert where there are routed ones."""
        if self.experts is not None and self.has_experts(layer):
            return self.experts.shared_intermediate_size
        return self.intermediate_size

    @property
    def num_embeddings(self) -> int:
        """Rows of the input embedding: the vocabulary, and masks that exist only as input."""
        return max(self.vocab_size, max(self.mask_token_ids) + 1)

    def mask_block(self, length: int) -> list[int]:
        """The input ids of `length` masks from the start of a block.

        Raises:
            ValueError: `length` exceeds the offsets the checkpoint has a mask for.
        """
        if len(self.mask_token_ids) == 1:
            return list(self.mask_token_ids) * length
        if length > len(self.mask_token_ids):
            raise ValueError(f"a block of {length} masks exceeds the {len(self.mask_token_ids)} that the model knows")
        return list(self.mask_token_ids[:length])
