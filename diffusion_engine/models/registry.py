"""The families the engine knows: how each one's `config.json` and tensor names read in our terms.

A new family is one entry here and golden vectors in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from diffusion_engine.models.config import Attention, ModelConfig

HfConfig = Mapping[str, Any]
WeightNames = dict[str, tuple[str, ...]]
"""Our parameter's name -> the checkpoint's tensors, joined along their first dimension."""


@dataclass(frozen=True)
class Family:
    """One entry of the registry.

    Attributes:
        config: reads a checkpoint's `config.json`. Raises KeyError for a field that must be there.
        weights: names the tensors of a checkpoint with that configuration.
        default_strategy: the decoding that loses nothing with this family's training.
    """

    config: Callable[[HfConfig], ModelConfig]
    weights: Callable[[ModelConfig], WeightNames]
    default_strategy: str


def _ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _rope_theta(hf: HfConfig) -> float:
    if "rope_theta" in hf:
        return float(hf["rope_theta"])
    return float(hf["rope_parameters"]["rope_theta"])


def _body(hf: HfConfig) -> dict[str, Any]:
    """The fields that Llama-like bodies spell alike."""
    scaling = hf.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type", "default")) != "default":
        raise ValueError(f"rope_scaling {scaling} is not supported")
    return {
        "family": hf["model_type"],
        "vocab_size": hf["vocab_size"],
        "hidden_size": hf["hidden_size"],
        "intermediate_size": hf["intermediate_size"],
        "num_layers": hf["num_hidden_layers"],
        "num_heads": hf["num_attention_heads"],
        "num_kv_heads": hf["num_key_value_heads"],
        "head_dim": hf.get("head_dim") or hf["hidden_size"] // hf["num_attention_heads"],
        "rms_norm_eps": hf["rms_norm_eps"],
        "rope_theta": _rope_theta(hf),
        "max_positions": hf["max_position_embeddings"],
        "tie_embeddings": hf.get("tie_word_embeddings", False),
        "eos_token_ids": _ids(hf.get("eos_token_id")),
    }


def _sdar(hf: HfConfig) -> ModelConfig:
    return ModelConfig(
        **_body(hf),
        qk_norm=True,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.BLOCK_CAUSAL,
        shift_logits=False,
        block_length=hf.get("block_size") or hf.get("block_length") or 4,
        mask_token_ids=(hf["mask_token_id"],),
    )


def _llama_draft(hf: HfConfig) -> ModelConfig:
    masks = int(hf["draft_masks"])
    return ModelConfig(
        **_body(hf),
        qk_norm=False,
        qkv_bias=hf.get("attention_bias", False),
        attention=Attention.CAUSAL,
        shift_logits=True,
        block_length=hf["block_length"],
        mask_token_ids=tuple(range(hf["vocab_size"], hf["vocab_size"] + masks)),
    )


def _qwen_like_weights(config: ModelConfig) -> WeightNames:
    names: WeightNames = {"norm.weight": ("model.norm.weight",)}
    embedding = "model.embed_tokens.weight"
    extra = config.num_embeddings > config.vocab_size
    names["embedding.weight"] = (embedding, "model.draft_masks.weight") if extra else (embedding,)
    names["head.weight"] = (embedding,) if config.tie_embeddings else ("lm_head.weight",)
    for i in range(config.num_layers):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        names[ours + "attention_norm.weight"] = (theirs + "input_layernorm.weight",)
        names[ours + "mlp_norm.weight"] = (theirs + "post_attention_layernorm.weight",)
        for part in ("weight", "bias") if config.qkv_bias else ("weight",):
            names[ours + f"qkv.{part}"] = tuple(f"{theirs}self_attn.{p}_proj.{part}" for p in "qkv")
        if config.qk_norm:
            names[ours + "query_norm.weight"] = (theirs + "self_attn.q_norm.weight",)
            names[ours + "key_norm.weight"] = (theirs + "self_attn.k_norm.weight",)
        names[ours + "out.weight"] = (theirs + "self_attn.o_proj.weight",)
        names[ours + "gate_up.weight"] = (theirs + "mlp.gate_proj.weight", theirs + "mlp.up_proj.weight")
        names[ours + "down.weight"] = (theirs + "mlp.down_proj.weight",)
    return names


FAMILIES: dict[str, Family] = {
    "sdar": Family(config=_sdar, weights=_qwen_like_weights, default_strategy="dynamic"),
    "llama_draft": Family(config=_llama_draft, weights=_qwen_like_weights, default_strategy="hybrid"),
}
