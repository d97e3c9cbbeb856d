"""Reasoning is told apart from the answer, however the reply is cut into chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.chat.reasoning import ReasoningSplitter


def split(chunks: list[str], prompt: str = "") -> tuple[str, str]:
    splitter = ReasoningSplitter(prompt)
    parts = [*(splitter.feed(chunk) for chunk in chunks), splitter.finish()]
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


CASES = [
    ("<think>so</think>\n\nyes", "", ("so", "yes")),
    ("\n<think>so</think>yes", "", ("so", "yes")),
    ("yes, I <think> so</think>", "", ("", "yes, I <think> so</think>")),
    ("<thin", "", ("", "<thin")),
    ("<think>cut off </thi", "", ("cut off </thi", "")),
    ("so</think>\nyes\n\n", "<|im_start|>assistant\n<think>\n", ("so", "yes\n\n")),
    ("a < b", "", ("", "a < b")),
    ("", "", ("", "")),
]


@pytest.mark.parametrize(("text", "prompt", "parts"), CASES)
def test_the_marker_at_the_beginning_counts(text: str, prompt: str, parts: tuple[str, str]) -> None:
    assert split([text], prompt) == parts


@given(st.sampled_from(CASES), st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_chunks_make_no_difference(case: tuple[str, str, tuple[str, str]], lengths: list[int]) -> None:
    text, prompt, parts = case
    chunks = []
    for length in lengths:
        chunks.append(text[:length])
        text = text[length:]
    assert split([*chunks, text], prompt) == parts
