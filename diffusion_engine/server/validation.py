"""Checking a document against its schema by the `jsonschema` package, which knows nothing of our grammars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for


def validate(text: str, schema: dict[str, Any]) -> None:
    """Parse and check.

    Args:
        text: of the document.
        schema: of the draft that it names, else of 2020-12.

    Raises:
        ValueError: it is not JSON, or not valid; says why.
    """
    document = json.loads(text)
    wrong = next(_exact(validator_for(schema, jsonschema.Draft202012Validator))(schema).iter_errors(document), None)
    if wrong is not None:
        raise ValueError(wrong.message)


@cache
def _exact(draft: type[Validator]) -> type[Validator]:
    """The draft's validator with multiples told in decimals: 0.3 is no multiple of 0.1 in binary."""
    exact: type[Validator] = extend(draft, {"multipleOf": _multiple_of})  # type: ignore[no-untyped-call]
    return exact


def _multiple_of(
    validator: Validator, divisor: float, instance: Any, schema: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(instance, "number") and Decimal(str(instance)) % Decimal(str(divisor)):
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {divisor}")
