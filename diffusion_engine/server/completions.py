"""`POST /v1/completions`."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from diffusion_engine.runtime import EndEvent, Event
from diffusion_engine.server.answers import (
    DONE,
    collect,
    fault,
    finish_reason,
    first_events,
    logprobs_of,
    server_sent,
    text_of,
)
from diffusion_engine.server.generation import Generation, GenerationStream
from diffusion_engine.server.logprobs import completion_logprobs
from diffusion_engine.server.phases import Phases, extension, usage
from diffusion_engine.server.preparation import prepare_completion
from diffusion_engine.server.schemas import CompletionRequest
from diffusion_engine.server.served_model import ServedModel


async def completion(request: Request, body: CompletionRequest, model: ServedModel) -> Response:
    """Answer one request, streamed or whole.

    Raises:
        ApiError: it can't be served.
        ClientGoneError: the client has left.
    """
    phases = Phases()
    prepared = prepare_completion(body, model, request.state.owner)
    phases.mark_tokenized()
    generation = Generation(model.engine, prepared.request)
    common = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
    }
    said = ""

    def choice(events: list[Event], reason: str | None) -> dict[str, Any]:
        nonlocal said
        text = text_of(events)
        noted = None
        if body.logprobs is not None:
            noted = completion_logprobs(logprobs_of(events), model.tokenizer, len(said))
        said += text
        return {"index": 0, "text": text, "logprobs": noted, "finish_reason": reason}

    if not body.stream:
        events, end = await collect(request, generation)
        return JSONResponse(
            {
                **common,
                "choices": [choice(events, finish_reason(end.cause, calls=False))],
                "usage": usage(end.statistics),
                "diffusion": extension(end, phases, prepared.request_id),
            },
            headers={"Server-Timing": phases.server_timing(end.statistics)},
        )
    events = await first_events(request, generation)
    include_usage = body.stream_options is not None and body.stream_options.include_usage

    async def stream(events: list[Event]) -> AsyncIterator[str]:
        while True:
            if text_of(events) or logprobs_of(events):
                yield server_sent({**common, "choices": [choice(events, None)]})
            if isinstance(end := events[-1], EndEvent):
                break
            events = await generation.next()
        if (error := fault(end)) is not None:
            yield server_sent(error.body)
        else:
            last: dict[str, Any] = {**common, "choices": [choice([], finish_reason(end.cause, calls=False))]}
            ours = {"diffusion": extension(end, phases, prepared.request_id)}
            yield server_sent(last if include_usage else {**last, **ours})
            if include_usage:
                yield server_sent({**common, "choices": [], "usage": usage(end.statistics), **ours})
        yield DONE

    return GenerationStream(generation, stream(events), {"Server-Timing": phases.server_timing(events[0].statistics)})
