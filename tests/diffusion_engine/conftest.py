"""Loaded tiny models, and a scheduler run to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from diffusion_engine.chat.grammar import GrammarCompiler
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import (
    Decoder,
    DecodingParameters,
    Pass,
    Progress,
    Sampling,
    Strategy,
    strategies_of,
    suppressed_tokens,
)
from diffusion_engine.models import ModelConfig, Transformer, load_model, registry
from diffusion_engine.runtime import EndEvent, GenerationRequest, Limits, Scheduler, TextEvent, TorchRunner
from diffusion_engine.runtime.reader import RowReader
from tests.diffusion_engine.tiny import number_tokenizer, write_checkpoint

torch.set_num_threads(1)
T = TypeVar("T")
FAMILIES = ("llama_draft", "sdar")
"""One that verifies causally and one that denoises blocks, for what does not depend on the family beyond that."""
EVERY_FAMILY = tuple(registry.FAMILIES)


@dataclass(frozen=True)
class Result:
    text: str
    end: EndEvent

    @property
    def tokens(self) -> list[int]:
        return [int(word) for word in self.text.split(",") if word]


@dataclass
class Loaded:
    """A tiny model whose text spells its tokens (see `number_tokenizer`)."""

    folder: Path
    model: Transformer
    tokenizer: Tokenizer = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer = Tokenizer(number_tokenizer(self.config.vocab_size), self.config)

    @property
    def config(self) -> ModelConfig:
        return self.model.config

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        return strategies_of(self.config)

    def scheduler(self, *, pages: int = 64, **limits: object) -> Scheduler:
        return Scheduler(TorchRunner(self.model, pages), pages, self.tokenizer, Limits(**limits))  # type: ignore[arg-type]

    def request(
        self,
        prompt: list[int],
        strategy: Strategy | None = None,
        *,
        id: str = "r",
        max_tokens: int = 24,
        block_length: int = 4,
        temperature: float = 0.0,
        seed: int = 0,
        threshold: float = 0.05,
        **more: object,
    ) -> GenerationRequest:
        parameters = DecodingParameters(
            strategy=strategy or self.strategies[0],
            block_length=block_length,
            threshold=threshold,
            sampling=Sampling(temperature=temperature, seed=seed),
        )
        return GenerationRequest(id=id, prompt=prompt, parameters=parameters, max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def observe(decoder: Decoder, step: Pass, logits: torch.Tensor, config: ModelConfig) -> Progress:
    """Show a decoder a pass whose wanted rows have these logits."""
    (readings,) = RowReader(suppressed_tokens(config)).read([step], [logits])
    return decoder.observe(step, readings)


def run_all(scheduler: Scheduler, requests: list[GenerationRequest]) -> list[Result]:
    """Submit all at once, step until idle."""
    for request in requests:
        scheduler.submit(request)
    texts: dict[str, str] = {request.id: "" for request in requests}
    ends: dict[str, EndEvent] = {}
    while not scheduler.idle:
        for id, event in scheduler.step():
            if isinstance(event, TextEvent):
                assert id not in ends, "text after the end"
                texts[id] += event.text
            else:
                ends[id] = event
    return [Result(texts[request.id], ends[request.id]) for request in requests]


def run_one(scheduler: Scheduler, request: GenerationRequest) -> Result:
    return run_all(scheduler, [request])[0]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint with a byte tokenizer, by family."""
    root = tmp_path_factory.mktemp("checkpoints")
    return lambda family: write_checkpoint(root / family, family)


class Lazy(dict[str, T]):
    """Makes a value when it is first asked for."""

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> T:
        self[key] = self._make(key)
        return self[key]


@pytest.fixture(scope="session")
def loaded(checkpoint: Callable[[str], Path]) -> dict[str, Loaded]:
    """A tiny model of every family."""
    return Lazy(lambda family: Loaded(checkpoint(family), load_model(checkpoint(family))))


@pytest.fixture(scope="session")
def causal(loaded: dict[str, Loaded]) -> Loaded:
    return loaded["llama_draft"]


@pytest.fixture(scope="session")
def block_causal(loaded: dict[str, Loaded]) -> Loaded:
    return loaded["sdar"]


@pytest.fixture(scope="session")
def byte_tokenizers(loaded: dict[str, Loaded]) -> dict[str, Tokenizer]:
    """The checkpoints' own tokenizers, by family."""
    return Lazy(lambda family: Tokenizer.from_folder(loaded[family].folder, loaded[family].config))


@pytest.fixture(scope="session")
def grammars(loaded: dict[str, Loaded], byte_tokenizers: dict[str, Tokenizer]) -> dict[str, GrammarCompiler]:
    return Lazy(lambda family: GrammarCompiler(byte_tokenizers[family], loaded[family].config.vocab_size))
