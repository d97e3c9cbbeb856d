"""Fast-dLLM v2: a Qwen2.5 body, block-causal, logits shifted by one, blocks denoised in sub-blocks."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, body, llama_weights


def _config(hf: HfConfig) -> ModelConfig:
    block_length = hf.get("bd_size") or 32
    return ModelConfig(
        **body(hf),
        qk_norm=False,
        qkv_bias=True,
        # `eval_block_diff_mask` of its model code: block-causal over prompt and reply alike.
        attention=Attention.BLOCK_CAUSAL,
        shift_logits=True,
        block_length=block_length,
        sub_block_length=min(8, block_length),
        mask_token_ids=(hf["mask_token_id"],),
    )


FAST_DLLM_V2 = Family(
    name="Fast-dLLM v2",
    config=_config,
    weights=llama_weights,
    default_strategy="dynamic",
    mask_token="|<MASK>|",
    published_mask_id=151665,
)
