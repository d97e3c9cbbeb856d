"""What a family is, and what most of them share: Llama-like configuration fields and tensor names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from diffusion_engine.models.config import ModelConfig, Yarn
from diffusion_engine.models.positions import yarn_attention_factor

HfConfig = Mapping[str, Any]
WeightNames = dict[str, tuple[str, ...]]
"""Our parameter's name -> the checkpoint's tensors, joined along their first dimension."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One entry of the registry.

    Attributes:
        name: for people; the registry's key is the checkpoint's `model_type`.
        config: reads a checkpoint's `config.json`. Raises KeyError for a field that must be there, ValueError for a
            value that the engine has no code for.
        weights: names the tensors of a checkpoint with that configuration.
        default_strategy: the decoding that loses nothing with this family's training.
        default_threshold: confidence above which `dynamic` loses nothing.
        default_max_tokens: of a reply where neither the request nor the checkpoint says; None for what fits.
            Bidirectional models need one: they run all of it in every step.
        mask_token: the tokenizer's name of the mask, for checkpoints whose `config.json` has no `mask_token_id`.
        published_mask_id: of the published checkpoints. One that has another is loaded, with a warning.
    """

    name: str
    config: Callable[[HfConfig], ModelConfig]
    weights: Callable[[ModelConfig], WeightNames]
    default_strategy: str
    default_threshold: float = 0.9
    default_max_tokens: int | None = None
    mask_token: str | None = None
    published_mask_id: int | None = None


def rows_of_parts(config: ModelConfig, ours: str, rows: int, parts: int) -> list[int]:
    """How many rows of a parameter each of the tensors has that are joined to it.

    Args:
        config: of the checkpoint.
        ours: the parameter.
        rows: that it has.
        parts: tensors that it is joined from: queries, keys and values; gate and up; text and masks.
    """
    if parts == 1:
        return [rows]
    if parts == 3:
        return [heads * config.head_dim for heads in (config.num_heads, config.num_kv_heads, config.num_kv_heads)]
    first = config.vocab_size if ours == "embedding.weight" else rows // 2
    return [first, rows - first]


def ids(value: int | list[int] | None) -> tuple[int, ...]:
    """The ids of a field that holds one, several or none."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def refuse(hf: HfConfig, **unsupported: object) -> None:
    """Raise ValueError where a checkpoint has a field set to something other than the one value that is supported."""
    for field, only in unsupported.items():
        if hf.get(field, only) != only:
            raise ValueError(f"{field} {hf[field]!r} is not supported, only {only!r}")


def rope(hf: HfConfig) -> dict[str, Any]:
    """Base and stretching of the rotary embedding, under the spellings of `transformers` 4 and 5."""
    parameters = {**(hf.get("rope_scaling") or {}), **(hf.get("rope_parameters") or {})}
    theta = hf.get("rope_theta") or parameters.get("rope_theta")
    if theta is None:
        raise KeyError("rope_theta")
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind == "default":
        return {"rope_theta": float(theta)}
    if kind != "yarn":
        raise ValueError(f"rope_type {kind!r} is not supported, only 'default' and 'yarn'")
    factor = float(parameters["factor"])
    attention_factor = parameters.get("attention_factor") or yarn_attention_factor(
        factor, parameters.get("mscale"), parameters.get("mscale_all_dim")
    )
    yarn = Yarn(
        factor=factor,
        original_positions=int(parameters["original_max_position_embeddings"]),
        beta_fast=float(parameters.get("beta_fast") or 32),
        beta_slow=float(parameters.get("beta_slow") or 1),
        attention_factor=float(attention_factor),
        truncate=bool(parameters.get("truncate", True)),
    )
    return {"rope_theta": float(theta), "yarn": yarn}


def body(hf: HfConfig) -> dict[str, Any]:
    """The fields that Llama-like bodies spell alike."""
    refuse(hf, hidden_act="silu", mlp_bias=False, use_sliding_window=False)
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
        "max_positions": hf["max_position_embeddings"],
        "tie_embeddings": hf.get("tie_word_embeddings", False),
        "eos_token_ids": ids(hf.get("eos_token_id")),
        **rope(hf),
    }


def llama_weights(config: ModelConfig, *, body: str = "model.", head: str = "lm_head.weight") -> WeightNames:
    """The tensor names of Llama, Qwen and Mistral bodies.

    Args:
        config: of the checkpoint.
        body: prefix of everything but the output projection.
        head: the output projection, where it is not the embedding.
    """
    embedding = body + "embed_tokens.weight"
    names: WeightNames = {
        "norm.weight": (body + "norm.weight",),
        "embedding.weight": (embedding,),
        "head.weight": (embedding,) if config.tie_embeddings else (head,),
    }
    for i in range(config.num_layers):
        ours, theirs = f"layers.{i}.", f"{body}layers.{i}."
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
