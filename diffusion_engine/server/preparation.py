"""From a request's body to what the engine runs; every refusal is a 400 that names the field."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import jsonschema

from diffusion_engine.chat.grammar import GrammarError, ToolChoice, json_grammar, text_grammar, tool_grammar
from diffusion_engine.chat.messages import MessageError, normalised
from diffusion_engine.chat.template import ChatTemplateError
from diffusion_engine.decoding import Constraint, DecodingParameters, Sampling, check_parameters
from diffusion_engine.runtime import GenerationRequest
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.schemas import (
    ChatCompletionRequest,
    CompletionRequest,
    GenerationFields,
    NamedToolChoice,
)
from diffusion_engine.server.served_model import ServedModel


@dataclass(frozen=True)
class Prepared:
    """A checked request.

    Attributes:
        request: for the engine.
        tools: schemas of the arguments by tool name, when the reply may hold calls.
        schema: that the whole reply must satisfy, or None.
    """

    request: GenerationRequest
    tools: dict[str, dict[str, Any]]
    schema: dict[str, Any] | None = None


def prepare_chat(body: ChatCompletionRequest, model: ServedModel) -> Prepared:
    """Check a chat request, render and tokenize its prompt, build its grammar.

    Raises:
        ApiError: 400 naming the field, or 404 for another model's name.
    """
    _check_model(body, model)
    if model.template is None:
        raise ApiError(
            400, f"{model.name} has no chat template; use /v1/completions", param="messages", code="no_chat_template"
        )
    if body.max_tokens is not None and body.max_completion_tokens not in (None, body.max_tokens):
        raise ApiError(400, "max_tokens and max_completion_tokens differ; send one", param="max_completion_tokens")
    functions = [tool.function.model_dump(exclude_none=True) for tool in body.tools or []]
    try:
        prompt = model.template.render(
            normalised(body.messages),
            [{"type": "function", "function": function} for function in functions] or None,
        )
    except MessageError as wrong:
        raise ApiError(400, str(wrong), param=wrong.param) from wrong
    except ChatTemplateError as refused:
        raise ApiError(400, f"the chat template refuses the messages: {refused}", param="messages") from refused
    schema = _reply_schema(body)
    choice = _tool_choice(body, [function["name"] for function in functions])
    constraint, param = _constraint(functions, choice, schema, model)
    return Prepared(
        request=_request(
            body,
            model,
            model.tokenizer.encode(prompt),
            body.max_completion_tokens or body.max_tokens,
            constraint,
            param,
        ),
        tools={f["name"]: f.get("parameters") or {} for f in functions} if choice is not None else {},
        schema=schema,
    )


def prepare_completion(body: CompletionRequest, model: ServedModel) -> Prepared:
    """Check a completion request and tokenize its prompt.

    Raises:
        ApiError: 400 naming the field, or 404 for another model's name.
    """
    _check_model(body, model)
    prompt: Any = body.prompt
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str):
        if len(prompt) > 1:
            raise ApiError(400, "one prompt a request is supported", param="prompt")
        prompt = prompt[0]
    tokens = model.tokenizer.encode(prompt, add_special_tokens=True) if isinstance(prompt, str) else list(prompt)
    for token in tokens:
        if not 0 <= token < model.config.vocab_size:
            raise ApiError(400, f"token {token} is outside the vocabulary", param="prompt")
    return Prepared(request=_request(body, model, tokens, body.max_tokens or 16, None, "prompt"), tools={})


def _check_model(body: GenerationFields, model: ServedModel) -> None:
    if body.model not in (None, model.name):
        raise ApiError(
            404,
            f"the model {body.model!r} is not served here; {model.name!r} is",
            param="model",
            code="model_not_found",
        )


def _reply_schema(body: ChatCompletionRequest) -> dict[str, Any] | None:
    wanted = body.response_format
    if wanted is None or wanted.type == "text":
        return None
    if body.tools and body.tool_choice != "none":
        raise ApiError(
            400, "response_format can't be combined with tools; send tool_choice none", param="response_format"
        )
    return {"type": "object"} if wanted.json_schema is None else wanted.json_schema.schema_


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


def _constraint(
    functions: list[dict[str, Any]], choice: ToolChoice | None, schema: dict[str, Any] | None, model: ServedModel
) -> tuple[Constraint | None, str]:
    """The grammar at its beginning, and the field to blame for it."""
    if schema is not None:
        grammar, param = json_grammar(schema), "response_format"
    elif choice is not None:
        grammar, param = tool_grammar(functions, choice), "tools"
    elif functions:
        grammar, param = text_grammar(), "tools"
    else:
        return None, ""
    if grammar not in model.grammars:
        _check_schemas([schema] if schema is not None else [f.get("parameters") or {} for f in functions], param)
    try:
        return model.grammars.constraint(grammar), param
    except GrammarError as unsupported:
        raise ApiError(
            400, f"{param}: this schema can't be enforced: {unsupported}", param=param, code="unsupported_schema"
        ) from unsupported


def _check_schemas(schemas: list[dict[str, Any]], param: str) -> None:
    for schema in schemas:
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as wrong:
            raise ApiError(400, f"{param}: not a JSON schema: {wrong.message}", param=param) from wrong


def _request(
    body: GenerationFields,
    model: ServedModel,
    prompt: list[int],
    max_tokens: int | None,
    constraint: Constraint | None,
    param: str,
) -> GenerationRequest:
    context = model.config.max_positions
    room = context - len(prompt)
    field = "messages" if isinstance(body, ChatCompletionRequest) else "prompt"
    if not prompt:
        raise ApiError(400, "the prompt is empty", param=field)
    if room < 1 or (max_tokens or 1) > room:
        wanted = f"and max_tokens {max_tokens}" if room >= 1 else "leave no room for a reply"
        raise ApiError(
            400,
            f"this model's context is {context} tokens; the prompt's {len(prompt)} {wanted} exceed it",
            param=field if room < 1 else "max_tokens",
            code="context_length_exceeded",
        )
    options = body.diffusion
    temperature = model.temperature if body.temperature is None else body.temperature
    try:
        parameters = DecodingParameters(
            strategy=options.strategy or model.strategy,
            block_length=options.block_length or model.config.block_length,
            threshold=0.9 if options.threshold is None else options.threshold,
            denoising_steps=options.denoising_steps,
            sampling=Sampling(
                temperature=temperature,
                top_p=1.0 if body.top_p is None else body.top_p,
                seed=secrets.randbits(63) if body.seed is None else body.seed,
            ),
        )
        check_parameters(model.config, parameters)
    except ValueError as wrong:
        raise ApiError(
            400, f"diffusion.{wrong}", param=f"diffusion.{str(wrong).split(maxsplit=1)[0].rstrip(':')}"
        ) from wrong
    return GenerationRequest(
        id=options.request_id or f"req-{secrets.token_hex(12)}",
        prompt=prompt,
        parameters=parameters,
        max_tokens=max_tokens or min(room, model.max_tokens or room),
        stop=body.stop_strings,
        constraint=constraint,
        prefill_only=options.prefill_only,
    )
