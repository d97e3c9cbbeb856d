"""JSON schemas made enforceable: what the grammar engine can't hold a reply to is refused by keyword and place, what it
would hold to inexactly is written so that everything it allows is valid.

The result allows a part of what the schema allows, never more. Inexact in llguidance 1.9 are: exclusive bounds of
numbers (an integer bound itself is let through), numbers beyond 2**53, names of further properties (`"\\u0061"` passes
for another name than `"a"`), and `minProperties` (a name that is repeated counts twice).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from diffusion_engine.chat.endless import endless

Schema = dict[str, Any]
Refusal = Callable[[Schema], str | None]
"""Compiles a schema; the grammar engine's complaint, or None."""

_UNSUPPORTED = (
    "not", "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames", "dependentRequired",
    "dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
_ONE = ("items", "additionalItems", "additionalProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LARGEST = 2**53
"""Up to here a double holds every whole number, and the grammar engine reads numbers as such."""
_EXCLUSIVE = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))


class SchemaError(ValueError):
    """A schema that can't be enforced.

    Attributes:
        path: JSON pointer to the subschema, empty for the whole.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"at {path or '/'}: {reason}")
        self.path = path


def enforceable(schema: Schema) -> Schema:
    """The schema as the grammar engine needs it; see the module.

    Raises:
        SchemaError: a keyword or a number isn't supported, or no finite document satisfies a part of it.
    """
    out = _enforceable(schema, "")
    if (place := endless(schema, _children)) is not None:
        raise SchemaError(place, "only a document without an end satisfies it")
    return out


def _enforceable(schema: Schema, path: str) -> Schema:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            raise SchemaError(path, f"the keyword {keyword!r} is not supported")
    if schema.get("uniqueItems"):
        raise SchemaError(path, "the keyword 'uniqueItems' is not supported")
    for keyword in (*_NUMBERS, "const", "enum"):
        if keyword in schema and (number := _inexact(schema[keyword], bound=keyword in _NUMBERS)) is not None:
            raise SchemaError(path, f"{keyword!r} has {number}, which a double-precision number does not hold exactly")
    out = _with_children(schema, path, _enforceable)
    if schema.get("minProperties", 0) > len(schema.get("required", ())):
        raise SchemaError(path, "the keyword 'minProperties' is supported up to the number of required properties")
    out.pop("minProperties", None)
    for exclusive, inclusive, sign in _EXCLUSIVE:
        if exclusive in out:
            out[inclusive] = _inside(out, exclusive, inclusive, sign)
            del out[exclusive]
    if out.get("properties") or out.get("patternProperties"):
        _close(out)
    return out


def blamed(schema: Schema, refusal: Refusal) -> str:
    """JSON pointer to the innermost subschema with the complaint that the grammar engine has about the whole."""
    definitions: Schema = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    complaint, path, here = refusal(schema), "", schema
    while complaint is not None:
        for place, child in _children(here):
            if refusal({**definitions, **child}) == complaint:
                path, here = path + place, child
                break
        else:
            break
    return path


def _children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for keyword in _ONE:
        if isinstance(schema.get(keyword), dict):
            yield f"/{keyword}", schema[keyword]
    for keyword in _LISTS:
        if isinstance(schema.get(keyword), list):
            yield from (
                (f"/{keyword}/{i}", child) for i, child in enumerate(schema[keyword]) if isinstance(child, dict)
            )
    for keyword in _MAPS:
        if isinstance(schema.get(keyword), dict):
            for name, child in schema[keyword].items():
                if isinstance(child, dict):
                    yield f"/{keyword}/{name.replace('~', '~0').replace('/', '~1')}", child


def _with_children(schema: Schema, path: str, change: Callable[[Schema, str], Schema]) -> Schema:
    """A copy with every subschema changed."""
    changed = {place: change(child, path + place) for place, child in _children(schema)}
    out = dict(schema)
    for keyword in _ONE:
        if f"/{keyword}" in changed:
            out[keyword] = changed[f"/{keyword}"]
    for keyword in _LISTS:
        if isinstance(schema.get(keyword), list):
            out[keyword] = [changed.get(f"/{keyword}/{i}", child) for i, child in enumerate(schema[keyword])]
    for keyword in _MAPS:
        if isinstance(schema.get(keyword), dict):
            out[keyword] = {
                name: changed.get(f"/{keyword}/{name.replace('~', '~0').replace('/', '~1')}", child)
                for name, child in schema[keyword].items()
            }
    return out


def _inexact(value: object, *, bound: bool) -> int | float | None:
    """A number in a value that the grammar engine would read as another one."""
    if isinstance(value, list | tuple):
        return next((found for part in value if (found := _inexact(part, bound=bound)) is not None), None)
    if isinstance(value, dict):
        return _inexact(list(value.values()), bound=bound)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) <= _LARGEST:
        return None
    return (
        value
        if bound or (isinstance(value, int) and (value.bit_length() > 1024 or int(float(value)) != value))
        else None
    )


def _inside(schema: Schema, exclusive: str, inclusive: str, sign: int) -> int | float:
    """An inclusive bound a little inside an exclusive one, and within an inclusive one beside it."""
    bound = Decimal(str(schema[exclusive]))
    if step := schema.get("multipleOf"):
        multiple = Decimal(str(step))
        steps = (bound / multiple).to_integral_value(ROUND_FLOOR if sign > 0 else ROUND_CEILING)
        inside = (steps + sign) * multiple
    elif schema.get("type") == "integer" and bound == int(bound):
        inside = bound + sign
    else:
        # Six decimals of the bound or of the distance to the other end, whichever is finer.
        others = [Decimal(str(schema[name])) for pair in _EXCLUSIVE for name in pair[:2] if name in schema]
        distances = [abs(other - bound) for other in others if other != bound]
        finest = min([Decimal(1), *distances])
        inside = bound + sign * Decimal(1).scaleb(finest.adjusted() - 6)
    if inclusive in schema:
        inside = (max if sign > 0 else min)(inside, Decimal(str(schema[inclusive])))
    return int(inside) if inside == int(inside) else float(inside)


def _close(schema: Schema) -> None:
    """Give the names of further properties a pattern, for in patterns escapes can't pass for other names."""
    further = schema.get("additionalProperties", True)
    if further is False or schema.get("patternProperties"):
        schema["additionalProperties"] = False  # beside patterns no further names are made
        return
    if further is True or further == {}:
        schema["patternProperties"] = {"^.*$": {}}  # the engine itself leaves the declared names out of it
    else:
        schema["patternProperties"] = {f"^{_other_than(list(schema.get('properties', {})))}$": further}
    schema["additionalProperties"] = False


def _other_than(names: list[str]) -> str:
    """A regular expression, without look-around, for every string but these."""
    heads = sorted({name[0] for name in names if name})
    parts = [re.escape(head) + _other_than([name[1:] for name in names if name[:1] == head]) for head in heads]
    parts.append(f"[^{''.join(re.escape(head) for head in heads)}].*" if heads else ".+")
    return f"(?:{'|'.join(parts)})" + ("" if "" in names else "?")
