"""The model behind the API: its engine, tokenizer, chat template and defaults."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from diffusion_engine.chat.grammar import GrammarCompiler
from diffusion_engine.chat.template import ChatTemplate
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import Strategy, strategies_of
from diffusion_engine.models import CheckpointError, ModelConfig, Transformer, load_model, read_config
from diffusion_engine.runtime import Engine, Limits, Runner, RunnerKind, Scheduler, make_runner
from diffusion_engine.runtime.pages import PAGE_TOKENS

logger = logging.getLogger(__name__)

Dtype = Literal["fp32", "bf16", "int8"]
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
    dtype: Dtype,
    limits: Limits,
    kv_tokens: int | None = None,
    runner: RunnerKind = "auto",
    threads: int | None = None,
    make_scheduler: SchedulerFactory = Scheduler,
) -> ServedModel:
    """Load a checkpoint and wrap it into an engine, not started yet.

    Args:
        folder: in the Hugging Face layout.
        name: for clients; the folder's name when None.
        dtype: of the weights; int8 quantizes the linear layers and keeps activations in float32.
        limits: of the engine.
        kv_tokens: size of the KV pool in tokens; by default one whole context, at least 8,192 tokens.
        runner: see `make_runner`.
        threads: of ONNX Runtime.
        make_scheduler: for those who watch it, as the benchmark does.

    Raises:
        CheckpointError: it can't be used; the message names the file and the field.
        ValueError: the pool is smaller than the context, or the runner can't run the model.
    """
    config, family = read_config(folder)
    tokenizer = Tokenizer.from_folder(folder, config)
    template = ChatTemplate.from_folder(folder)
    defaults = _generation_config(folder)
    model = _load(folder, dtype)
    tokens = kv_tokens or max(config.max_positions, 8192)
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


def _load(folder: Path, dtype: Dtype) -> Transformer:
    if dtype == "bf16":
        return load_model(folder, dtype=torch.bfloat16)
    model = load_model(folder)
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
