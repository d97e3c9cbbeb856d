"""SDAR: a Qwen3 body, block-causal."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, body, llama_weights


def _config(hf: HfConfig) -> ModelConfig:
    return ModelConfig(
        **body(hf),
        qk_norm=True,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.BLOCK_CAUSAL,
        shift_logits=False,
        block_length=hf.get("block_size") or hf.get("block_length") or 4,
        mask_token_ids=(hf["mask_token_id"],),
    )


SDAR = Family(
    name="SDAR",
    config=_config,
    weights=llama_weights,
    default_strategy="dynamic",
    mask_token="<|MASK|>",
    published_mask_id=151669,
)
