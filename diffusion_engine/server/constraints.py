"""From `tools`, `tool_choice` and `response_format` to the grammar that a reply is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonschema
from jsonschema.validators import validator_for

from diffusion_engine.chat.grammar import GrammarError, ToolChoice, json_grammar, text_grammar, tool_grammar
from diffusion_engine.decoding import Constraint
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.schemas import ChatCompletionRequest, NamedToolChoice
from diffusion_engine.server.served_model import ServedModel

Schema = dict[str, Any]
_OBJECT: Schema = {"type": "object"}


@dataclass(frozen=True)
class ReplyForm:
    """What a reply must look like.

    Attributes:
        constraint: the grammar at its beginning; None for free text.
        tools: schemas of the arguments by tool name, when the reply may hold calls.
        document: schema of a reply without calls; None for text.
    """

    constraint: Constraint | None
    tools: dict[str, Schema]
    document: Schema | None = None


def reply_form(body: ChatCompletionRequest, model: ServedModel) -> ReplyForm:
    """Build the grammar that a request asks for.

    Raises:
        ApiError: 400 naming the field; for a schema also the keyword and its place.
    """
    functions = functions_of(body)
    choice = _tool_choice(body, [function["name"] for function in functions])
    document = _document(body)
    schemas = {f"tools.{i}.function.parameters": f.get("parameters") or {} for i, f in enumerate(functions)}
    if document is not None:
        schemas["response_format"] = document
    try:
        if choice is not None:
            grammar = tool_grammar(functions, choice, document)
        elif document is not None:
            grammar = json_grammar(document)
        elif functions:
            grammar = text_grammar()
        else:
            return ReplyForm(None, {})
        if grammar not in model.grammars:
            _check(schemas)
        constraint = model.grammars.constraint(grammar)
    except GrammarError as unsupported:
        _check(schemas)
        raise _refusal(schemas, model, unsupported) from unsupported
    return ReplyForm(
        constraint, {f["name"]: f.get("parameters") or {} for f in functions} if choice is not None else {}, document
    )


def functions_of(body: ChatCompletionRequest) -> list[dict[str, Any]]:
    """The functions of `tools`."""
    return [tool.function.model_dump(exclude_none=True) for tool in body.tools or []]


def _document(body: ChatCompletionRequest) -> Schema | None:
    wanted = body.response_format
    if wanted is None or wanted.type == "text":
        return None
    return _OBJECT if wanted.json_schema is None else wanted.json_schema.schema_


def _tool_choice(body: ChatCompletionRequest, names: list[str]) -> ToolChoice | None:
    """What may be called, or None for no call."""
    choice = body.tool_choice or ("auto" if names else "none")
    if choice == "none":
        return None
    if not names:
        raise ApiError(400, "tool_choice needs tools", param="tool_choice")
    if len(set(names)) < len(names):
        raise ApiError(400, "two tools have the same name", param="tools")
    parallel = body.parallel_tool_calls is not False
    if isinstance(choice, NamedToolChoice):
        if choice.function.name not in names:
            raise ApiError(400, f"tool_choice names {choice.function.name!r}, not among tools", param="tool_choice")
        return ToolChoice(text=False, names=(choice.function.name,), parallel=False)
    return ToolChoice(text=choice == "auto", parallel=parallel)


def _check(schemas: dict[str, Schema]) -> None:
    for field, schema in schemas.items():
        try:
            validator_for(schema, jsonschema.Draft202012Validator).check_schema(schema)
        except jsonschema.SchemaError as wrong:
            place = "".join(f"/{part}" for part in wrong.absolute_path) or "/"
            raise ApiError(
                400, f"{field}: not a JSON schema, at {place}: {wrong.message}", param=_param(field)
            ) from wrong


def _refusal(schemas: dict[str, Schema], model: ServedModel, complaint: GrammarError) -> ApiError:
    """The error that names the schema at fault, the keyword and its place."""
    for field, schema in schemas.items():
        if (reason := model.grammars.explanation(schema)) is not None:
            return ApiError(
                400,
                f"{field}: this schema can't be enforced: {reason}",
                param=_param(field),
                code="unsupported_schema",
            )
    return ApiError(400, f"tools: can't be enforced: {complaint}", param="tools", code="unsupported_schema")


def _param(field: str) -> str:
    return field.split(".", maxsplit=1)[0]
