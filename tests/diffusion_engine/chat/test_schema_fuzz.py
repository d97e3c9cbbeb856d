"""Random weights, random schemas, tight budgets: every reply is a whole document, valid under its schema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from diffusion_engine.chat.grammar import GrammarCompiler, GrammarError, ToolChoice, json_grammar, tool_grammar
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.chat.tool_calls import ArgumentsDelta, CallStarted, ToolCallParser
from diffusion_engine.runtime import EndCause, GenerationRequest, Limits, Scheduler, TorchRunner
from tests.diffusion_engine.chat.random_schemas import RandomSchema
from tests.diffusion_engine.conftest import EVERY_FAMILY, FAMILIES, Loaded, run_all

SCHEMAS = 320
FEWER_SCHEMAS = 40
"""For the families that decode like one of the two that get them all."""
PAGES = 512


def held(
    seed: int, model: Loaded, tokenizer: Tokenizer, grammars: GrammarCompiler, schema: dict[str, Any]
) -> GenerationRequest | None:
    """A request whose budget is that of the shortest document or a little more; None where 400 tokens can't hold it."""
    drawn = random.Random(seed)
    shortest = grammars.constraint(json_grammar(schema)).limit(400)
    assert shortest is not None, f"no document is found for {schema}"
    if shortest > 400:
        return None
    budget = shortest + drawn.choice([0, 0, 1, 2, 5, 15, 60])
    constraint = grammars.constraint(json_grammar(schema))
    constraint.limit(budget)
    return model.request(
        tokenizer.encode(str(seed)),
        drawn.choice(model.strategies),
        id=str(seed),
        max_tokens=budget,
        block_length=drawn.choice([1, 4, 8]),
        temperature=drawn.choice([0.0, 1.0, 2.0]),
        seed=seed,
        constraint=constraint,
    )


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_reply_is_valid_under_its_schema(
    loaded: dict[str, Loaded],
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    family: str,
) -> None:
    model, tokenizer = loaded[family], byte_tokenizers[family]
    count = SCHEMAS if family in FAMILIES else FEWER_SCHEMAS
    schemas = {str(seed): RandomSchema(seed).draw() for seed in range(count + 20)}
    made = [held(int(id), model, tokenizer, grammars[family], schema) for id, schema in schemas.items()]
    requests = [request for request in made if request is not None][:count]
    assert len(requests) == count
    limits = Limits(max_requests=16, max_waiting=SCHEMAS)
    results = run_all(Scheduler(TorchRunner(model.model, PAGES), PAGES, tokenizer, limits), requests)
    for request, result in zip(requests, results, strict=True):
        schema = schemas[request.id]
        told = f"seed {request.id}, budget {request.max_tokens}: {result.text!r} for {json.dumps(schema)}"
        assert result.end.cause in (EndCause.COMPLETE, EndCause.STOP), f"{result.end.cause}, {told}"
        try:
            jsonschema.validate(json.loads(result.text), schema)
        except (ValueError, jsonschema.ValidationError) as invalid:
            raise AssertionError(told) from invalid


@pytest.mark.parametrize(
    ("schema", "shortest"),
    [
        ({"type": "integer"}, "0"),
        ({"type": "object"}, "{}"),
        ({"enum": ["long enough", "short"]}, '"short"'),
        ({"type": "string", "minLength": 9}, '"123456789"'),
        ({"type": "string", "pattern": "^[0-9]+[a-z]@$"}, '"1a@"'),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, "[true, true]"),
        ({"anyOf": [{"type": "array", "items": {"type": "null"}, "minItems": 9}, {"const": "no"}]}, '"no"'),
        (
            {"type": "object", "properties": {"a": {"type": "number", "minimum": 10}, "b": {}}, "required": ["a"]},
            '{"a": 10}',
        ),
        (
            {
                "$ref": "#/$defs/list",
                "$defs": {
                    "list": {
                        "type": "object",
                        "properties": {"rest": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}},
                        "required": ["rest"],
                    }
                },
            },
            '{"rest": null}',
        ),
    ],
)
def test_the_shortest_document_is_found(
    grammars: dict[str, GrammarCompiler], schema: dict[str, Any], shortest: str
) -> None:
    assert grammars["sdar"].constraint(json_grammar(schema)).limit(1) == len(shortest)


UNSUPPORTED: list[tuple[dict[str, Any], str, str]] = [
    ({"not": {"type": "string"}}, "/", "'not'"),
    ({"type": "array", "items": {"type": "array", "uniqueItems": True}}, "/items", "'uniqueItems'"),
    ({"type": "object", "properties": {"a/b": {"contains": {}}}}, "/properties/a~1b", "'contains'"),
    ({"anyOf": [{"type": "null"}, {"if": {}, "then": {}}]}, "/anyOf/1", "'if'"),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"propertyNames": {}}}}, "/$defs/x", "'propertyNames'"),
    ({"type": "object", "minProperties": 1}, "/", "'minProperties'"),
    ({"type": "object", "properties": {"when": {"type": "string", "format": "moon"}}}, "/properties/when", "moon"),
    ({"type": "array", "items": {"type": "string", "pattern": "a(?=b)"}}, "/items", "regex"),
    (
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 3}}, "required": ["n"]},
        "/",
        "'n'",
    ),
]


