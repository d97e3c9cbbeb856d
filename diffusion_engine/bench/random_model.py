"""A model of 20 million random weights over HTTP: where the model costs little, what the engine costs shows."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from diffusion_engine.bench.client import Reply, stream
from diffusion_engine.bench.figures import milliseconds
from diffusion_engine.bench.server_process import serving
from diffusion_engine.models import Transformer, read_config
from diffusion_engine.models.family import rows_of_parts
from diffusion_engine.server.served_model import Dtype

VOCAB = 8192
PROMPT_TOKENS = 64
SHAPE = {
    "model_type": "llama_draft",
    "vocab_size": VOCAB,
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 11,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "draft_masks": 16,
    "block_length": 8,
    "eos_token_id": VOCAB - 1,
}


def write_random_model(folder: Path, *, seed: int = 0, **changes: Any) -> int:
    """Write a checkpoint of the embedded model's architecture with random weights; returns how many.

    Args:
        folder: is made.
        seed: of the weights.
        changes: to `SHAPE`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SHAPE | changes))
    config, family = read_config(folder)
    _tokenizer(config.vocab_size).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text("{}")
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {name: parameter.shape for name, parameter in Transformer(config).named_parameters()}
    tensors: dict[str, torch.Tensor] = {}
    for ours, theirs in family.weights(config).items():
        if theirs[0] in tensors:
            continue  # the embedding is the output projection as well
        shape = shapes[ours]
        values = torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator) / shape[-1] ** 0.5
        parts = values.split(rows_of_parts(config, ours, len(values), len(theirs)))
        tensors |= {name: part.contiguous().clone() for name, part in zip(theirs, parts, strict=True)}
    save_file(tensors, folder / "model.safetensors")
    return sum(tensor.numel() for tensor in tensors.values())


def measure_floor(*, dtype: Dtype, repeats: int, device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
    """First token over HTTP, from a process of its own, for prompts of 64 tokens that nothing has cached.

    Args:
        dtype: of the weights.
        repeats: requests, one after the other.
        device: as of `diffusion-engine serve`.
        threads: of the server; None for its default.
    """
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_random_model(Path(folder) / "random-20m")
        with serving(Path(folder) / "random-20m", dtype=dtype, device=device, threads=threads) as url:
            replies = asyncio.run(_ask(url, repeats))
    return {
        "parameters": parameters,
        "dtype": dtype,
        "prompt_tokens": PROMPT_TOKENS,
        "vocabulary": VOCAB,
        "prefix": "not cached",
        "first_token_ms": milliseconds(reply.first_token_s for reply in replies),
        "engine_first_token_ms": milliseconds(reply.phase_s("first_token") for reply in replies),
        "reply_ms": milliseconds(reply.reply_s for reply in replies),
        "errors": sum(reply.error is not None for reply in replies),
    }


async def _ask(url: str, repeats: int) -> list[Reply]:
    rng = random.Random(0)
    replies = []
    async with httpx.AsyncClient(timeout=60.0) as client:
        for number in range(repeats + 3):
            prompt = [rng.randrange(256, VOCAB - 1) for _ in range(PROMPT_TOKENS)]
            body = {"prompt": prompt, "max_tokens": 16, "temperature": 0}
            reply = await stream(client, f"{url}/v1/completions", body, time.perf_counter())
            if number >= 3:  # the first ones open the connection and touch what is cold
                replies.append(reply)
    return replies


def _tokenizer(vocab: int) -> Tokenizer:
    """Bytes, then made-up words to fill the vocabulary, then an end token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"w{number}" for number in range(vocab - len(alphabet) - 1)]
    entries = {token: id for id, token in enumerate([*alphabet, *words])}
    tokenizer = Tokenizer(models.BPE(vocab=entries, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    return tokenizer
