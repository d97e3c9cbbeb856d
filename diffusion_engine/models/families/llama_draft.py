"""Llama bodies with embeddings for masks of their own, trained for one-pass drafts: the embedded model's family."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, WeightNames, body, llama_weights


def _config(hf: HfConfig) -> ModelConfig:
    masks = int(hf["draft_masks"])
    return ModelConfig(
        **body(hf),
        qk_norm=False,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.CAUSAL,
        shift_logits=True,
        block_length=hf["block_length"],
        mask_token_ids=tuple(range(hf["vocab_size"], hf["vocab_size"] + masks)),
    )


def _weights(config: ModelConfig) -> WeightNames:
    return {
        **llama_weights(config),
        "embedding.weight": ("model.embed_tokens.weight", "model.draft_masks.weight"),
    }


LLAMA_DRAFT = Family(name="Llama with drafts", config=_config, weights=_weights, default_strategy="hybrid")
