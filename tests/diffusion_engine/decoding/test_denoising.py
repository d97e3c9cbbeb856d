"""What a denoising step does, and what it must never do: decoders fed with written-out logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffusion_engine.decoding import (
    CanvasCache,
    DecodingParameters,
    Sampling,
    Strategy,
    check_parameters,
    make_decoder,
    strategies_of,
    suppressed_tokens,
)
from diffusion_engine.decoding import denoising as denoising_module
from diffusion_engine.decoding.passes import Decoder, Pass
from diffusion_engine.decoding.unmasking import UNMASKING, Candidates
from diffusion_engine.models import Attention
from diffusion_engine.models.registry import FAMILIES
from tests.diffusion_engine.conftest import Loaded, observe

SURE = 20.0


def decoder_of(model: Loaded, prompt: list[int], strategy: Strategy, *, block_length: int = 4, **more: Any) -> Decoder:
    return make_decoder(
        model.config,
        DecodingParameters(strategy=strategy, block_length=block_length, **more),
        prompt,
        max_length=64,
        suppressed=suppressed_tokens(model.config),
    )


def says(model: Loaded, step: Pass, best: dict[int, tuple[int, float]]) -> Tensor:
    """Logits in which some positions have a favourite: position -> (token, logit). The others are even."""
    logits = torch.zeros(len(step.wanted), model.config.vocab_size)
    for row, wanted in enumerate(step.wanted):
        token, logit = best.get(step.start + wanted, (0, 0.0))
        logits[row, token] = logit
    return logits


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
        emitted.append(observe(decoder, step, logits, config).emitted)
    assert emitted == [[], [], []]
    step = decoder.plan(4, 512)
    logits = torch.zeros(1, config.vocab_size)
    logits[0, 11] = 9.0
    assert observe(decoder, step, logits, config).emitted == [11, 25, 26, end]


def test_editing_replaces_what_was_written_until_a_pass_has_confirmed_it(block_causal: Loaded) -> None:
    decoder = decoder_of(block_causal, [1, 2, 3, 4], Strategy.EDITING, threshold=0.5, edit_threshold=0.5)
    step = decoder.plan(4, 512)
    written = observe(
        decoder, step, says(block_causal, step, {i: (20 + i, SURE) for i in (4, 5, 7)}), block_causal.config
    )
    assert written.emitted == []  # nothing has been read back yet
    step = decoder.plan(4, 512)
    assert list(step.wanted) == [0, 1, 2, 3]
    assert step.tokens[:2] == [24, 25]
    # Position 4 is confirmed and leaves; 5 gets a better token; 6 is written; 7 is not sure enough to be replaced.
    best = {4: (24, SURE), 5: (99, SURE), 6: (26, SURE), 7: (98, 1.0)}
    assert observe(decoder, step, says(block_causal, step, best), block_causal.config).emitted == [24]
    step = decoder.plan(4, 512)
    assert step.tokens == [24, 99, 26, 27]
    # What has left is not asked for any more, whatever the model would say now.
    assert list(step.wanted) == [1, 2, 3]
    progress = observe(
        decoder, step, says(block_causal, step, {i: (step.tokens[i - 4], SURE) for i in (5, 6, 7)}), block_causal.config
    )
    assert progress.emitted == [99, 26, 27]
    # The pass that found nothing to change was the commit pass: the next block starts without one.
    assert progress.kept == 4
    assert decoder.plan(8, 512).clean == 0


@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0.0, 0.02, 0.5]))
@settings(deadline=None, max_examples=30)
def test_a_model_that_keeps_changing_its_mind_still_comes_to_an_end(
    block_causal: Loaded, seed: int, threshold: float
) -> None:
    decoder = decoder_of(
        block_causal, [1, 2], Strategy.EDITING, block_length=8, threshold=threshold, edit_threshold=threshold
    )
    generator, emitted, passes = torch.Generator().manual_seed(seed), [], 0
    cached = 0
    while len(emitted) < 14:
        step = decoder.plan(cached, 512)
        progress = observe(
            decoder, step, torch.randn(len(step.wanted), 264, generator=generator) * 5, block_causal.config
        )
        assert decoder.text == [1, 2, *emitted, *progress.emitted]
        cached, emitted, passes = cached + progress.kept, emitted + progress.emitted, passes + 1
        assert passes < 60


def test_sub_blocks_are_denoised_from_left_to_right(loaded: dict[str, Loaded]) -> None:
    model = loaded["Fast_dLLM_Qwen"]
    decoder = decoder_of(model, [1, 2, 3], Strategy.DYNAMIC, block_length=8, sub_block_length=4, threshold=0.5)
    step = decoder.plan(0, 512)
    # The prompt's tail shares the first sub-block with a mask, position 3, which row 2 predicts.
    assert list(step.wanted) == [2]
    observe(decoder, step, says(model, step, {2: (30, SURE)}), model.config)
    step = decoder.plan(0, 512)
    assert list(step.wanted) == [3, 4, 5, 6]
    assert step.tokens[:4] == [1, 2, 3, 30]


def test_in_the_first_clause_every_step_brings_a_token(block_causal: Loaded) -> None:
    decoder = decoder_of(block_causal, [1, 2, 3, 4], Strategy.FIRST_CLAUSE, block_length=16)
    for count in range(12):
        step = decoder.plan(0, 512)
        # The model is surest of what is furthest right.
        progress = observe(
            decoder,
            step,
            says(block_causal, step, {19 - i: (40, 3.0 - i / 10) for i in range(16)}),
            block_causal.config,
        )
        assert len(progress.emitted) >= 1
        assert len(decoder.text) >= 5 + count


def test_confidence_is_of_the_untempered_logits(block_causal: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which positions are committed must not hang on the temperature: with it in the confidence, models collapse."""
    seen: list[Candidates] = []

    def select(candidates: Candidates) -> list[int]:
        seen.append(candidates)
        return [0]

    monkeypatch.setitem(
        denoising_module.UNMASKING, Strategy.DYNAMIC, replace(UNMASKING[Strategy.DYNAMIC], select=select)
    )
    for temperature in (0.0, 0.01, 5.0):
        decoder = decoder_of(block_causal, [1], Strategy.DYNAMIC, sampling=Sampling(temperature=temperature, seed=3))
        step = decoder.plan(0, 512)
        logits = torch.full((3, 264), -40.0)
        logits[:, 7] = 1.0  # the one token that can be drawn at any temperature
        logits[:, block_causal.config.mask_token_ids[0]] = 1.0
        observe(decoder, step, logits, block_causal.config)
    assert [candidates.confidences for candidates in seen] == [pytest.approx([0.5] * 3)] * 3


