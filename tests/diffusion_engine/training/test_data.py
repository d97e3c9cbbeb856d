"""What a dialogue teaches: the assistant's words, tool calls included, and a little of the caller's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from diffusion_engine.chat.template import ChatTemplate
from diffusion_engine.checkpoints.assemble import SHIPPED
from diffusion_engine.checkpoints.base import BaseModel, base_file
from diffusion_engine.training.data import ASSISTANT_WEIGHT, CALLER_WEIGHT, read_chats, tokenize

TEMPLATE = ChatTemplate((SHIPPED / "chat_template.jinja").read_text(), special_tokens={})
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "front desk"},
    {"role": "user", "content": "table for two\n(heard: party 2)"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "opening_hours", "arguments": '{"date": "any"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": '{"say": "noon to ten"}'},
    {"role": "assistant", "content": "from noon to ten."},
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return BaseModel(base_file()).tokenizer()


def test_the_assistants_messages_are_supervised_to_their_end_token(tokenizer: Tokenizer) -> None:
    dialogue = tokenize(MESSAGES, TEMPLATE, tokenizer)
    texts = [tokenizer.decode(dialogue.tokens[a:b], skip_special_tokens=False) for a, b in dialogue.replies]
    call = '<tool_call>\n{"name": "opening_hours", "arguments": {"date": "any"}}\n</tool_call><|im_end|>'
    assert texts == [call, "from noon to ten.<|im_end|>"]
    for start, end in dialogue.replies:
        assert set(dialogue.weights[start:end]) == {ASSISTANT_WEIGHT}


def test_the_callers_line_is_supervised_to_its_end_and_the_note_is_not(tokenizer: Tokenizer) -> None:
    dialogue = tokenize(MESSAGES, TEMPLATE, tokenizer)
    learned = [t for t, w in zip(dialogue.tokens, dialogue.weights, strict=True) if w == CALLER_WEIGHT]
    assert tokenizer.decode(learned) == "table for two\n"


def test_a_reply_that_was_cut_off_is_read_but_not_learned(tokenizer: Tokenizer) -> None:
    cut = [*MESSAGES[:-1], {"role": "assistant", "content": "from noon", "weight": 0}]
    dialogue = tokenize(cut, TEMPLATE, tokenizer)
    assert len(dialogue.replies) == 1
    assert dialogue.weights[-4:] == (0.0,) * 4


def test_the_next_turns_prompt_begins_with_what_was_already_said(tokenizer: Tokenizer) -> None:
    """So that a conversation's prefix can stay in the cache."""
    whole = tokenize(MESSAGES, TEMPLATE, tokenizer).tokens
    first = tokenize(MESSAGES[:3], TEMPLATE, tokenizer).tokens
    assert whole[: len(first)] == first


def test_chats_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"messages": [], "n": n}) + "\n" for n in range(5)))
    assert [chat["n"] for chat in read_chats(str(path), seed=1, count=3, split="train")] == [0, 1, 2]


def test_a_source_that_is_neither_file_nor_function_is_named() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        list(read_chats("nowhere.jsonl", seed=1, count=3, split="train"))
