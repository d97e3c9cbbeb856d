"""Tiny checkpoints with random weights, in the layouts that users have on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 258
"""Id of `<|im_end|>`."""


def byte_tokenizer() -> Tokenizer:
    """One token a byte (256), then the special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: id for id, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return tokenizer


def number_tokenizer(vocab: int) -> Tokenizer:
    """One word a token, "0," "1," ..., so that the tokens of a reply can be read off its text."""
    tokenizer = Tokenizer(models.WordLevel(vocab={f"{id},": id for id in range(vocab)}, unk_token="0,"))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_checkpoint(folder: Path, family: str, *, seed: int = 0, scale: float = 1.0, **changes: Any) -> Path:
    """A random checkpoint.

    Args:
        folder: is made.
        family: "sdar" or "llama_draft".
        seed: of the weights.
        scale: of the output projection: larger makes the model surer of itself.
        changes: to `config.json`.
    """
    vocab = 264
    config: dict[str, Any] = {
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
    if family == "sdar":
        config |= {"block_size": 4, "mask_token_id": vocab - 1}
    else:
        config |= {"block_length": 4, "draft_masks": 8}
    config |= changes
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]

    def random(*shape: int, gain: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * gain / shape[-1] ** 0.5

    state = {
        "model.embed_tokens.weight": random(vocab, hidden, gain=hidden**0.5),
        "model.norm.weight": torch.ones(hidden),
        "lm_head.weight": random(vocab, hidden, gain=scale),
    }
    if family == "llama_draft":
        state["model.draft_masks.weight"] = random(config["draft_masks"], hidden, gain=hidden**0.5)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        state[layer + "input_layernorm.weight"] = torch.ones(hidden)
        state[layer + "post_attention_layernorm.weight"] = torch.ones(hidden)
        for name, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads"), ("v", "num_key_value_heads")):
            state[layer + f"self_attn.{name}_proj.weight"] = random(config[heads] * head, hidden, gain=2.0)
        state[layer + "self_attn.o_proj.weight"] = random(hidden, config["num_attention_heads"] * head)
        state[layer + "mlp.gate_proj.weight"] = random(inner, hidden)
        state[layer + "mlp.up_proj.weight"] = random(inner, hidden)
        state[layer + "mlp.down_proj.weight"] = random(hidden, inner)
        if family == "sdar":
            state[layer + "self_attn.q_norm.weight"] = torch.ones(head)
            state[layer + "self_attn.k_norm.weight"] = torch.ones(head)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE})
    )
    return folder