def test_a_draw_hangs_on_seed_position_and_step_alone(block_causal: Loaded) -> None:
    """Two requests of one seed draw alike from like logits, whatever has happened around them."""
    logits = torch.randn(3, 264, generator=torch.Generator().manual_seed(0))

    def first(seed: int) -> list[int]:
        decoder = decoder_of(
            block_causal, [1], Strategy.DYNAMIC, threshold=0.0, sampling=Sampling(temperature=1.0, seed=seed)
        )
        return observe(decoder, decoder.plan(0, 512), logits.clone(), block_causal.config).emitted

    expected = first(5)
    for other in range(40):
        first(other)
    torch.manual_seed(1)
    assert first(5) == expected
    assert len({tuple(first(seed)) for seed in range(20)}) > 15


def test_like_logits_are_drawn_from_anew_at_every_position_and_step(block_causal: Loaded) -> None:
    def drawn(prompt: list[int], steps: int) -> list[int]:
        decoder = decoder_of(
            block_causal, prompt, Strategy.SEQUENTIAL, block_length=8, sampling=Sampling(temperature=1.0, seed=7)
        )
        tokens: list[int] = []
        for _ in range(steps):
            step = decoder.plan(0, 512)
            tokens += observe(decoder, step, torch.zeros(len(step.wanted), 264), block_causal.config).emitted
        return tokens

    one_a_step = drawn([1], 7)
    assert len(set(one_a_step)) > 5  # by position
    # The same position, reached in another step.
    assert drawn([1, 1], 6)[0] != one_a_step[1]
    assert drawn([1, 1], 6) == drawn([1, 1], 6)


def test_decodings_that_a_model_cannot_do_are_refused_by_field(loaded: dict[str, Loaded]) -> None:
    def refused(family: str, match: str, **parameters: Any) -> None:
        with pytest.raises(ValueError, match=match):
            check_parameters(loaded[family].config, DecodingParameters(**{"block_length": 4, **parameters}))

    refused("sdar", "^strategy: this model decodes by dynamic", strategy=Strategy.HYBRID)
    refused("llama_draft", "^strategy: this model decodes by hybrid", strategy=Strategy.DYNAMIC)
    refused("llama_draft", "^block_length: ", strategy=Strategy.HYBRID, block_length=9)
    refused("sdar", "^canvas_cache: ", strategy=Strategy.DYNAMIC, canvas_cache=CanvasCache.DUAL)
    for field, value in (
        ("threshold", 1.1),
        ("edit_threshold", -0.1),
        ("entropy_bound", -1.0),
        ("entropy_bound", float("nan")),
        ("denoising_steps", 5),
        ("sub_block_length", 5),
        ("block_length", 0),
    ):
        refused("sdar", f"^{field} must", strategy=Strategy.DYNAMIC, **{field: value})


def test_every_family_has_a_default_that_it_can_decode_by(loaded: dict[str, Loaded]) -> None:
    """Block-causal models dynamically: a fixed schedule is slow where blocks are long."""
    for name, family in FAMILIES.items():
        config = loaded[name].config
        assert family.default_strategy in strategies_of(config)
        assert family.default_strategy == "dynamic" or config.attention is not Attention.BLOCK_CAUSAL
        # A canvas as long as the context would be run in every step.
        assert (family.default_max_tokens is None) == config.attention.exact
