"""JSON schemas drawn at random from the keywords that are served."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

WORDS = ["a", "id", "name", "späť", 'say "hi"', "back\\slash", "", "two words", "日本", "x/y", "null", "0"]
PATTERNS = [
    "^[A-Z]{2}-[0-9]{3}$",
    "^(abc|de+f)?$",
    "^[a-z]+@[a-z]+[.]com$",
    "^[0-9]+[a-z]$",
    "[xyz]{3}",
    "^a.*b$",
    r"^\d{4}-\d{2}$",
    "^[^a-y]{2,4}$",
]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email"]


class RandomSchema:
    """Draws one schema; `recursive` ones refer to their own definitions, always with a way out."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._definitions: dict[str, Schema] = {}

    def draw(self) -> Schema:
        schema = self._schema(3)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def draw_object(self) -> Schema:
        """One of type object, as tools' parameters are."""
        schema = self._object(2)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def _schema(self, depth: int) -> Schema:
        leaves: list[Callable[[int], Schema]] = [
            self._string, self._integer, self._number, self._enum, self._const, self._plain
        ]  # fmt: skip
        nested = [
            self._object, self._object, self._array, self._any_of, self._nullable, self._ref, self._all_of, self._map
        ]  # fmt: skip
        return self._random.choice(nested if depth == 3 else leaves + nested if depth > 0 else leaves)(depth)

    def _plain(self, depth: int) -> Schema:
        return {"type": self._random.choice(["boolean", "null", "integer", "number", "string"])}

    def _string(self, depth: int) -> Schema:
        kind = self._random.randrange(5)
        if kind == 0:
            return {"type": "string", "pattern": self._random.choice(PATTERNS)}
        if kind == 1:
            return {"type": "string", "format": self._random.choice(FORMATS)}
        low = self._random.choice([0, 1, 5, 12])
        return {"type": "string", "minLength": low, "maxLength": low + self._random.choice([0, 1, 10])}

    def _integer(self, depth: int) -> Schema:
        low = self._random.choice([-1000, -7, 0, 3, 99, 12345])
        schema: Schema = {"type": "integer", "minimum": low}
        if self._random.random() < 0.7:
            schema["maximum"] = low + self._random.choice([0, 1, 20, 5000])
        if self._random.random() < 0.2:
            schema = {"type": "integer", "multipleOf": self._random.choice([2, 5, 7])}
        return schema

    def _number(self, depth: int) -> Schema:
        low = self._random.choice([-2.5, 0, 0.25, 10])
        lower = self._random.choice(["minimum", "exclusiveMinimum"])
        upper = self._random.choice(["maximum", "exclusiveMaximum"])
        return {"type": "number", lower: low, upper: low + self._random.choice([0.5, 3, 1000])}

    def _enum(self, depth: int) -> Schema:
        values: list[Any] = [*self._random.sample(WORDS, 3), None, True, 7, -1.5, {"k": [1]}]
        return {"enum": self._random.sample(values, self._random.randint(1, 4))}

    def _const(self, depth: int) -> Schema:
        return {"const": self._random.choice([*WORDS, 3, None, False, ["x", {}], {"a": 'b"'}])}

    def _object(self, depth: int) -> Schema:
        names = self._random.sample(WORDS, self._random.randint(0, 4))
        schema: Schema = {
            "type": "object",
            "properties": {name: self._schema(depth - 1) for name in names},
            "required": [name for name in names if self._random.random() < 0.6],
            "additionalProperties": self._random.choice([False, False, True, {"type": "integer"}]),
        }
        if self._random.random() < 0.3:
            del schema["additionalProperties"]
        return schema

    def _array(self, depth: int) -> Schema:
        if self._random.random() < 0.2:
            head = [self._schema(depth - 1) for _ in range(self._random.randint(1, 3))]
            return {"type": "array", "prefixItems": head, "items": False, "minItems": len(head)}
        low = self._random.choice([0, 0, 1, 3])
        schema: Schema = {"type": "array", "items": self._schema(depth - 1), "minItems": low}
        if self._random.random() < 0.6:
            schema["maxItems"] = low + self._random.choice([0, 2])
        return schema

    def _any_of(self, depth: int) -> Schema:
        return {"anyOf": [self._schema(depth - 1) for _ in range(self._random.randint(2, 3))]}

    def _nullable(self, depth: int) -> Schema:
        return self._random.choice(
            [
                {"type": ["string", "null"]},
                {"type": ["integer", "null"]},
                {"anyOf": [self._object(0), {"type": "null"}]},
            ]
        )

    def _all_of(self, depth: int) -> Schema:
        return {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 40}]}

    def _map(self, depth: int) -> Schema:
        return self._random.choice(
            [
                {"type": "object", "additionalProperties": self._schema(depth - 1)},
                {"type": "object", "patternProperties": {"^[a-z]{1,3}$": self._schema(depth - 1)}},
                {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "boolean"}, {"type": "object"}]},
            ]
        )

    def _ref(self, depth: int) -> Schema:
        name = f"d{len(self._definitions)}"
        self._definitions[name] = {"type": "null"}  # takes the name while the definition is drawn
        target = {"$ref": f"#/$defs/{name}"}
        inner = self._schema(depth - 1)
        self._definitions[name] = self._random.choice(
            [
                inner,
                {
                    "type": "object",
                    "properties": {"value": inner, "next": {"anyOf": [{"type": "null"}, target]}},
                    "required": ["value", "next"],
                    "additionalProperties": False,
                },
                {"type": "object", "properties": {"kids": {"type": "array", "items": target}}, "required": ["kids"]},
            ]
        )
        return target
