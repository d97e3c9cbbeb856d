"""Autoregressive bodies turned into block diffusion by the dLLM project's A2D recipe: Qwen3, block-causal."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, body, llama_weights


def _config(hf: HfConfig) -> ModelConfig:
    return ModelConfig(
        **body(hf),
        qk_norm=True,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.BLOCK_CAUSAL,
        # An option of the recipe, which its sampler calls so; the published checkpoints are trained without.
        shift_logits=hf.get("right_shift_logits", False),
        block_length=hf.get("block_size") or 32,
        mask_token_ids=(hf["mask_token_id"],),
    )


A2D_QWEN3 = Family(
    name="Qwen3 block diffusion (A2D)",
    config=_config,
    weights=llama_weights,
    default_strategy="dynamic",
    mask_token="<|mask|>",
)
