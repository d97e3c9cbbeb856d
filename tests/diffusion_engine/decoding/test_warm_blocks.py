"""Denoising that starts from an earlier draft: what the model is sure of stays, the rest is masked again."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.chat.grammar import GrammarCompiler, json_grammar
from diffusion_engine.decoding import DecodingParameters, Strategy, make_decoder, suppressed_tokens
from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, observe, run_all, run_one

DENOISING = [family for family in EVERY_FAMILY if family != "llama_draft"]


def denoising(model: Loaded) -> str:
    return next(strategy for strategy in model.strategies if strategy == "dynamic")


@pytest.mark.parametrize("family", DENOISING)
def test_a_draft_that_nothing_is_sure_of_changes_nothing_but_the_passes(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    plain = model.request([5, 6, 7, 8], denoising(model), max_tokens=12, threshold=1.0)
    expected = run_one(model.scheduler(), plain)
    drafted = model.request([5, 6, 7, 8], denoising(model), max_tokens=12, threshold=1.0, draft=(3,) * 12)
    result = run_one(model.scheduler(), drafted)
    assert result.tokens == expected.tokens
    assert result.end.statistics.reused == 0
    assert result.end.statistics.forwards > expected.end.statistics.forwards


@pytest.mark.parametrize("family", DENOISING)
def test_a_draft_that_all_is_sure_of_is_the_reply(loaded: dict[str, Loaded], family: str) -> None:
    model = loaded[family]
    draft = (3, 9, 27, 81, 4, 12, 36, 108, 5, 15, 45, 135)
    request = model.request([5, 6, 7, 8], denoising(model), max_tokens=12, block_length=4, threshold=0.0, draft=draft)
    result = run_one(model.scheduler(), request)
    assert tuple(result.tokens) == draft
    assert result.end.statistics.reused == 12


@pytest.mark.parametrize("family", DENOISING)
@given(
    prompt=st.lists(st.integers(0, 200), min_size=1, max_size=12),
    draft=st.lists(st.integers(0, 263), max_size=20),
    threshold=st.floats(0.0, 0.2),
    temperature=st.sampled_from([0.0, 0.8]),
)
@settings(deadline=None, max_examples=8)
def test_any_draft_ends_in_a_reply_that_does_not_depend_on_mates(
    loaded: dict[str, Loaded], family: str, prompt: list[int], draft: list[int], threshold: float, temperature: float
) -> None:
    model = loaded[family]
    request = model.request(
        prompt, denoising(model), max_tokens=10, threshold=threshold, temperature=temperature, draft=tuple(draft)
    )
    mates = [model.request([i, *prompt], id=f"m{i}", max_tokens=8, seed=i) for i in range(2)]
    alone = run_one(model.scheduler(), request)
    assert run_all(model.scheduler(), [request, *mates])[0].tokens == alone.tokens
    assert len(alone.tokens) <= 10


SCHEMA = {
    "type": "object",
    "properties": {"party": {"enum": ["aa", "bb"]}, "name": {"type": "string", "maxLength": 6}},
    "required": ["party", "name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("family", DENOISING)
@given(seed=st.integers(0, 1000), sharpness=st.sampled_from([0.0, 3.0, 30.0]))
@settings(deadline=None, max_examples=10)
def test_a_drafted_block_under_a_grammar_holds_its_final_text(
    loaded: dict[str, Loaded], grammars: dict[str, GrammarCompiler], family: str, seed: int, sharpness: float
) -> None:
    """What the grammar forces at a drafted place is final: neither judged, nor masked, nor written over."""
    model, generator = loaded[family], torch.Generator().manual_seed(seed)
    decoder = make_decoder(
        model.config,
        DecodingParameters(strategy=Strategy.DYNAMIC, block_length=16, threshold=0.5),
        [1, 2, 3, 4],
        max_length=90,
        suppressed=suppressed_tokens(model.config),
        constraint=grammars[family].constraint(json_grammar(SCHEMA)),
        draft=list(b'{"party": "aa", "name": "xy"}'),
    )
    denoiser = decoder._denoiser  # type: ignore[attr-defined]
    cached = 0
    for _ in range(80):
        if decoder.complete:
            break
        step = decoder.plan(cached, 512)
        final = model.config.mask_token_ids[0] in denoiser.inputs()[: denoiser._released]
        assert not final, "final text is fed as masks"
        logits = torch.randn(len(step.wanted), model.config.vocab_size, generator=generator) * sharpness
        progress = observe(decoder, step, logits, model.config)
        cached = step.start + progress.kept if model.config.attention.exact else 0
        released = denoiser.block[: denoiser._released]
        assert released == decoder.text[denoiser.start : denoiser.start + len(released)]
    assert decoder.complete


@pytest.mark.parametrize("family", ["sdar", "nemotron_labs_diffusion", "llada"])
def test_a_draft_is_not_judged_where_there_is_no_time_for_it(loaded: dict[str, Loaded], family: str) -> None:
    """An unsure draft must not cost the reply that hurrying alone would have brought."""
    model = loaded[family]

    def written(draft: tuple[int, ...], passes: int) -> int:
        decoder = make_decoder(
            model.config,
            DecodingParameters(strategy=Strategy.STATIC, block_length=16),
            [1, 2, 3, 4],
            max_length=20,
            suppressed=suppressed_tokens(model.config),
            draft=draft,
        )
        cached = 0
        for left in range(passes, 0, -1):
            decoder.hurry(left, 16 - (len(decoder.text) - 4))
            step = decoder.plan(cached, 512)
            progress = observe(decoder, step, torch.zeros(len(step.wanted), model.config.vocab_size), model.config)
            cached = step.start + progress.kept if model.config.attention.exact else 0
        return len(decoder.text) - 4

    for passes in (2, 3, 4, 6):
        assert written(tuple(range(50, 66)), passes) >= written((), passes)
