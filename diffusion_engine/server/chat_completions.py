"""`POST /v1/chat/completions`."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from diffusion_engine.chat.tool_calls import ArgumentsDelta, CallStarted, ContentDelta, Delta, ToolCallParser
from diffusion_engine.runtime import EndCause, EndEvent, Event
from diffusion_engine.server.answers import (
    DONE,
    collect,
    fault,
    finish_reason,
    first_events,
    server_sent,
    text_of,
)
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.generation import Generation, GenerationStream
from diffusion_engine.server.phases import Phases, extension, usage
from diffusion_engine.server.preparation import Prepared, prepare_chat
from diffusion_engine.server.schemas import ChatCompletionRequest
from diffusion_engine.server.served_model import ServedModel
from diffusion_engine.server.validation import validate

logger = logging.getLogger(__name__)


async def chat_completion(request: Request, body: ChatCompletionRequest, model: ServedModel) -> Response:
    """Answer one request, streamed or whole.

    Raises:
        ApiError: it can't be served.
        ClientGoneError: the client has left.
    """
    phases = Phases()
    if body.tools or body.response_format:
        # Grammars take milliseconds to compile, and tight budgets up to a second: other streams go on meanwhile.
        prepared = await asyncio.to_thread(prepare_chat, body, model, request.state.owner)
    else:
        prepared = prepare_chat(body, model, request.state.owner)
    phases.mark_tokenized()
    generation = Generation(model.engine, prepared.request)
    reply = _Reply(model.name, prepared)
    if not body.stream:
        text, end = await collect(request, generation)
        headers = {"Server-Timing": phases.server_timing(end.statistics)}
        return JSONResponse(reply.whole(text, end, phases), headers=headers)
    events = await first_events(request, generation)
    include_usage = body.stream_options is not None and body.stream_options.include_usage
    return GenerationStream(
        generation,
        reply.stream(events, generation, phases, include_usage=include_usage),
        {"Server-Timing": phases.server_timing(events[0].statistics)},
    )


class _Reply:
    """One reply in OpenAI's shape."""

    def __init__(self, model_name: str, prepared: Prepared) -> None:
        self._prepared = prepared
        self._parser = ToolCallParser() if prepared.form.tools else None
        self._common = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model_name,
        }
        self._calls: list[dict[str, Any]] = []

    def whole(self, text: str, end: EndEvent, phases: Phases) -> dict[str, Any]:
        """The body of a response that is not streamed."""
        deltas = self._deltas(text) + self._rest()
        content = "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))
        for delta in deltas:
            self._follow_call(delta)
        reason = finish_reason(end.cause, bool(self._calls))
        self._check(content, end.cause)
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if self._calls else "")}
        if self._calls:
            message["tool_calls"] = self._calls
        return {
            **self._common,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
            "usage": usage(end.statistics),
            "diffusion": extension(end, phases, self._prepared.request_id),
        }

    async def stream(
        self, events: list[Event], generation: Generation, phases: Phases, *, include_usage: bool
    ) -> AsyncIterator[str]:
        """The events of a stream: a chunk for each step that brought text."""
        yield self._chunk({"role": "assistant", "content": ""})
        content = ""
        while True:
            end = events[-1] if isinstance(events[-1], EndEvent) else None
            deltas = self._deltas(text_of(events)) + (self._rest() if end is not None else [])
            for delta in deltas:
                if isinstance(delta, ContentDelta):
                    content += delta.text
                yield self._chunk(self._follow_call(delta))
            if end is not None:
                break
            events = await generation.next()
        error = fault(end)
        reason = finish_reason(end.cause, bool(self._calls))
        try:
            self._check(content, end.cause)
        except ApiError as invalid:
            error = error or invalid
        if error is not None:
            yield server_sent(error.body)
            yield DONE
            return
        ours = {"diffusion": extension(end, phases, self._prepared.request_id)}
        yield self._chunk({}, reason, {} if include_usage else ours)
        if include_usage:
            yield server_sent(
                {
                    **self._common,
                    "object": "chat.completion.chunk",
                    "choices": [],
                    "usage": usage(end.statistics),
                    **ours,
                }
            )
        yield DONE

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, more: dict[str, Any] | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return server_sent({**self._common, "object": "chat.completion.chunk", "choices": [choice], **(more or {})})

    def _deltas(self, text: str) -> list[Delta]:
        if self._parser is not None:
            return self._parser.feed(text)
        return [ContentDelta(text)] if text else []

    def _rest(self) -> list[Delta]:
        return self._parser.finish() if self._parser is not None else []

    def _follow_call(self, delta: Delta) -> dict[str, Any]:
        """Keep the calls so far; the delta in OpenAI's shape."""
        if isinstance(delta, ContentDelta):
            return {"content": delta.text}
        if isinstance(delta, CallStarted):
            call = {"id": f"call_{secrets.token_hex(12)}", "type": "function"}
            self._calls.append({**call, "function": {"name": delta.name, "arguments": ""}})
            return {"tool_calls": [{"index": delta.index, **call, "function": {"name": delta.name, "arguments": ""}}]}
        assert isinstance(delta, ArgumentsDelta)
        self._calls[delta.index]["function"]["arguments"] += delta.text
        return {"tool_calls": [{"index": delta.index, "function": {"arguments": delta.text}}]}

    def _check(self, content: str, cause: EndCause) -> None:
        """Validate a reply that ended by itself, with a validator that knows nothing of our grammars.

        Raises:
            ApiError: 500, for it is our fault, and worse if it went on unseen.
        """
        if cause not in (EndCause.STOP, EndCause.COMPLETE):
            return
        form = self._prepared.form
        try:
            if form.document is not None and not self._calls:
                validate(content, form.document)
            for call in self._calls:
                validate(call["function"]["arguments"], form.tools[call["function"]["name"]])
        except (ValueError, KeyError) as invalid:
            logger.error("request %s: the reply does not satisfy its schema: %s", self._prepared.request.id, invalid)
            raise ApiError(
                500, "the reply does not satisfy the schema that it was held to", code="invalid_output"
            ) from invalid
