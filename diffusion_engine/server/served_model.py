"""The model behind the API: its engine, tokenizer, chat template and defaults."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from diffusion_engine.chat.grammar import GrammarCompiler
from diffusion_engine.chat.template import ChatTemplate
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import NonFiniteLogitsError, Strategy, strategies_of
from diffusion_engine.models import CheckpointError, ModelConfig, Transformer, load_model, read_config
from diffusion_engine.models.loading import DTYPES
from diffusion_engine.runtime import Engine, Limits, Runner, RunnerKind, Scheduler, find_device, make_runner
from diffusion_engine.runtime.pages import PAGE_TOKENS

logger = logging.getLogger(__name__)

Dtype = Literal["fp32", "bf16", "fp16", "int8"]
POOL_SHARE = 0.8
"""Of a GPU's free memory that the KV pool takes at most; activations and graphs need the rest."""
SchedulerFactory = Callable[[Runner, int, Tokenizer, Limits], Scheduler]


@dataclass(frozen=True)
class ServedModel:
    """See the module.

    Attributes:
        name: as clients call it.
        created: modification time of the checkpoint, in seconds since 1970.
        config: of the model.
        engine: started by the server.
        tokenizer: of the checkpoint.
        template: None when the checkpoint has no chat template.
        grammars: compiles constraints.
        strategy: when a request names none.
        threshold: when a request names none; what loses nothing with the family.
        temperature: when a request names none: what `generation_config.json` says, else 0.
        max_tokens: when a request names none; None for what fits.
        completion_max_tokens: the same at /v1/completions, where OpenAI's default is 16; None for `max_tokens`.
    """

    name: str
    created: int
    config: ModelConfig
    engine: Engine
    tokenizer: Tokenizer
    template: ChatTemplate | None
    grammars: GrammarCompiler
    strategy: Strategy
    threshold: float
    temperature: float
    max_tokens: int | None
    completion_max_tokens: int | None = 16

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """That requests may name."""
        return strategies_of(self.config)


def load_served_model(
    folder: Path,
    *,
    name: str | None,
    limits: Limits,
    dtype: Dtype | None = None,
    device: str = "cpu",
    kv_tokens: int | None = None,
    runner: RunnerKind = "auto",
    threads: int | None = None,
    make_scheduler: SchedulerFactory = Scheduler,
) -> ServedModel:
    """Load a checkpoint and wrap it into an engine, not started yet.

    Args:
        folder: in the Hugging Face layout.
        name: for clients; the folder's name when None.
        limits: of the engine.
        dtype: of the weights; int8 quantizes the linear layers and keeps activations in float32. By default fp32 on
            the CPU and bf16 on a GPU.
        device: see `find_device`; where weights, keys and values are, and the model is computed.
        kv_tokens: size of the KV pool in tokens; see `default_kv_tokens`.
        runner: see `make_runner`.
        threads: of ONNX Runtime.
        make_scheduler: for those who watch it, as the benchmark does.

    Raises:
        CheckpointError: it can't be used; the message names the file and the field.
        ValueError: there is no such device, it has too little memory, the pool is smaller than the context, or the
            runner can't run the model, on this device or in this type.
    """
    on = find_device(device)
    dtype = dtype or ("bf16" if on.type == "cuda" else "fp32")
    if dtype == "int8" and on.type != "cpu":
        raise ValueError(f"int8 weights are for the CPU: choose bf16, fp16 or fp32 on {device}")
    config, family = read_config(folder)
    tokenizer = Tokenizer.from_folder(folder, config)
    template = ChatTemplate.from_folder(folder)
    defaults = _generation_config(folder)
    with _memory_of(on), _arithmetic(dtype, on):
        model = _load(folder, dtype, on)
        tokens = kv_tokens or default_kv_tokens(config, limits, _free_bytes(on), model.embedding.weight.element_size())
        pages = math.ceil(tokens / PAGE_TOKENS)
        scheduler = make_scheduler(make_runner(runner, model, pages, threads), pages, tokenizer, limits)
        scheduler.warm_up()
    sampled = defaults.get("do_sample", "temperature" in defaults)
    return ServedModel(
        name=name or folder.resolve().name,
        created=int((folder / "config.json").stat().st_mtime),
        config=config,
        engine=Engine(scheduler, limits),
        tokenizer=tokenizer,
        template=template,
        grammars=GrammarCompiler(tokenizer, config.vocab_size),
        strategy=Strategy(defaults.get("strategy", family.default_strategy)),
        threshold=family.default_threshold,
        temperature=float(defaults.get("temperature", 1.0)) if sampled else 0.0,
        max_tokens=defaults.get("max_new_tokens") or family.default_max_tokens,
    )


def default_kv_tokens(config: ModelConfig, limits: Limits, free_bytes: int | None, element_bytes: int) -> int:
    """Size of the KV pool, in tokens, where none is asked for.

    One whole context, at least 8,192 tokens. On a GPU, where memory is there to be used, a context for each request
    that runs at the same time and as many again for the prefix cache, as far as `POOL_SHARE` of what is free holds
    them.

    Args:
        config: of the model.
        limits: of the engine.
        free_bytes: on the GPU, with the weights loaded; None on the CPU.
        element_bytes: of one number in the pool.
    """
    least = max(config.max_positions, 8192)
    if free_bytes is None:
        return least
    token_bytes = 2 * config.num_layers * config.num_kv_heads * config.head_dim * element_bytes
    return max(config.max_positions, min(2 * limits.max_requests * least, int(free_bytes * POOL_SHARE) // token_bytes))


def _free_bytes(device: torch.device) -> int | None:
    return None if device.type == "cpu" else torch.cuda.mem_get_info(device)[0]


@contextmanager
def _memory_of(device: torch.device) -> Iterator[None]:
    """Say what to do where a GPU's memory doesn't hold the model and its pool."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as full:
        raise ValueError(
            f"{device} has too little free memory for the model and a KV pool of one context: free some, choose "
            "another device, a smaller --dtype, or fewer --kv-tokens where some were asked for"
        ) from full


@contextmanager
def _arithmetic(dtype: Dtype, device: torch.device) -> Iterator[None]:
    """Say what to do where the first passes show that a model can't be computed in a type."""
    try:
        yield
    except NonFiniteLogitsError as wrong:
        if dtype != "fp16":
            raise ValueError(f"the model can't be served: {wrong}") from wrong
        raise ValueError(
            "the model computes numbers beyond the 65,504 that fp16 holds: choose --dtype bf16 or fp32"
        ) from wrong
    except RuntimeError as missing:
        if "not implemented for" not in str(missing):  # torch's words for a kernel that a type lacks
            raise
        raise ValueError(
            f"torch {torch.__version__} can't compute this model in {dtype} on {device} ({missing}): choose fp32"
        ) from missing


def _load(folder: Path, dtype: Dtype, device: torch.device) -> Transformer:
    model = load_model(folder, dtype=DTYPES.get(dtype, torch.float32), device=str(device))
    if dtype == "int8":
        from diffusion_engine.models.quantize import quantize

        quantize(model)
    return model


def _generation_config(folder: Path) -> dict[str, Any]:
    path = folder / "generation_config.json"
    try:
        defaults = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as broken:
        raise CheckpointError(path, f"not readable as JSON ({broken})") from broken
    if not isinstance(defaults, dict):
        raise CheckpointError(path, "must hold a JSON object")
    return defaults
