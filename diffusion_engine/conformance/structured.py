"""`response_format`: always valid under the schema, or the budget's fault and told so."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import openai

from diffusion_engine.conformance.streams import gather
from diffusion_engine.conformance.suite import Endpoint, Skipped, Suite, expect

suite = Suite("structured output")
PROMPT = "Invent a guest of a restaurant and answer in JSON."
_NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "nested objects": {
        "type": "object",
        "properties": {
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "regular": {"type": "boolean"}},
                "required": ["name", "regular"],
                "additionalProperties": False,
            }
        },
        "required": ["guest"],
        "additionalProperties": False,
    },
    "arrays with bounds": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "enums, constants and null": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b", None]}, "version": {"const": 2}},
        "required": ["kind", "version"],
        "additionalProperties": False,
    },
    "numbers with bounds": {"type": "number", "minimum": 0.5, "maximum": 2},
    "integers with bounds": {"type": "integer", "exclusiveMinimum": 10, "maximum": 40},
    "string lengths": {"type": "string", "minLength": 3, "maxLength": 8},
    "string patterns": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "alternatives": {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "null"}, "maxItems": 2}]},
    "references that recur": {"$ref": "#/$defs/node", "$defs": {"node": _NODE}},
    "optional properties": {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "boolean"}},
        "additionalProperties": False,
    },
}


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


def _complaint(text: str, schema: dict[str, Any]) -> str:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError) as invalid:
        return f"{text!r}: {str(invalid).splitlines()[0]}"
    return ""


def _strict(endpoint: Endpoint, schema: dict[str, Any]) -> None:
    for seed in range(2):
        arguments: dict[str, Any] = {
            "response_format": _format(schema), "temperature": 1, "seed": seed, "max_tokens": 120
        }  # fmt: skip
        choice = endpoint.chat(PROMPT, **arguments).choices[0]
        expect(choice.finish_reason == "stop", f"finish_reason is {choice.finish_reason!r}")
        complaint = _complaint(choice.message.content or "", schema)
        expect(not complaint, complaint)
        streamed = gather(endpoint.chat(PROMPT, stream=True, **arguments))
        complaint = _complaint(streamed.text, schema)
        expect(not complaint, f"streamed: {complaint}")


for _name, _schema in SCHEMAS.items():
    suite.check(f"strict json_schema: {_name}")(lambda endpoint, schema=_schema: _strict(endpoint, schema))  # type: ignore[misc]


@suite.check("json_object gives an object")
def _object(endpoint: Endpoint) -> None:
    for seed in range(3):
        choice = endpoint.chat(
            PROMPT, response_format={"type": "json_object"}, temperature=1, seed=seed, max_tokens=120
        ).choices[0]
        complaint = _complaint(choice.message.content or "", {"type": "object"})
        expect(choice.finish_reason == "stop" and not complaint, complaint or f"ended by {choice.finish_reason!r}")


@suite.check("a document that fits is closed in time; where none does, an error or `length` says so")
def _budgets(endpoint: Endpoint) -> None:
    schema = SCHEMAS["nested objects"]
    for budget in (2, 8, 16, 32, 48, 64):
        try:
            choice = endpoint.chat(
                PROMPT, response_format=_format(schema), temperature=1, seed=budget, max_tokens=budget
            ).choices[0]
        except openai.BadRequestError as refused:
            expect("max_tokens" in str(refused), f"refused without naming max_tokens: {refused}")
            continue
        complaint = _complaint(choice.message.content or "", schema)
        expect(choice.finish_reason == "length" or not complaint, f"{choice.finish_reason!r}, {complaint}")


@suite.check("a keyword that is not supported is a 400 that names it, and the next request is served")
def _unsupported(endpoint: Endpoint) -> None:
    schema = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}, "required": ["a"]}
    try:
        choice = endpoint.chat(PROMPT, response_format=_format(schema), max_tokens=60).choices[0]
    except openai.BadRequestError as refused:
        expect("not" in str(refused), f"the 400 does not name the keyword: {refused}")
    else:
        complaint = _complaint(choice.message.content or "", schema)
        expect(choice.finish_reason == "length" or not complaint, complaint)
        raise Skipped("the keyword is supported")
    finally:
        endpoint.chat(max_tokens=1)
