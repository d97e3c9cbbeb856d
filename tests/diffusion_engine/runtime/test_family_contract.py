"""What must hold of a reply, whatever family and strategy it came from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from diffusion_engine.decoding import Strategy, make_decoder, suppressed_tokens
from diffusion_engine.models import Attention, DenseAttention, ModelConfig, Transformer
from diffusion_engine.runtime import TorchRunner
from diffusion_engine.runtime.attention import Segment
from diffusion_engine.runtime.reader import RowReader
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, run_one


class BiasedRunner(TorchRunner):
    """Adds a constant to some tokens' logits."""

    def __init__(self, model: Transformer, tokens: Tensor, bias: float) -> None:
        super().__init__(model, 64)
        self._tokens, self._bias = tokens, bias

    def run(self, segments: list[Segment]) -> list[Tensor]:
        logits = super().run(segments)
        for own in logits:
            own[:, self._tokens] += self._bias
        return logits


def biased(model: Loaded, tokens: Tensor, bias: float = 50.0, **limits: object):  # type: ignore[no-untyped-def]
    """A scheduler whose model wants to say some tokens above all."""
    scheduler = model.scheduler(**limits)
    scheduler._runner = scheduler.cache._runner = BiasedRunner(model.model, tokens, bias)
    return scheduler


