"""From the engine's thread to the event loop: one request's events, and what happens when its client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from diffusion_engine.runtime import (
    DrainingError,
    EndCause,
    EndEvent,
    Engine,
    Event,
    GenerationRequest,
    OverloadedError,
)
from diffusion_engine.server.errors import ApiError

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client closed the connection; nobody reads an answer."""


class Generation:
    """A request in the engine, from `submit` to `close`."""

    def __init__(self, engine: Engine, request: GenerationRequest) -> None:
        self._engine = engine
        self._request = request
        self._queue: asyncio.Queue[list[Event]] = asyncio.Queue()
        self._ended = False

    def submit(self) -> None:
        """Hand the request to the engine; must run in the event loop that reads the events.

        Raises:
            ApiError: the engine is full or stopping (503), or the id is in use (409).
        """
        loop = asyncio.get_running_loop()

        def listen(events: list[Event]) -> None:
            if not loop.is_closed():  # it is when the process stops
                loop.call_soon_threadsafe(self._queue.put_nowait, events)

        try:
            self._engine.submit(self._request, listen)
        except OverloadedError:
            raise ApiError(
                503, "the engine is full; try again in a second", code="overloaded", retry_after_s=1
            ) from None
        except DrainingError:
            raise ApiError(503, "the engine is shutting down", code="shutting_down", retry_after_s=10) from None
        except ValueError as taken:
            raise ApiError(409, str(taken), param="diffusion.request_id", code="request_id_in_use") from taken

    async def next(self) -> list[Event]:
        """The events of one step; those of the last step end with an `EndEvent`."""
        batch = await self._queue.get()
        self._ended = isinstance(batch[-1], EndEvent)
        return batch

    async def rest(self) -> AsyncIterator[list[Event]]:
        """All further batches."""
        while not self._ended:
            yield await self.next()

    def close(self) -> None:
        """Free the request within one step if it has not ended: nobody reads it any more."""
        if not self._ended:
            self._engine.cancel(self._request.id, EndCause.DISCONNECTED)


class GenerationStream(StreamingResponse):
    """Server-sent events of a generation, which is closed with the connection, however that ends."""

    media_type = "text/event-stream"

    def __init__(self, generation: Generation, body: AsyncIterator[str], headers: dict[str, str]) -> None:
        super().__init__(body, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers})
        self._generation = generation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._generation.close()


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, or give up when the client closes the connection.

    Raises:
        ClientGoneError: it did.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        task.cancel()
        gone.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
