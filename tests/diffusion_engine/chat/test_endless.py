"""Schemas that no finite document satisfies, and those that merely refer to themselves."""

from __future__ import annotations

from typing import Any

import pytest

from diffusion_engine.chat.schemas import SchemaError, enforceable

CHAIN = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
MUTUAL = {
    "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]},
    "b": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1},
}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({**CHAIN, "required": ["next"]}, "/"),
        ({"$ref": "#"}, "/"),
        ({"$ref": "#/$defs/a", "$defs": MUTUAL}, "/"),
        ({"type": "object", "properties": {"may": {"$ref": "#/$defs/a"}}, "$defs": MUTUAL}, "/properties/may"),
        ({"anyOf": [{"$ref": "#"}, {"allOf": [{"type": "null"}, {"$ref": "#"}]}]}, "/"),
        ({"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1}, "/"),
    ],
)
def test_what_never_ends_is_refused_with_its_place(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(SchemaError, match=f"^at {place}: only a document without an end satisfies it"):
        enforceable(schema)


@pytest.mark.parametrize(
    "schema",
    [
        CHAIN,
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"type": "null"}, {**CHAIN, "required": ["next"]}]},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
        {"type": "array", "prefixItems": [{"type": "null"}], "items": {"$ref": "#"}, "minItems": 1},
    ],
)
def test_what_can_end_is_let_through(schema: dict[str, Any]) -> None:
    assert enforceable(schema)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "integer", "minimum": 10**20, "maximum": 10**20 + 3},
        {"type": "integer", "exclusiveMaximum": 2**53 + 1},
        {"type": "number", "multipleOf": 1e17},
        {"const": 123456789012345678901234567890},
        {"enum": ["a", {"b": [2**53 + 1]}]},
    ],
)
def test_numbers_that_would_be_read_as_others_are_refused(part: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=r"^at /properties/n: .* does not hold exactly"):
        enforceable({"type": "object", "properties": {"n": part}})


@pytest.mark.parametrize(
    "schema", [{"type": "integer", "minimum": -(2**53), "maximum": 2**53}, {"enum": [10**20, 0.1]}, {"const": True}]
)
def test_numbers_that_a_double_holds_are_let_through(schema: dict[str, Any]) -> None:
    assert enforceable(schema) == schema


@pytest.mark.parametrize(
    ("bounds", "inside"),
    [
        ({"exclusiveMinimum": 0.5, "exclusiveMaximum": 0.52}, {"minimum": 0.51, "maximum": 0.51}),
        ({"exclusiveMinimum": 0.505}, {"minimum": 0.51}),
        ({"exclusiveMaximum": -0.505}, {"maximum": -0.51}),
    ],
)
def test_an_exclusive_bound_beside_a_step_moves_to_the_next_multiple(
    bounds: dict[str, float], inside: dict[str, float]
) -> None:
    assert enforceable({"type": "number", "multipleOf": 0.01, **bounds}) == {
        "type": "number",
        "multipleOf": 0.01,
        **inside,
    }