def visible_without_cache(config: ModelConfig, rows: int) -> Tensor:
    """Who sees whom in clean text."""
    position = torch.arange(rows)
    if config.attention is Attention.BIDIRECTIONAL:
        return torch.ones(rows, rows, dtype=torch.bool)
    unit = 4 if config.attention is Attention.BLOCK_CAUSAL else 1
    return position // unit <= position.unsqueeze(1) // unit


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_no_mask_padding_or_control_token_leaves_though_the_model_prefers_them(
    loaded: dict[str, Loaded], family: str, temperature: float
) -> None:
    model = loaded[family]
    never = suppressed_tokens(model.config, control=(3, 4, model.config.vocab_size - 2))
    for strategy in model.strategies:
        scheduler = biased(model, never)
        scheduler._suppressed = never
        scheduler._reader = RowReader(never)
        result = run_one(scheduler, model.request([1, 2, 3], strategy, max_tokens=10, temperature=temperature))
        assert len(result.tokens) == 10 or result.end.cause == "stop"
        assert not set(result.tokens) & set(never.tolist())


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_literal_mask_token_in_the_prompt_is_text(loaded: dict[str, Loaded], family: str) -> None:
    """In a full block and in the tail that shares a block with masks; it is neither asked for nor written over."""
    model = loaded[family]
    mask = model.config.mask_token_ids[0]
    prompt = [5, mask, 7, 8, 9, mask]
    for strategy in model.strategies:
        request = model.request(prompt, strategy, max_tokens=12)
        decoder = make_decoder(
            model.config, request.parameters, prompt, max_length=18, suppressed=suppressed_tokens(model.config)
        )
        step = decoder.plan(0, 512)
        assert step.tokens[:6] == prompt
        first_predicted = step.start + next(iter(step.wanted)) + model.config.shift_logits
        assert first_predicted >= len(prompt) - (model.config.attention is Attention.CAUSAL)
        result = run_one(model.scheduler(), request)
        assert mask not in result.tokens
        assert len(result.tokens) == 12 or result.end.cause == "stop"


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_reply_ends_before_its_end_token_and_nothing_behind_it_is_kept_or_counted(
    loaded: dict[str, Loaded], family: str
) -> None:
    model = loaded[family]
    end = model.config.eos_token_ids[0]
    for strategy in model.strategies:
        scheduler = biased(model, torch.tensor([end]))
        result = run_one(scheduler, model.request([1, 2, 3], strategy, max_tokens=12))
        assert (result.tokens, result.end.cause) == ([], "stop")
        assert result.end.statistics.completion_tokens == 0
        text = [token for node in scheduler.cache.prefix._nodes() for token in node.tokens]
        assert text in ([], [1, 2, 3])


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_the_end_of_the_context_cuts_the_last_block(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    context = model.config.max_positions
    prompt = [i % 200 for i in range(context - 7)]
    for strategy in model.strategies[::3]:
        scheduler = biased(model, torch.tensor(model.config.eos_token_ids), bias=-50.0)
        result = run_one(scheduler, model.request(prompt, strategy, max_tokens=100, block_length=5))
        assert result.end.cause == "context"
        assert len(result.tokens) == 7
        assert scheduler.cache.pool.free + scheduler.cache.prefix.pages == 64


@pytest.mark.parametrize("family", ["Fast_dLLM_Qwen", "nemotron_labs_diffusion"])
@pytest.mark.parametrize("fold", [True, False])
@torch.inference_mode()
def test_the_first_token_of_a_block_is_read_off_the_row_before_it(
    loaded: dict[str, Loaded], family: str, fold: bool
) -> None:
    """Over every border of a reply, with the prompt in the cache and out of it, and with its pages given up inside."""
    model = loaded[family]
    config = model.config
    request = model.request([11, 12, 13, 14, 15, 16, 17, 18], Strategy.DYNAMIC, max_tokens=16, threshold=1.0)
    request = replace(request, parameters=replace(request.parameters, fold_commit=fold))
    scheduler = model.scheduler()
    for attempt in range(3):
        scheduler.submit(request)
        steps = 0
        while not scheduler.idle:
            scheduler.step()
            steps += 1
            for sequence in scheduler._running[: attempt == 2 and steps % 3 == 0]:
                scheduler._preempt(sequence)
        again = run_one(scheduler, request)
        text = request.prompt + again.tokens
        hidden = model.model(
            torch.tensor(text), torch.arange(len(text)), DenseAttention(visible_without_cache(config, len(text)))
        )
        logits = model.model.logits(hidden)
        logits[:, suppressed_tokens(config, model.tokenizer.control_token_ids)] = -torch.inf
        for border in range(len(request.prompt), len(text) - 3, 4):
            assert text[border] == int(logits[border - 1].argmax())


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_client_that_asks_for_one_token_gets_one(loaded: dict[str, Loaded], family: str) -> None:
    """Any `max_tokens` from 1 on is served, whatever the block length."""
    model = loaded[family]
    for strategy in model.strategies:
        for count in (1, 5):
            scheduler = biased(model, torch.tensor(model.config.eos_token_ids), bias=-50.0)
            result = run_one(scheduler, model.request([1, 2, 3], strategy, max_tokens=count))
            assert len(result.tokens) == result.end.statistics.completion_tokens == count


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_stream_grows_with_the_clean_prefix_and_is_never_taken_back(loaded: dict[str, Loaded], family: str) -> None:
    """Every token is said once it stands in the final text, in the step that made it final."""
    model = loaded[family]
    for strategy in model.strategies:
        scheduler = model.scheduler()
        request = model.request([1, 2, 3, 4, 5], strategy, max_tokens=12, block_length=4)
        scheduler.submit(request)
        sequence, said = scheduler._waiting[0], ""
        while not scheduler.idle:
            said += "".join(getattr(event, "text", "") for _, event in scheduler.step())
            final = sequence.decoder.text[len(request.prompt) :][: request.max_tokens]
            ends = [i for i, token in enumerate(final) if token in model.config.eos_token_ids]
            assert said == "".join(f"{token}," for token in final[: ends[0] if ends else None])


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_the_first_token_comes_within_the_steps_of_the_first_block(loaded: dict[str, Loaded], family: str) -> None:
    """Two more where a strategy reads back what it has written; Dream's schedule may begin with an idle step."""
    model = loaded[family]
    for strategy in model.strategies:
        scheduler = biased(model, torch.tensor(model.config.eos_token_ids), bias=-50.0)
        scheduler.submit(model.request(list(range(40)), strategy, max_tokens=64, block_length=8))
        steps = 0
        while not scheduler.step():
            steps += 1
        assert steps < 8 + 2
