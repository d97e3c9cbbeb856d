"""Dream and DiffuCoder: a Qwen2.5 body, fully bidirectional, logits shifted by one."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, body, llama_weights


def _config(hf: HfConfig) -> ModelConfig:
    fields = body(hf)
    return ModelConfig(
        **fields,
        qk_norm=False,
        qkv_bias=True,
        attention=Attention.BIDIRECTIONAL,
        shift_logits=True,
        # The reply is one block: nothing limits which position is committed next.
        block_length=fields["max_positions"],
        mask_token_ids=(hf["mask_token_id"],),
    )


DREAM = Family(
    name="Dream, DiffuCoder",
    config=_config,
    weights=llama_weights,
    default_strategy="entropy",
    default_max_tokens=128,
    mask_token="<|mask|>",
    published_mask_id=151666,
)
