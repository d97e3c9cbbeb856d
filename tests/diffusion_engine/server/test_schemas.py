"""Every field of a request: null is absent, and no JSON type passes for another."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from diffusion_engine.server.errors import first_fault
from diffusion_engine.server.schemas import ChatCompletionRequest, CompletionRequest, GenerationFields
from tests.diffusion_engine.server.conftest import Served

Path = tuple[str | int, ...]
MESSAGES = [{"role": "user", "content": "hello"}]
CHAT: dict[str, Any] = {
    "messages": MESSAGES,
    "stream": True,
    "stream_options": {},
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
    "diffusion": {},
}
COMPLETION: dict[str, Any] = {"prompt": "hello", "stream": True, "stream_options": {}, "diffusion": {}}
"""With every object that has fields of its own."""
BODIES: dict[type[GenerationFields], dict[str, Any]] = {ChatCompletionRequest: CHAT, CompletionRequest: COMPLETION}
VALUES: list[tuple[Any, set[str]]] = [
    (True, {"boolean"}),
    (False, {"boolean"}),
    (1, {"integer", "number"}),
    (0.5, {"number"}),
    ("1", {"string"}),
    ([1], {"array"}),
    ({"a": 1}, {"object"}),
]
"""A value, and the types of JSON Schema that admit it."""


def fields(model: type[GenerationFields]) -> Iterator[tuple[Path, set[str], bool]]:
    """Path, JSON types and whether it is required, of every field, those of inner objects included."""
    schema = model.model_json_schema()

    def forms(of: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in of:
            yield from forms(schema["$defs"][of["$ref"].rsplit("/", 1)[1]])
        elif "anyOf" in of:
            for form in of["anyOf"]:
                yield from forms(form)
        else:
            yield of

    def walk(of: dict[str, Any], at: Path) -> Iterator[tuple[Path, set[str], bool]]:
        for name, field in of.get("properties", {}).items():
            here, admitted = (*at, name), list(forms(field))
            yield here, {form["type"] for form in admitted}, name in of.get("required", ())
            for form in admitted:
                inner = [(form, here)] if form["type"] == "object" else []
                if form["type"] == "array":
                    inner = [(item, (*here, 0)) for item in forms(form["items"]) if item["type"] == "object"]
                for each, path in inner:
                    yield from walk(each, path)

    yield from walk(schema, ())


FIELDS = [(model, *field) for model in BODIES for field in fields(model)]
IDS = [f"{model.__name__}.{'.'.join(map(str, path))}" for model, path, _, _ in FIELDS]


def changed(model: type[GenerationFields], path: Path, value: Any) -> dict[str, Any]:
    body = copy.deepcopy(BODIES[model])
    inner: Any = body
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return body


def test_the_walk_finds_the_fields_of_inner_objects() -> None:
    found = {name.split(".", 1)[1] for name in IDS}
    assert {"temperature", "diffusion.priority", "stream_options.include_usage", "tools.0.function.strict"} <= found
    assert "response_format.json_schema.strict" in found
    assert len(IDS) > 80


@pytest.mark.parametrize(("model", "path", "types", "required"), FIELDS, ids=IDS)
def test_null_is_as_good_as_nothing_unless_the_field_is_required(
    model: type[GenerationFields], path: Path, types: set[str], required: bool
) -> None:
    body = changed(model, path, None)
    if required:
        with pytest.raises(ValidationError):
            model.model_validate(body)
        return
    absent = copy.deepcopy(BODIES[model])
    inner: Any = absent
    for part in path[:-1]:
        inner = inner[part]
    inner.pop(path[-1], None)
    if path == ("response_format", "json_schema"):
        body["response_format"]["type"] = absent["response_format"]["type"] = "text"
    with_null, without = model.model_validate(body), model.model_validate(absent)
    assert with_null == without
    assert with_null.model_fields_set == without.model_fields_set


@pytest.mark.parametrize(("model", "path", "types", "required"), FIELDS, ids=IDS)
def test_a_value_of_another_json_type_is_refused_and_the_field_named(
    model: type[GenerationFields], path: Path, types: set[str], required: bool
) -> None:
    for value, admitting in VALUES:
        if admitting & types:
            continue
        body = changed(model, path, value)
        with pytest.raises(ValidationError) as refused:
            model.model_validate(body)
        _, place = first_fault(refused.value.errors(), body)
        assert place[: len(path)] == [str(part) for part in path], value


NUMBERS = [(model, path) for model, path, types, _ in FIELDS if "number" in types]


@pytest.mark.parametrize(("model", "path"), NUMBERS, ids=[str(path[-1]) for _, path in NUMBERS])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_json_number_is_refused_though_python_parses_it(
    model: type[GenerationFields], path: Path, value: float
) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(changed(model, path, value))


@pytest.mark.parametrize("prompt", [[True], [1, False], [0.5], ["a", 1]])
def test_token_ids_are_integers(prompt: list[object]) -> None:
    with pytest.raises(ValidationError):
        CompletionRequest.model_validate({"prompt": prompt})
    assert CompletionRequest.model_validate({"prompt": [1, 0]}).prompt == [1, 0]


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    assert ChatCompletionRequest.model_validate({"messages": MESSAGES, "max_tokens": 5.0}).max_tokens == 5


def test_nulls_over_http(served: Served) -> None:
    names = (*ChatCompletionRequest.model_fields, "logit_bias", "prediction")
    body = {**dict.fromkeys(names), "messages": MESSAGES, "max_tokens": 2}
    answer = httpx.post(f"{served.url}/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == "chat.completion"
    vendor = httpx.post(f"{served.url}/tiny/v1/chat/completions", json={**body, "model": "tiny", "max_tokens": 1})
    assert vendor.headers["content-type"].startswith("text/event-stream")  # its default, as if `stream` weren't there


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": False}, "temperature"),
        ({"seed": True}, "seed"),
        ({"n": True}, "n"),
        ({"stream": 1}, "stream"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop.1"),
        ({"tools": [], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"diffusion": {"probe": 1}}, "diffusion.probe"),
        ({"diffusion": {"priority": True}}, "diffusion.priority"),
        ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ],
)
def test_a_wrong_type_over_http_is_a_400_that_names_the_field(
    served: Served, change: dict[str, Any], param: str
) -> None:
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={"messages": MESSAGES, **change})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
