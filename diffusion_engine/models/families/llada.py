"""LLaDA 8B and 1.5: an OLMo-style Llama body, fully bidirectional; a block limits commits, not attention."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, WeightNames, ids, refuse, rope


def _config(hf: HfConfig) -> ModelConfig:
    refuse(
        hf,
        activation_type="silu",
        block_type="llama",
        layer_norm_type="rms",
        alibi=False,
        rope=True,
        attention_layer_norm=False,
        include_bias=False,
        input_emb_norm=False,
        scale_logits=False,
    )
    return ModelConfig(
        family=hf["model_type"],
        # The embedding may be padded beyond the tokenizer's vocabulary; both projections have its size.
        vocab_size=hf.get("embedding_size") or hf["vocab_size"],
        hidden_size=hf["d_model"],
        intermediate_size=hf["mlp_hidden_size"],
        num_layers=hf["n_layers"],
        num_heads=hf["n_heads"],
        num_kv_heads=hf.get("n_kv_heads") or hf["n_heads"],
        head_dim=hf["d_model"] // hf["n_heads"],
        rms_norm_eps=hf["rms_norm_eps"],
        max_positions=hf["max_sequence_length"],
        tie_embeddings=hf.get("weight_tying", False),
        qk_norm=False,
        qkv_bias=hf.get("include_qkv_bias", False),
        attention=Attention.BIDIRECTIONAL,
        shift_logits=False,
        block_length=hf.get("block_length") or 32,
        mask_token_ids=(hf["mask_token_id"],),
        eos_token_ids=ids(hf.get("eos_token_id")),
        **rope(hf),
    )


def _weights(config: ModelConfig) -> WeightNames:
    body = "model.transformer."
    names: WeightNames = {
        "embedding.weight": (body + "wte.weight",),
        "norm.weight": (body + "ln_f.weight",),
        "head.weight": (body + ("wte.weight" if config.tie_embeddings else "ff_out.weight"),),
    }
    for i in range(config.num_layers):
        ours, theirs = f"layers.{i}.", f"{body}blocks.{i}."
        for part in ("weight", "bias") if config.qkv_bias else ("weight",):
            names[ours + f"qkv.{part}"] = tuple(f"{theirs}{p}_proj.{part}" for p in "qkv")
        names[ours + "attention_norm.weight"] = (theirs + "attn_norm.weight",)
        names[ours + "mlp_norm.weight"] = (theirs + "ff_norm.weight",)
        names[ours + "out.weight"] = (theirs + "attn_out.weight",)
        names[ours + "gate_up.weight"] = (theirs + "ff_proj.weight", theirs + "up_proj.weight")
        names[ours + "down.weight"] = (theirs + "ff_out.weight",)
    return names


LLADA = Family(
    name="LLaDA 8B, LLaDA 1.5",
    config=_config,
    weights=_weights,
    default_strategy="static",
    default_max_tokens=128,
    mask_token="<|mdm_mask|>",
    published_mask_id=126336,
)
