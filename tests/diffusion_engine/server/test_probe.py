"""The probability that the user's turn is complete, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import torch

from diffusion_engine.models import DenseAttention, load_model
from tests.diffusion_engine.server.conftest import Served, serving

SAID = "tomorrow at eight\n(heard: time 20:00)"


@pytest.fixture(scope="module")
def causal(checkpoint: Callable[[str], Path]) -> Iterator[Served]:
    with serving(checkpoint("llama_draft")) as served:
        yield served


def ask(served: Served, probe: Any, content: str = SAID, **diffusion: Any) -> Any:
    return served.client().chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": content}],
        max_tokens=4,
        temperature=0,
        extra_body={"diffusion": {"probe": probe, **diffusion}},
    )


def expected(served: Served, folder: Path, words: str) -> float:
    """Computed afresh: the chance of the token behind the words."""
    prompt = f"<|im_start|>user\n{SAID}<|im_end|>\n<|im_start|>assistant\n"
    tokens = served.model.tokenizer.encode(prompt)
    before = len(served.model.tokenizer.encode(f"<|im_start|>user\n{words}"))
    model = load_model(folder)
    causal = DenseAttention(torch.ones(before, before, dtype=torch.bool).tril())
    hidden = model(torch.tensor(tokens[:before]), torch.arange(before), causal)
    return float(torch.softmax(model.logits(hidden[-1:])[0], -1)[tokens[before]])


@pytest.mark.parametrize(("probe", "words"), [(True, SAID), ("tomorrow at eight", "tomorrow at eight"), ("tom", "tom")])
def test_it_is_the_chance_of_what_follows_the_words(
    causal: Served, checkpoint: Callable[[str], Path], probe: bool | str, words: str
) -> None:
    wanted = expected(causal, checkpoint("llama_draft"), words)
    for _ in range(2):  # the second time, the prompt is cached
        assert ask(causal, probe).diffusion["turn_complete"] == pytest.approx(wanted, rel=1e-3, abs=1e-6)


def test_it_costs_no_pass_and_changes_nothing(causal: Served) -> None:
    plain, probed = ask(causal, False), ask(causal, True)
    assert "turn_complete" not in plain.diffusion
    assert probed.choices[0].message.content == plain.choices[0].message.content
    assert probed.diffusion["forwards"] == plain.diffusion["forwards"]


def test_it_can_be_all_that_is_asked(causal: Served) -> None:
    answer = ask(causal, True, prefill_only=True)
    assert 0 <= answer.diffusion["turn_complete"] <= 1
    assert not answer.choices[0].message.content


def test_words_that_were_not_said_are_refused(causal: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="the beginning of the last message"):
        ask(causal, "next week")


def test_a_model_that_sees_to_the_right_cannot_tell(checkpoint: Callable[[str], Path]) -> None:
    with serving(checkpoint("sdar")) as served, pytest.raises(openai.BadRequestError, match="causal over clean text"):
        ask(served, True)
