"""Block denoising against golden generations, and what it must never do.

The golden cases (tests/data/sdar-a) were computed by SDAR's rule on logits equal to the reference implementation's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from diffusion_engine.decoding import DecodingParameters, Sampling, Strategy, make_decoder, suppressed_tokens
from diffusion_engine.models import DenseAttention, load_model
from diffusion_engine.runtime.attention import visible
from tests.diffusion_engine.conftest import Loaded, run_one

GOLDEN = Path(__file__).parents[2] / "data" / "sdar-a"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "cases.json").read_text())


@pytest.fixture(scope="module")
def sdar() -> Loaded:
    return Loaded(GOLDEN, load_model(GOLDEN))


def parameters(case: dict[str, Any]) -> DecodingParameters:
    return DecodingParameters(
        strategy=Strategy(case["strategy"]),
        block_length=case["block_length"],
        threshold=0.9 if case["threshold"] is None else case["threshold"],
        denoising_steps=case["denoising_steps"],
    )


def cut(tokens: list[int], length: int, end_tokens: tuple[int, ...]) -> list[int]:
    """At the length and after the first end token."""
    tokens = tokens[:length]
    ends = [i for i, token in enumerate(tokens) if token in end_tokens]
    return tokens[: ends[0] + 1] if ends else tokens


@pytest.mark.parametrize("case", range(len(CASES)))
@torch.inference_mode()
def test_whole_blocks_without_a_cache_give_the_golden_tokens_and_forwards(sdar: Loaded, case: int) -> None:
    golden, config = CASES[case], sdar.config
    prompt, length = golden["prompt"], golden["block_length"]
    decoder = make_decoder(
        config, parameters(golden), prompt, max_length=config.max_positions, suppressed=suppressed_tokens(config)
    )
    border = -(-(len(prompt) + golden["gen_length"]) // length) * length
    calls, emitted = 0, []
    while True:
        step = decoder.plan(0, 10_000)
        done = len(step.tokens) - length  # the block being denoised begins here
        if done >= border or any(token in config.eos_token_ids for token in step.tokens[len(prompt) : done]):
            break
        hidden = sdar.model(torch.tensor(step.tokens), torch.arange(len(step.tokens)), DenseAttention(visible(step)))
        progress = decoder.observe(step, sdar.model.logits(hidden[list(step.wanted)]))
        calls += progress.denoising
        emitted += progress.emitted
    assert cut(emitted, golden["gen_length"], config.eos_token_ids) == golden["output_after_prompt"]
    assert calls == golden["denoising_calls"]


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_engine_gives_the_golden_tokens(sdar: Loaded, case: int, prefix_cache: bool) -> None:
    golden = CASES[case]
    scheduler = sdar.scheduler(prefix_cache=prefix_cache)
    request = sdar.request(golden["prompt"], max_tokens=golden["gen_length"])
    request = type(request)(**{**vars(request), "parameters": parameters(golden)})
    for _ in range(2):  # the second time from the prefix cache
        result = run_one(scheduler, request)
        ended = [token for token in golden["output_after_prompt"] if token not in sdar.config.eos_token_ids]
        assert result.tokens == ended
        assert result.end.statistics.denoising <= golden["denoising_calls"]


def test_a_literal_mask_token_in_the_prompt_is_text(block_causal: Loaded) -> None:
    mask = block_causal.config.mask_token_ids[0]
    prompt = [5, mask, 7, 8, 9, mask]  # one in a full block, one in the tail that shares a block with masks
    decoder = make_decoder(
        block_causal.config,
        DecodingParameters(strategy=Strategy.DYNAMIC, block_length=4),
        prompt,
        max_length=64,
        suppressed=suppressed_tokens(block_causal.config),
    )
    assert list(decoder.plan(0, 512).wanted) == [6, 7]
    assert mask not in run_one(block_causal.scheduler(), block_causal.request(prompt)).tokens


def test_mask_and_control_tokens_are_never_emitted_though_the_model_prefers_them(block_causal: Loaded) -> None:
    config = block_causal.config
    suppressed = suppressed_tokens(config, control=(3, 4))
    for temperature in (0.0, 1.5):
        decoder = make_decoder(
            config,
            DecodingParameters(strategy=Strategy.STATIC, block_length=4, sampling=Sampling(temperature=temperature)),
            [1, 2],
            max_length=64,
            suppressed=suppressed,
        )
        emitted = []
        for _ in range(4):
            step = decoder.plan(0, 512)
            logits = torch.zeros(len(step.wanted), config.vocab_size)
            logits[:, suppressed] = 50.0
            emitted += decoder.observe(step, logits).emitted
        assert len(emitted) >= 2
        assert not set(emitted) & set(suppressed.tolist())


def test_an_end_token_counts_only_when_all_before_it_is_clean(block_causal: Loaded) -> None:
    config = block_causal.config
    end = config.eos_token_ids[0]
    decoder = make_decoder(
        config,
        DecodingParameters(strategy=Strategy.STATIC, block_length=4),
        [1, 2, 3, 4],
        max_length=64,
        suppressed=suppressed_tokens(config),
    )
    emitted = []
    for likely in (7, 6, 5):  # position 7 is unmasked first, and holds an end token
        step = decoder.plan(4, 512)
        logits = torch.zeros(len(step.wanted), config.vocab_size)
        masked = [step.start + row for row in step.wanted]
        logits[masked.index(likely), end if likely == 7 else 20 + likely] = 9.0
        emitted.append(decoder.observe(step, logits).emitted)
    assert emitted == [[], [], []]
    step = decoder.plan(4, 512)
    logits = torch.zeros(1, config.vocab_size)
    logits[0, 11] = 9.0
    assert decoder.observe(step, logits).emitted == [11, 25, 26, end]


def test_the_last_block_is_cut_at_the_end_of_the_context(block_causal: Loaded) -> None:
    context = block_causal.config.max_positions
    prompt = [i % 200 for i in range(context - 7)]
    result = run_one(block_causal.scheduler(), block_causal.request(prompt, max_tokens=100, block_length=5))
    assert result.end.cause == "context"
    assert len(result.tokens) == 7
