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
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for the rotary embedding, not {self.head_dim}")
        if not self.mask_token_ids:
            raise ValueError("mask_token_ids must name at least one id")
        if len(self.mask_token_ids) > 1 and self.block_length > len(self.mask_token_ids):
            raise ValueError(
                f"block_length ({self.block_length}) exceeds the {len(self.mask_token_ids)} masks the model knows"
            )
        for eos in self.eos_token_ids:
            if not 0 <= eos < self.vocab_size:
                raise ValueError(f"eos_token_ids: {eos} is outside the vocabulary of {self.vocab_size}")

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
