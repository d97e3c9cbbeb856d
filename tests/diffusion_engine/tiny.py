"""Tiny checkpoints with random weights, in the layouts that users have on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from diffusion_engine.models import ModelConfig, Transformer, read_config
from diffusion_engine.models.family import Family, rows_of_parts
from diffusion_engine.models.registry import FAMILIES

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 258
"""Id of `<|im_end|>`."""
VOCAB = 264


def byte_tokenizer(mask_token: str | None = None) -> Tokenizer:
    """One token a byte (256), then the special tokens, then the mask if the tokenizer is to name it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: id for id, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [*SPECIAL, mask_token] if mask_token else SPECIAL
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    return tokenizer


def number_tokenizer(vocab: int) -> Tokenizer:
    """One word a token, "0," "1," ..., so that the tokens of a reply can be read off its text."""
    tokenizer = Tokenizer(models.WordLevel(vocab={f"{id},": id for id in range(vocab)}, unk_token="0,"))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def tiny_config(family: str, vocab: int = VOCAB) -> dict[str, Any]:
    """A `config.json` as the family's published checkpoints have it, but small."""
    if family == "llada":
        return {
            "model_type": family,
            "vocab_size": vocab,
            "embedding_size": vocab,
            "d_model": 32,
            "mlp_hidden_size": 64,
            "n_layers": 2,
            "n_heads": 4,
            "n_kv_heads": 4,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "max_sequence_length": 512,
            "weight_tying": False,
            "mask_token_id": vocab - 1,
            "eos_token_id": END,
        }
    llama_like = {
        "model_type": family,
        "vocab_size": vocab,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "eos_token_id": END,
    }
    return llama_like | OWN_FIELDS[family](vocab)


OWN_FIELDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sdar": lambda vocab: {"block_size": 4, "mask_token_id": vocab - 1},
    "llama_draft": lambda vocab: {"block_length": 4, "draft_masks": 8},
    "Dream": lambda vocab: {"mask_token_id": vocab - 1},
    # The next two leave the mask's id to the tokenizer.
    "Fast_dLLM_Qwen": lambda vocab: {"bd_size": 8, "tie_word_embeddings": True},
    "a2d-qwen3": lambda vocab: {"block_size": 8},
    "nemotron_labs_diffusion": lambda vocab: {
        "block_size": 4,
        "mask_token_id": 100,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
    },
    "llada2_moe": lambda vocab: {
        "block_length": 8,
        "mask_token_id": vocab - 1,
        "partial_rotary_factor": 0.5,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "n_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 2.5,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    },
}


def random_state(config: ModelConfig, family: Family, *, seed: int, scale: float) -> dict[str, torch.Tensor]:
    """Random tensors under the family's names; norms are the identity."""
    generator = torch.Generator().manual_seed(seed)

    def random(shape: torch.Size, gain: float) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * gain / shape[-1] ** 0.5

    gains = {"embedding.weight": config.hidden_size**0.5, "head.weight": scale}
    with torch.device("meta"):
        shapes = {name: parameter.shape for name, parameter in Transformer(config).named_parameters()}
    state: dict[str, torch.Tensor] = {}
    for ours, theirs in family.weights(config).items():
        is_norm = ours.endswith("norm.weight")
        joined = (
            torch.ones(shapes[ours]) if is_norm else random(shapes[ours], gains.get(ours, 2.0 * ("qkv" in ours) or 1.0))
        )
        parts = joined.split(rows_of_parts(config, ours, len(joined), len(theirs)))
        for name, part in zip(theirs, parts, strict=True):
            state.setdefault(name, part.contiguous().clone())
    return state


def write_checkpoint(folder: Path, family: str, *, seed: int = 0, scale: float = 1.0, **changes: Any) -> Path:
    """A random checkpoint.

    Args:
        folder: is made.
        family: a key of the registry.
        seed: of the weights.
        scale: of the output projection: larger makes the model surer of itself.
        changes: to `config.json`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(tiny_config(family) | changes))
    byte_tokenizer(FAMILIES[family].mask_token).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE})
    )
    config, entry = read_config(folder)
    save_file(random_state(config, entry, seed=seed, scale=scale), folder / "model.safetensors")
    return folder
