"""A short string for a regular expression, as a hint for closing a document: whether it fits, the grammar decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

EXAMPLES_OF_FORMATS = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@a.aa",
    "hostname": "a",
    "ipv4": "0.0.0.0",
    "ipv6": "::",
    "uri": "a:a",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
_PARSER: Any = getattr(re, "_parser")  # noqa: B009  the standard library's own parse tree of a pattern
_CATEGORY = {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
_IS: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda char: char.isalnum() or char == "_",
}
_PLAIN = "a0 -_.,:;!#$%&()*+/<=>?@AZz[]^`{|}~"


def example_of(pattern: str) -> str:
    """A string that contains a match, as short as each of its parts can be; empty when the pattern is beyond this."""
    try:
        return _sequence(_PARSER.parse(pattern))
    except (re.error, OverflowError, RecursionError):
        return ""


def _sequence(parts: Iterable[Any]) -> str:
    return "".join(_one(str(kind), value) for kind, value in parts)


def _one(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, inner = value
        return _sequence(inner) * min(int(least), 1000)
    if kind == "SUBPATTERN":
        return _sequence(value[-1])
    if kind == "BRANCH":
        return min((_sequence(branch) for branch in value[1]), key=len)
    if kind == "NOT_LITERAL":
        return next(char for char in _PLAIN if ord(char) != value)
    if kind == "IN":
        return _member(value)
    return "a" if kind == "ANY" else ""


def _member(items: list[Any]) -> str:
    """A character of a class."""
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    if not negated:
        kind, value = str(items[0][0]), items[0][1]
        if kind == "RANGE":
            return chr(value[0])
        return chr(value) if kind == "LITERAL" else _CATEGORY.get(str(value), "-")
    return next((char for char in _PLAIN if not any(_within(char, item) for item in items[1:])), "")


def _within(char: str, item: Any) -> bool:
    kind, value = str(item[0]), item[1]
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if kind == "LITERAL":
        return bool(ord(char) == value)
    return str(value) not in _CATEGORY or _IS[str(value)](char)
