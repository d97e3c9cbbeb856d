"""Messages as clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from diffusion_engine.chat.messages import MessageError, normalised
from diffusion_engine.chat.template import ChatTemplate


def test_parts_become_text_and_arguments_become_objects() -> None:
    messages = normalised(
        [
            {"role": "developer", "content": "be short"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ]
    )
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[1]["content"] == "ab"
    assert messages[2]["content"] == ""
    assert messages[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "robot", "content": "x"}, "messages.0.role"),
        ({"content": "x"}, "messages.0.role"),
        ({"role": "user", "content": 5}, "messages.0.content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages.0.content.0"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, "messages.0.tool_calls.0"),
        ({"role": "assistant", "tool_calls": {"a": 1}}, "messages.0.tool_calls"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]},
            "messages.0.tool_calls.0.function.arguments",
        ),
    ],
)
def test_a_wrong_message_is_named(message: dict[str, Any], param: str) -> None:
    with pytest.raises(MessageError) as wrong:
        normalised([message])
    assert wrong.value.param == param


def test_arguments_read_as_json_in_templates_of_both_kinds() -> None:
    call = {"function": {"name": "f", "arguments": '{"é": [true, null]}'}}
    messages = normalised([{"role": "assistant", "tool_calls": [call]}])
    for expression in ("arguments", "arguments | tojson"):
        template = ChatTemplate("{{ messages[0].tool_calls[0].function.%s }}" % expression, {})  # noqa: UP031
        assert template.render(messages, None) == '{"é": [true, null]}'
