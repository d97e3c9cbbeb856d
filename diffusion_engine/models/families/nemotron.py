"""Nemotron-Labs-Diffusion: a Ministral 3 body, causal over clean text, whose masks see their whole block."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig, QueryScaling
from diffusion_engine.models.family import Family, HfConfig, WeightNames, body, llama_weights, refuse


def _config(hf: HfConfig) -> ModelConfig:
    refuse(hf, sliding_window=None)
    rope = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
    beta = rope.get("llama_4_scaling_beta")
    return ModelConfig(
        **body(hf),
        qk_norm=False,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.CAUSAL,
        shift_logits=False,
        block_length=hf.get("block_size") or 32,
        mask_token_ids=(hf["mask_token_id"],),
        query_scaling=QueryScaling(beta=beta, original_positions=rope["original_max_position_embeddings"])
        if beta
        else None,
    )


def _weights(config: ModelConfig) -> WeightNames:
    return llama_weights(config, body="encoder.", head="diffusion_head.weight")


NEMOTRON = Family(
    name="Nemotron-Labs-Diffusion",
    config=_config,
    weights=_weights,
    default_strategy="hybrid",
    published_mask_id=100,
)
