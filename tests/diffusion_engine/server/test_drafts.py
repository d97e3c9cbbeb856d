"""Warm drafts over HTTP: the reply is the same, and costs less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.diffusion_engine.server.conftest import Served, serving

MESSAGES = [{"role": "user", "content": "say something"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 8}, "party": {"type": "integer"}},
            "required": ["name", "party"],
        },
    },
}


@pytest.fixture(scope="module")
def causal(checkpoint: Callable[[str], Path]) -> Iterator[Served]:
    with serving(checkpoint("llama_draft")) as served:
        yield served


def ask(served: Served, **diffusion: Any) -> Any:
    return served.client().chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=24, temperature=0, extra_body={"diffusion": diffusion}
    )


def test_a_reply_drafted_before_takes_one_pass(causal: Served) -> None:
    first = ask(causal)
    again = ask(causal, draft=first.choices[0].message.content)
    assert again.choices[0].message.content == first.choices[0].message.content
    assert again.diffusion["forwards"] < first.diffusion["forwards"]
    assert again.diffusion["reused_tokens"] > 0
    assert first.diffusion["reused_tokens"] == 0


def test_another_draft_changes_nothing_in_the_reply(causal: Served) -> None:
    expected = ask(causal).choices[0].message.content
    assert ask(causal, draft="something else, entirely").choices[0].message.content == expected


def test_a_message_with_calls_is_a_draft_too(causal: Served) -> None:
    def call(**diffusion: Any) -> Any:
        return causal.client().chat.completions.create(
            model="tiny",
            messages=MESSAGES,
            max_tokens=90,
            temperature=0,
            tools=[TOOL],
            tool_choice="required",
            extra_body={"diffusion": diffusion},
        )

    first = call()
    message = first.choices[0].message.model_dump(exclude_none=True)
    again = call(draft=message)
    assert again.choices[0].message.tool_calls[0].function == first.choices[0].message.tool_calls[0].function
    assert again.diffusion["forwards"] < first.diffusion["forwards"]
    assert again.diffusion["reused_tokens"] > 0


@pytest.mark.parametrize(
    ("draft", "param"),
    [({"role": "user", "content": "x"}, "diffusion.draft.role"), ({"content": 5}, "diffusion.draft.content")],
)
def test_what_is_no_message_of_the_assistants_is_refused(causal: Served, draft: object, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(causal, draft=draft)
    assert refused.value.body["param"] == param


def test_block_denoising_starts_from_a_draft_too(checkpoint: Callable[[str], Path]) -> None:
    with serving(checkpoint("sdar")) as served:
        first = ask(served, threshold=0.0)
        again = ask(served, threshold=0.0, draft=first.choices[0].message.content)
        assert again.diffusion["reused_tokens"] > 0
