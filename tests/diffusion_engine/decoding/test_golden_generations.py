"""Greedy generations against the golden cases: tokens, schedules and forward calls."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from diffusion_engine.decoding import CanvasCache, Strategy, make_decoder, suppressed_tokens
from diffusion_engine.models import DenseAttention, load_model
from diffusion_engine.runtime import TextEvent
from diffusion_engine.runtime.attention import Segment, visible
from tests.diffusion_engine.conftest import Loaded, observe, run_all, run_one
from tests.diffusion_engine.golden import DATA, FOLDERS, Case, cases, until_end

BLOCK_CAUSAL = tuple(cases("sdar-a", "llada2-a", "a2d-qwen3-a"))
LED_BY_TEXT = tuple(cases("fast-dllm-v2-a", "nemotron-a"))
"""Families whose last row of clean text gives the token behind it."""
BIDIRECTIONAL = tuple(cases("llada-a", "dream-a"))
ALL = (*BLOCK_CAUSAL, *LED_BY_TEXT, *BIDIRECTIONAL)


@pytest.fixture(scope="module")
def golden() -> dict[str, Loaded]:
    return {folder: Loaded(DATA / folder, load_model(DATA / folder)) for folder in FOLDERS}


def named(all_cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", all_cases, ids=[case.name for case in all_cases])


@named(BLOCK_CAUSAL)
@torch.inference_mode()
def test_whole_blocks_without_a_cache_give_the_golden_tokens_and_forwards(
    golden: dict[str, Loaded], case: Case
) -> None:
    model = golden[case.folder]
    config, length = model.config, case.parameters.block_length
    decoder = make_decoder(
        config, case.parameters, case.prompt, max_length=config.max_positions, suppressed=suppressed_tokens(config)
    )
    border = -(-(len(case.prompt) + case.length) // length) * length
    calls, emitted = 0, []
    while True:
        step = decoder.plan(0, 10_000)
        done = len(step.tokens) - length  # the block being denoised begins here
        if done >= border or any(token in config.eos_token_ids for token in step.tokens[len(case.prompt) : done]):
            break
        hidden = model.model(torch.tensor(step.tokens), torch.arange(len(step.tokens)), DenseAttention(visible(step)))
        progress = observe(decoder, step, model.model.logits(hidden[list(step.wanted)]), config)
        calls += progress.denoising
        emitted += progress.emitted
    assert until_end(emitted[: case.length], config.eos_token_ids, with_end=True) == case.reply
    assert calls == case.calls


@named(BIDIRECTIONAL)
@torch.inference_mode()
def test_a_whole_canvas_gives_the_golden_tokens_and_forwards(golden: dict[str, Loaded], case: Case) -> None:
    """Beyond an end token as well: the references fill the canvas."""
    model = golden[case.folder]
    scheduler = model.scheduler()
    decoder = make_decoder(
        model.config,
        case.parameters,
        case.prompt,
        max_length=len(case.prompt) + case.length,
        suppressed=suppressed_tokens(model.config),
    )
    pages, cached, emitted = list(range(20)), 0, []
    for _ in range(case.calls):
        step = decoder.plan(cached, 10_000)
        (logits,) = scheduler._runner.run([Segment(step, pages)])
        progress = observe(decoder, step, logits, model.config)
        cached = step.start + progress.kept
        emitted += progress.emitted
    assert emitted == case.reply


@named(ALL)
def test_the_engine_gives_the_golden_tokens(golden: dict[str, Loaded], case: Case) -> None:
    model = golden[case.folder]
    scheduler = model.scheduler()
    request = replace(model.request(case.prompt, max_tokens=case.length), parameters=case.parameters)
    for _ in range(2):  # the second time from the prefix cache
        result = run_one(scheduler, request)
        assert result.tokens == until_end(case.reply, model.config.eos_token_ids, with_end=False)
        assert result.end.statistics.denoising <= case.calls


@named(tuple(case for case in LED_BY_TEXT if case.parameters.strategy is not Strategy.HYBRID))
def test_the_engine_takes_the_references_steps_and_no_pass_more(golden: dict[str, Loaded], case: Case) -> None:
    """The reference stops as soon as an end token is final, as the engine does."""
    model = golden[case.folder]
    request = replace(model.request(case.prompt, max_tokens=case.length), parameters=case.parameters)
    statistics = run_one(model.scheduler(), request).end.statistics
    assert statistics.denoising == case.raw.get("denoising_calls", 0)
    assert statistics.forwards <= case.raw["forward_calls"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_golden_cases_at_once_give_the_golden_tokens(golden: dict[str, Loaded], folder: str) -> None:
    """Eight at a time, of different lengths and strategies, and too few pages for all: some start over."""
    model = golden[folder]
    scheduler = model.scheduler(pages=34, max_requests=8)
    requests = [
        replace(model.request(case.prompt, id=case.name, max_tokens=case.length), parameters=case.parameters)
        for case in cases(folder)
    ]
    for case, result in zip(cases(folder), run_all(scheduler, requests), strict=True):
        assert result.tokens == until_end(case.reply, model.config.eos_token_ids, with_end=False)
    assert scheduler.cache.pool.free + scheduler.cache.prefix.pages == 34


@named(tuple(case for case in BIDIRECTIONAL if case.parameters.canvas_cache is not CanvasCache.NONE)[::6])
def test_pages_given_up_inside_a_block_are_computed_again_as_they_were(golden: dict[str, Loaded], case: Case) -> None:
    model = golden[case.folder]
    scheduler = model.scheduler()
    request = replace(model.request(case.prompt, max_tokens=case.length), parameters=case.parameters)
    scheduler.submit(request)
    text, steps = "", 0
    while not scheduler.idle:
        text += "".join(event.text for _, event in scheduler.step() if isinstance(event, TextEvent))
        steps += 1
        for sequence in scheduler._running[: steps % 3 == 0]:
            scheduler._preempt(sequence)
    assert scheduler.statistics.preempted >= 3
    tokens = [int(word) for word in text.split(",") if word]
    assert tokens == until_end(case.reply, model.config.eos_token_ids, with_end=False)
