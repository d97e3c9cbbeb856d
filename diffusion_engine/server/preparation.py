"""From a request's body to what the engine runs; every refusal is a 400 that names the field."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

from diffusion_engine.chat.messages import MessageError, normalised
from diffusion_engine.chat.template import ChatTemplateError
from diffusion_engine.decoding import (
    CanvasCache,
    Constraint,
    DecodingParameters,
    Sampling,
    check_parameters,
)
from diffusion_engine.runtime import GenerationRequest
from diffusion_engine.server.constraints import ReplyForm, functions_of, reply_form
from diffusion_engine.server.drafts import draft_of_message
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.probes import probe_position
from diffusion_engine.server.schemas import ChatCompletionRequest, CompletionRequest, GenerationFields
from diffusion_engine.server.served_model import ServedModel


@dataclass(frozen=True)
class Prepared:
    """A checked request.

    Attributes:
        request_id: as the client knows it.
        request: for the engine.
        form: that the reply is held to.
        prompt: as text; empty where it isn't a chat's.
    """

    request_id: str
    request: GenerationRequest
    form: ReplyForm
    prompt: str = ""


def engine_id(owner: str, request_id: str) -> str:
    """The id in the engine of a client's request: clients with keys of their own can't reach each other's."""
    return f"{owner}/{request_id}" if owner else request_id


def prepare_chat(body: ChatCompletionRequest, model: ServedModel, owner: str) -> Prepared:
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
    try:
        prompt = model.template.render(
            normalised(body.messages),
            [{"type": "function", "function": function} for function in functions_of(body)] or None,
        )
    except MessageError as wrong:
        raise ApiError(400, str(wrong), param=wrong.param) from wrong
    except ChatTemplateError as refused:
        raise ApiError(400, f"the chat template refuses the messages: {refused}", param="messages") from refused
    form = reply_form(body, model)
    tokens = model.tokenizer.encode(prompt)
    draft = draft_of_message(body, model.template, prompt)
    max_tokens = body.max_completion_tokens or body.max_tokens
    prepared = _prepared(body, model, owner, tokens, max_tokens, form, draft)
    request = replace(prepared.request, probe=probe_position(body, model, prompt))
    return replace(prepared, request=request, prompt=prompt)


def prepare_completion(body: CompletionRequest, model: ServedModel, owner: str) -> Prepared:
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
    max_tokens = body.max_tokens or model.completion_max_tokens
    draft = body.diffusion.draft
    if isinstance(draft, dict):
        raise ApiError(400, "diffusion.draft: must be text where the prompt is", param="diffusion.draft")
    if body.diffusion.probe is not False:
        raise ApiError(400, "diffusion.probe: a plain prompt has no user's turn", param="diffusion.probe")
    return _prepared(body, model, owner, tokens, max_tokens, ReplyForm(None, {}), draft)


def _check_model(body: GenerationFields, model: ServedModel) -> None:
    if body.model not in (None, model.name):
        raise ApiError(
            404,
            f"the model {body.model!r} is not served here; {model.name!r} is",
            param="model",
            code="model_not_found",
        )


def _prepared(
    body: GenerationFields,
    model: ServedModel,
    owner: str,
    prompt: list[int],
    max_tokens: int | None,
    form: ReplyForm,
    draft: str | None,
) -> Prepared:
    context = model.config.max_positions
    room = context - len(prompt)
    field = "messages" if isinstance(body, ChatCompletionRequest) else "prompt"
    if not prompt:
        raise ApiError(400, "the prompt is empty", param=field)
    if room < 1 or (max_tokens or 1) > room:
        excess = f"and max_tokens {max_tokens} exceed it" if room >= 1 else "leave no room for a reply"
        raise ApiError(
            400,
            f"this model's context is {context} tokens; the prompt's {len(prompt)} {excess}",
            param=field if room < 1 else "max_tokens",
            code="context_length_exceeded",
        )
    options = body.diffusion
    budget = max_tokens or min(room, model.max_tokens or room)
    if form.constraint is not None and not options.prefill_only:
        _hold_to(form.constraint, budget)
    temperature = model.temperature if body.temperature is None else body.temperature
    try:
        parameters = DecodingParameters(
            strategy=options.strategy or model.strategy,
            block_length=options.block_length or model.config.block_length,
            threshold=model.threshold if options.threshold is None else options.threshold,
            denoising_steps=options.denoising_steps,
            entropy_bound=0.1 if options.entropy_bound is None else options.entropy_bound,
            edit_threshold=0.9 if options.edit_threshold is None else options.edit_threshold,
            sub_block_length=options.sub_block_length,
            canvas_cache=options.canvas_cache or CanvasCache.NONE,
            fold_commit=options.fold_commit,
            top_logprobs=body.alternatives,
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
    request_id = options.request_id or f"req-{secrets.token_hex(12)}"
    request = GenerationRequest(
        id=engine_id(owner, request_id),
        prompt=prompt,
        parameters=parameters,
        max_tokens=budget,
        stop=body.stop_strings,
        constraint=form.constraint,
        repetition_limit=options.repetition_limit or None,
        prefill_only=options.prefill_only,
        priority=options.priority,
        deadline_s=None if options.deadline_ms is None else options.deadline_ms / 1000,
        snapshots=isinstance(body, ChatCompletionRequest) and body.diffusing,
        draft=_draft_tokens(draft, model, budget),
    )
    return Prepared(request_id, request, form)


def _draft_tokens(draft: str | None, model: ServedModel, budget: int) -> tuple[int, ...]:
    if not draft:
        return ()
    tokens = model.tokenizer.encode(draft)[:budget]
    ends = model.config.eos_token_ids
    return (*tokens, *ends[:1]) if not set(tokens) & set(ends) else tuple(tokens)


def _hold_to(constraint: Constraint, budget: int) -> None:
    """Make the reply end within its budget as a whole document.

    Where not even a search finds how the document could end, the reply isn't steered, and `finish_reason` tells.

    Raises:
        ApiError: the shortest document found is longer than the budget.
    """
    shortest = constraint.limit(budget)
    if shortest is not None and shortest > budget:
        raise ApiError(
            400,
            f"max_tokens {budget} can't hold a reply of the form asked for: the shortest takes {shortest} tokens",
            param="max_tokens",
            code="max_tokens_too_small",
        )
