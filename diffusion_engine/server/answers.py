"""What both endpoints do with a generation: the first events before the headers, errors, the causes of an end."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from diffusion_engine.decoding import TokenLogprobs
from diffusion_engine.runtime import EndCause, EndEvent, Event, TextEvent
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.generation import Generation, unless_disconnected

_FAULTS = {
    EndCause.ERROR: (500, "server_error", "the request failed"),
    EndCause.TIMEOUT: (503, "timeout", "the request took too long"),
    EndCause.SHUTDOWN: (503, "shutting_down", "the engine was stopped"),
}
_LENGTHS = (EndCause.LENGTH, EndCause.CONTEXT, EndCause.DEADLINE)


def fault(end: EndEvent) -> ApiError | None:
    """The error that an end is, if it is one."""
    if end.cause not in _FAULTS:
        return None
    status, code, message = _FAULTS[end.cause]
    return ApiError(status, end.message or message, code=code, retry_after_s=1 if status == 503 else None)


def finish_reason(cause: EndCause, calls: bool) -> str:
    """OpenAI's word for the end of a reply. Causes that it has no word for are in our extension object."""
    if cause in _LENGTHS:
        return "length"
    return "tool_calls" if calls else "stop"


async def first_events(request: Request, generation: Generation) -> list[Event]:
    """Submit, and wait for the first events: what goes wrong until then has an HTTP status of its own.

    Raises:
        ApiError: the engine refuses, or the request ended with an error.
        ClientGoneError: the client has closed the connection; the request is freed.
    """
    generation.submit()
    try:
        events = await unless_disconnected(request, generation.next())
    except BaseException:
        generation.close()
        raise
    if isinstance(events[-1], EndEvent) and (error := fault(events[-1])) is not None:
        raise error
    return events


async def collect(request: Request, generation: Generation) -> tuple[list[Event], EndEvent]:
    """The whole reply's events, and the last one.

    Raises:
        ApiError, ClientGoneError: as `first_events`.
    """
    events = await first_events(request, generation)

    async def rest() -> None:
        async for batch in generation.rest():
            events.extend(batch)

    try:
        await unless_disconnected(request, rest())
    finally:
        generation.close()
    end = events[-1]
    assert isinstance(end, EndEvent)
    if (error := fault(end)) is not None:
        raise error
    return events, end


def text_of(events: list[Event]) -> str:
    """The text in a batch of events."""
    return "".join(event.text for event in events if isinstance(event, TextEvent))


def logprobs_of(events: list[Event]) -> list[TokenLogprobs]:
    """The log-probabilities in a batch of events."""
    return [noted for event in events if isinstance(event, TextEvent) for noted in event.logprobs]


def server_sent(data: dict[str, Any]) -> str:
    """One event of the stream."""
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


DONE = "data: [DONE]\n\n"
