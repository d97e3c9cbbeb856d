"""Drafts read off an earlier draft or the prompt: sooner where they fit, the same text wherever they don't."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.decoding import Strategy
from diffusion_engine.decoding.lookup import continuation
from tests.diffusion_engine.conftest import Loaded, run_all, run_one


@pytest.mark.parametrize(
    ("text", "source", "found"),
    [
        ([1, 2, 3], [9, 1, 2, 3, 4, 5], [4, 5]),
        ([8, 2, 3], [1, 2, 3, 4, 5, 2, 3, 6], [6]),
        ([7, 2, 3], [7, 2, 3, 4, 2, 3, 6], [4, 2]),  # the longer match wins over the later one
        ([1, 2, 3, 1, 2], [1, 2, 3, 1, 2], [3, 1]),  # the text itself: its end follows nothing
        ([1, 2, 3], [1, 2, 3], []),
        ([3], [3, 4], []),
        ([], [1, 2], []),
    ],
)
def test_what_followed_the_same_words_is_found(text: list[int], source: list[int], found: list[int]) -> None:
    assert continuation(text, source, 2) == found


@given(
    prompt=st.lists(st.integers(0, 250), min_size=1, max_size=40),
    data=st.data(),
    temperature=st.sampled_from([0.0, 0.8]),
    strategy=st.sampled_from([Strategy.HYBRID, Strategy.AUTOREGRESSIVE, Strategy.PROMPT_LOOKUP]),
    mates=st.integers(0, 2),
)
@settings(deadline=None, max_examples=30)
def test_whatever_draft_is_brought_the_text_is_the_autoregressive_one(
    causal: Loaded, prompt: list[int], data: st.DataObject, temperature: float, strategy: Strategy, mates: int
) -> None:
    plain = causal.request(prompt, Strategy.AUTOREGRESSIVE, temperature=temperature, seed=3)
    expected = run_one(causal.scheduler(), plain).tokens
    draft = list(expected)
    for _ in range(data.draw(st.integers(0, 4))):  # words changed, left out and put in
        at = data.draw(st.integers(0, len(draft)))
        draft[at : at + data.draw(st.integers(0, 3))] = data.draw(st.lists(st.integers(0, 250), max_size=3))
    request = causal.request(prompt, strategy, temperature=temperature, seed=3, draft=tuple(draft))
    others = [causal.request([i, *prompt], id=f"m{i}", temperature=1.0, seed=i, max_tokens=9) for i in range(mates)]
    assert run_all(causal.scheduler(), [request, *others])[0].tokens == expected


def test_a_draft_that_still_fits_is_a_reply_in_one_pass(causal: Loaded) -> None:
    prompt = [5, 6, 7]
    expected = run_one(causal.scheduler(), causal.request(prompt, max_tokens=20)).tokens
    again = run_one(causal.scheduler(), causal.request(prompt, max_tokens=20, draft=tuple(expected)))
    assert again.tokens == expected
    assert again.end.statistics.forwards == 1
    assert again.end.statistics.reused >= 19
    assert again.end.statistics.verifications == 0


def test_behind_a_changed_word_the_draft_is_taken_up_again(causal: Loaded) -> None:
    prompt = [5, 6, 7]
    expected = run_one(causal.scheduler(), causal.request(prompt, max_tokens=30)).tokens
    without = run_one(causal.scheduler(), causal.request(prompt, max_tokens=30)).end.statistics.forwards
    draft = [*expected[:8], 251, *expected[9:]]
    changed = run_one(causal.scheduler(), causal.request(prompt, max_tokens=30, draft=tuple(draft)))
    assert changed.tokens == expected
    assert changed.end.statistics.forwards < without
    assert changed.end.statistics.reused > 15


def test_prompt_lookup_saves_passes_where_the_text_repeats_itself(causal: Loaded) -> None:
    prompt = [5, 6, 7]
    said = run_one(causal.scheduler(), causal.request(prompt, Strategy.AUTOREGRESSIVE, max_tokens=60))
    looked_up = run_one(causal.scheduler(), causal.request(prompt, Strategy.PROMPT_LOOKUP, max_tokens=60))
    assert looked_up.tokens == said.tokens
    assert looked_up.end.statistics.forwards < said.end.statistics.forwards
