"""Denoising that starts from an earlier draft: what the model is sure of stays, the rest is masked again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.diffusion_engine.conftest import EVERY_FAMILY, Loaded, run_all, run_one

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