@pytest.mark.parametrize(("schema", "path", "keyword"), UNSUPPORTED, ids=[keyword for _, _, keyword in UNSUPPORTED])
def test_what_cannot_be_enforced_is_named_with_its_place(
    grammars: dict[str, GrammarCompiler], schema: dict[str, Any], path: str, keyword: str
) -> None:
    with pytest.raises(GrammarError):
        grammars["sdar"].constraint(json_grammar(schema))
    reason = grammars["sdar"].explanation(schema)
    assert reason is not None
    assert reason.startswith(f"at {path}: ")
    assert keyword in reason


NUMBERS = ["-3", "-2", "-2.5", "-1.75", "0", "0.5", "9.75", "10", "10.0", "10.25", "10.5", "11", "100"]
NAMES = ['{"a": 1}', '{"\\u0061": ""}', '{"a": 1, "\\u0061": ""}', '{"a": ""}', '{"b": ""}', '{"ab": 1}', '{"": 0}']
DOCUMENTS: list[tuple[dict[str, Any], list[str]]] = [
    *(
        ({"type": kind, low: -2, high: 10.5}, NUMBERS)
        for kind in ("number", "integer")
        for low in ("minimum", "exclusiveMinimum")
        for high in ("maximum", "exclusiveMaximum")
    ),
    ({"type": "number", "exclusiveMinimum": 10, "exclusiveMaximum": 10.5}, NUMBERS),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, NAMES),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "null"}}, NAMES),
    ({"type": "object", "properties": {"a": {}, "ab": {"type": "null"}}, "required": ["b"]}, NAMES),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"], "type": "object"}]}, NAMES),
]


@pytest.mark.parametrize(("schema", "texts"), DOCUMENTS, ids=[json.dumps(schema)[:60] for schema, _ in DOCUMENTS])
def test_nothing_invalid_fits_and_something_valid_does(
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    schema: dict[str, Any],
    texts: list[str],
) -> None:
    fitting = []
    for text in texts:
        constraint = grammars["sdar"].constraint(json_grammar(schema))
        tokens = byte_tokenizers["sdar"].encode(text)
        shortest = constraint.limit(len(tokens))
        # With nothing left behind its last token, what fits is whole.
        if shortest is not None and shortest <= len(tokens) and constraint.fitting(tokens) == len(tokens):
            fitting.append(text)
    assert all(jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)) for text in fitting)
    assert fitting or not any(jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)) for text in texts)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_required_call_is_valid_under_its_parameters(
    loaded: dict[str, Loaded],
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    family: str,
) -> None:
    """The same for the arguments of tools, one of two, with little more room than the shortest call takes."""
    model, tokenizer = loaded[family], byte_tokenizers[family]
    requests, parameters = [], {}
    for seed in range(60):
        drawn = random.Random(seed)
        schemas = [RandomSchema(1000 + 2 * seed + i).draw_object() for i in range(2)]
        tools = [{"name": f"tool-{i}", "parameters": schema} for i, schema in enumerate(schemas)]
        grammar = tool_grammar(tools, ToolChoice(text=False, parallel=seed % 2 == 0))
        shortest = grammars[family].constraint(grammar).limit(450)
        assert shortest is not None
        if shortest > 400:
            continue
        constraint = grammars[family].constraint(grammar)
        budget = shortest + drawn.choice([0, 1, 10, 50])
        constraint.limit(budget)
        parameters[str(seed)] = {tool["name"]: tool["parameters"] for tool in tools}
        requests.append(
            model.request(
                tokenizer.encode(str(seed)),
                drawn.choice(model.strategies),
                id=str(seed),
                max_tokens=budget,
                temperature=drawn.choice([0.0, 1.0]),
                seed=seed,
                constraint=constraint,
            )
        )
    assert len(requests) > 40
    scheduler = Scheduler(TorchRunner(model.model, PAGES), PAGES, tokenizer, Limits(max_requests=16, max_waiting=60))
    for request, result in zip(requests, run_all(scheduler, requests), strict=True):
        assert result.end.cause in (EndCause.COMPLETE, EndCause.STOP), (request.id, result)
        calls: dict[int, list[str]] = {}
        for delta in ToolCallParser().feed(result.text):
            if isinstance(delta, CallStarted):
                calls[delta.index] = [delta.name, ""]
            elif isinstance(delta, ArgumentsDelta):
                calls[delta.index][1] += delta.text
        assert calls, result.text
        for name, written in calls.values():
            jsonschema.validate(json.loads(written), parameters[request.id][name])
