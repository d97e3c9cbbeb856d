"""Schemas that only a document without an end would satisfy: a reply held to one would never close."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
Children = Callable[[Schema], Iterator[tuple[str, Schema]]]
"""(JSON pointer from the schema, subschema) of its direct subschemas."""


def endless(root: Schema, children: Children) -> str | None:
    """JSON pointer to a subschema that no finite document satisfies; None when there is none.

    References are judged together, by the least fixed point: one ends if it does with those that are known to.
    """
    everywhere = list(_walk(root, children))
    references = {schema["$ref"] for _, schema in everywhere if isinstance(schema.get("$ref"), str)}
    targets = {reference: _target(root, reference) for reference in references}
    # What can't be resolved isn't judged here: the grammar engine complains of it.
    ending = {reference for reference, target in targets.items() if target is None}
    while more := {
        reference
        for reference, target in targets.items()
        if reference not in ending and target is not None and _ends(target, ending)
    }:
        ending |= more
    return next((place for place, schema in everywhere if not _ends(schema, ending)), None)


def _walk(schema: Schema, children: Children, place: str = "") -> Iterator[tuple[str, Schema]]:
    yield place, schema
    for step, child in children(schema):
        yield from _walk(child, children, place + step)


def _target(root: Schema, reference: str) -> Schema | None:
    if reference != "#" and not reference.startswith("#/"):
        return None
    here: Any = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            return None
    return here if isinstance(here, dict) else None


def _ends(schema: object, ending: set[str]) -> bool:
    """Whether a finite document satisfies the schema, of which references are known to end so far."""
    if not isinstance(schema, dict):
        return True
    if isinstance(schema.get("$ref"), str) and schema["$ref"] not in ending:
        return False
    if not all(_ends(part, ending) for part in schema.get("allOf", ())):
        return False
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice) and not any(_ends(part, ending) for part in schema[choice]):
            return False
    return all(_ends(part, ending) for part in _needed(schema))


def _needed(schema: Schema) -> list[object]:
    """The subschemas that have an instance in every document of the schema."""
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return [properties.get(name) for name in schema.get("required", ())]
    if schema.get("type") == "array":
        first = schema.get("prefixItems", [])
        count = schema.get("minItems", 0)
        return [*first[:count], *([schema.get("items")] if count > len(first) else [])]
    return []
