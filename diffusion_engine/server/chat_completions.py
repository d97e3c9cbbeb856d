"""`POST /v1/chat/completions`."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from diffusion_engine.server.answers import collect, first_events
from diffusion_engine.server.chat_reply import ChatReply
from diffusion_engine.server.generation import Generation, GenerationStream
from diffusion_engine.server.phases import Phases
from diffusion_engine.server.preparation import prepare_chat
from diffusion_engine.server.schemas import ChatCompletionRequest
from diffusion_engine.server.served_model import ServedModel


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
    reply = ChatReply(model, prepared, phases)
    if not body.stream:
        events, end = await collect(request, generation)
        headers = {"Server-Timing": phases.server_timing(end.statistics)}
        return JSONResponse(reply.whole(events, end), headers=headers)
    events = await first_events(request, generation)
    include_usage = body.stream_options is not None and body.stream_options.include_usage
    return GenerationStream(
        generation,
        reply.stream(events, generation, include_usage=include_usage),
        {"Server-Timing": phases.server_timing(events[0].statistics)},
    )
