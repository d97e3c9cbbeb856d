"""The official client, unmodified, against our server."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openai
import pytest

from tests.diffusion_engine.server.conftest import Served

USER: list[Any] = [{"role": "user", "content": "hello"}]
PARAMETERS = {
    "type": "object",
    "properties": {"party": {"enum": [2, 4]}, "name": {"enum": ["smith", "jones"]}},
    "required": ["party", "name"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "book", "description": "books", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "confirm"}},
]


def test_a_whole_reply(served: Served) -> None:
    reply = served.client().chat.completions.create(model="tiny", messages=USER, max_tokens=12, temperature=0)
    assert reply.object == "chat.completion"
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 12
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 12


def test_a_stream_says_what_the_whole_reply_says(served: Served) -> None:
    client = served.client()
    for seed in range(5):
        arguments: dict[str, Any] = {
            "model": "tiny", "messages": USER, "max_tokens": 30, "temperature": 1.0, "seed": seed
        }  # fmt: skip
        whole = client.chat.completions.create(**arguments)
        chunks = list(client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
        assert chunks[-1].choices == []
        assert chunks[-1].usage is not None
        assert whole.usage is not None
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
        assert len({chunk.id for chunk in chunks}) == 1


def test_the_clean_prefix_is_streamed_before_the_reply_is_done(served: Served) -> None:
    stream = served.client().chat.completions.create(
        model="tiny", messages=USER, max_tokens=200, stream=True, temperature=0
    )
    deltas = [chunk.choices[0].delta.content for chunk in stream if chunk.choices[0].delta.content]
    assert len(deltas) > 20


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "book"}}, "auto"])
def test_tool_calls(served: Served, choice: Any, stream: bool) -> None:
    client = served.client()
    for seed in range(4):
        arguments: dict[str, Any] = {
            "model": "tiny", "messages": USER, "tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False,
            "temperature": 1.0, "seed": seed, "max_tokens": 150,
        }  # fmt: skip
        calls: dict[int, list[str]] = {}
        content = ""
        if stream:
            for chunk in client.chat.completions.create(**arguments, stream=True):
                delta, reason = chunk.choices[0].delta, chunk.choices[0].finish_reason
                content += delta.content or ""
                for part in delta.tool_calls or []:
                    assert part.function is not None
                    if part.id:
                        calls[part.index] = [part.function.name or "", ""]
                    calls[part.index][1] += part.function.arguments or ""
        else:
            reply = client.chat.completions.create(**arguments)
            reason, content = reply.choices[0].finish_reason, reply.choices[0].message.content or ""
            for i, call in enumerate(reply.choices[0].message.tool_calls or []):
                calls[i] = [call.function.name, call.function.arguments]
        assert "<tool_call" not in content
        if choice != "auto":
            assert (reason, len(calls), content) == ("tool_calls", 1, "")
        for name, written in calls.values():
            assert name == "book" or choice in ("required", "auto")
            jsonschema.validate(json.loads(written), PARAMETERS if name == "book" else {"maxProperties": 0})


def test_a_call_and_its_result_go_back_as_messages(served: Served) -> None:
    messages = [
        *USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "confirm", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    reply = served.client().chat.completions.create(model="tiny", messages=messages, tools=TOOLS, max_tokens=5)
    assert reply.usage is not None
    assert reply.usage.completion_tokens <= 5


def test_strict_json(served: Served) -> None:
    schema = {**PARAMETERS, "properties": {**PARAMETERS["properties"], "note": {"type": "string", "maxLength": 5}}}  # type: ignore[dict-item]
    for seed in range(4):
        reply = served.client().chat.completions.create(
            model="tiny", messages=USER, temperature=1.0, seed=seed, max_tokens=200,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        )  # fmt: skip
        assert reply.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(reply.choices[0].message.content or ""), schema)


def test_with_tools_and_a_response_format_the_reply_is_calls_or_a_document(served: Served) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False}
    documents = calls = 0
    for seed in range(12):
        reply = served.client().chat.completions.create(
            model="tiny", messages=USER, temperature=2.0, seed=seed, max_tokens=150, tools=TOOLS,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        )  # fmt: skip
        message = reply.choices[0].message
        if message.tool_calls:
            calls += 1
            assert (reply.choices[0].finish_reason, message.content) == ("tool_calls", None)
        else:
            documents += 1
            jsonschema.validate(json.loads(message.content or ""), schema)
    assert documents
    assert calls


def test_a_stop_string_ends_the_reply_inside_a_block(served: Served) -> None:
    client = served.client()
    arguments: dict[str, Any] = {"model": "tiny", "messages": USER, "temperature": 1.0, "seed": 3, "max_tokens": 60}
    whole = client.chat.completions.create(**arguments).choices[0].message.content or ""
    stop = whole[9:11]
    cut = client.chat.completions.create(**arguments, stop=[stop]).choices[0]
    assert cut.finish_reason == "stop"
    assert cut.message.content == whole[: whole.index(stop)]


def test_a_seed_makes_a_reply_repeatable_and_none_does_not(served: Served) -> None:
    def text(seed: int | None) -> str | None:
        reply = served.client().chat.completions.create(
            model="tiny", messages=USER, temperature=1.5, max_tokens=40, seed=seed
        )
        return reply.choices[0].message.content

    assert text(5) == text(5) != text(6)
    assert text(None) != text(None)


def test_usage_counts_prefix_cache_hits(served: Served) -> None:
    messages: list[Any] = [{"role": "user", "content": "a prompt of its own " * 4}]
    hits = []
    for _ in range(2):
        reply = served.client().chat.completions.create(model="tiny", messages=messages, max_tokens=1)
        assert reply.usage is not None
        assert reply.usage.prompt_tokens_details is not None
        hits.append((reply.usage.prompt_tokens_details.cached_tokens or 0) / reply.usage.prompt_tokens)
    assert hits[0] < 0.5 < 0.9 < hits[1]


def test_our_extension_object_and_server_timing(served: Served) -> None:
    client = served.client()
    extra = {"diffusion": {"prefill_only": True}}
    messages: list[Any] = [{"role": "user", "content": "while the caller still speaks"}]
    first = client.chat.completions.create(model="tiny", messages=messages, extra_body=extra)
    assert first.usage is not None
    assert first.usage.completion_tokens == 0
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=messages, max_tokens=8)
    told = json.loads(raw.text)["diffusion"]
    assert told["cached_tokens"] >= first.usage.prompt_tokens - 4
    assert set(told["phases_ms"]) == {"queue", "tokenize", "prefill", "first_token", "steps", "total"}
    assert {part.split(";")[0] for part in raw.headers["server-timing"].split(", ")} == set(told["phases_ms"])
    last = list(client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, stream=True))[-1]
    assert last.model_extra is not None
    assert last.model_extra["diffusion"]["forwards"] >= 1


def test_plain_completions(served: Served) -> None:
    client = served.client()
    whole = client.completions.create(model="tiny", prompt="once upon", max_tokens=10, temperature=0)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 10
    chunks = client.completions.create(model="tiny", prompt="once upon", max_tokens=10, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


def test_models(served: Served) -> None:
    client = served.client()
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_eight_at_once_equal_one_after_the_other(served: Served) -> None:
    from concurrent.futures import ThreadPoolExecutor

    client = served.client()

    def ask(seed: int) -> str | None:
        messages: list[Any] = [{"role": "user", "content": "x" * (seed * 7)}]
        reply = client.chat.completions.create(
            model="tiny", messages=messages, max_tokens=25, temperature=0.8, seed=seed
        )
        return reply.choices[0].message.content

    alone = [ask(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == alone
