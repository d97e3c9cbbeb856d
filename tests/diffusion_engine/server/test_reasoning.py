"""Reasoning comes out beside the answer, not in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.diffusion_engine.server.conftest import Served, serving
from tests.diffusion_engine.tiny import CHAT_TEMPLATE, write_checkpoint

USER: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model whose template opens the reasoning; random weights never close it."""
    folder = write_checkpoint(tmp_path_factory.mktemp("thinking"), "llama_draft")
    template = CHAT_TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    assert template != CHAT_TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": template}))
    with serving(folder) as running:
        yield running


def test_it_has_a_field_of_its_own_streamed_and_not(thinking: Served) -> None:
    arguments: dict[str, Any] = {"model": "tiny", "messages": USER, "max_tokens": 20, "temperature": 1, "seed": 1}
    client = thinking.client()
    message = client.chat.completions.create(**arguments).choices[0].message
    assert message.content == ""
    assert message.model_extra is not None
    reasoning = message.model_extra["reasoning_content"]
    assert reasoning
    streamed = ""
    for chunk in client.chat.completions.create(**arguments, stream=True):
        assert not chunk.choices[0].delta.content
        streamed += (chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "")
    assert streamed == reasoning
