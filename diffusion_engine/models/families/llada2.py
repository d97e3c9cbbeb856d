"""LLaDA 2.0 and 2.1: a mixture of experts with fused projections and partly rotated heads, block-causal."""

from __future__ import annotations

from diffusion_engine.models.config import Attention, Experts, ModelConfig
from diffusion_engine.models.family import Family, HfConfig, WeightNames, body, refuse


def _config(hf: HfConfig) -> ModelConfig:
    refuse(hf, use_bias=False, use_qk_norm=True, score_function="sigmoid", norm_topk_prob=True)
    fields = body(hf)
    experts = Experts(
        count=hf["num_experts"],
        per_token=hf["num_experts_per_tok"],
        groups=hf["n_group"],
        groups_per_token=hf["topk_group"],
        scaling=hf["routed_scaling_factor"],
        intermediate_size=hf["moe_intermediate_size"],
        shared_intermediate_size=hf["moe_intermediate_size"] * hf["num_shared_experts"],
        first_layer=hf["first_k_dense_replace"],
    )
    return ModelConfig(
        **fields,
        qk_norm=True,
        qkv_bias=hf.get("use_qkv_bias", False),
        attention=Attention.BLOCK_CAUSAL,
        shift_logits=False,
        block_length=hf.get("block_length") or 32,
        mask_token_ids=(hf["mask_token_id"],),
        rotary_dim=hf.get("rotary_dim") or int(fields["head_dim"] * hf.get("partial_rotary_factor", 1.0)),
        experts=experts,
    )


def _weights(config: ModelConfig) -> WeightNames:
    embedding = "model.word_embeddings.weight"
    names: WeightNames = {
        "embedding.weight": (embedding,),
        "norm.weight": ("model.norm.weight",),
        "head.weight": (embedding,) if config.tie_embeddings else ("lm_head.weight",),
    }
    for i in range(config.num_layers):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        for part in ("weight", "bias") if config.qkv_bias else ("weight",):
            names[ours + f"qkv.{part}"] = (f"{theirs}attention.query_key_value.{part}",)
        names[ours + "attention_norm.weight"] = (theirs + "input_layernorm.weight",)
        names[ours + "mlp_norm.weight"] = (theirs + "post_attention_layernorm.weight",)
        names[ours + "query_norm.weight"] = (theirs + "attention.query_layernorm.weight",)
        names[ours + "key_norm.weight"] = (theirs + "attention.key_layernorm.weight",)
        names[ours + "out.weight"] = (theirs + "attention.dense.weight",)
        if config.experts is None or not config.has_experts(i):
            names |= _gated(ours + "{}.weight", theirs + "mlp.")
            continue
        names |= _gated(ours + "{}.weight", theirs + "mlp.shared_experts.")
        names[ours + "experts.router"] = (theirs + "mlp.gate.weight",)
        names[ours + "experts.bias"] = (theirs + "mlp.gate.expert_bias",)
        for expert in range(config.experts.count):
            names |= _gated(f"{ours}experts.{{}}.{expert}.weight", f"{theirs}mlp.experts.{expert}.")
    return names


def _gated(ours: str, theirs: str) -> WeightNames:
    return {
        ours.format("gate_up"): (theirs + "gate_proj.weight", theirs + "up_proj.weight"),
        ours.format("down"): (theirs + "down_proj.weight",),
    }


LLADA2 = Family(
    name="LLaDA 2.0, LLaDA 2.1",
    config=_config,
    weights=_weights,
    default_strategy="dynamic",
    default_threshold=0.95,
    mask_token="<|mask|>",
    published_mask_id=156895,
)
