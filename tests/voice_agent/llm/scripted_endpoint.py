"""A small OpenAI-compatible HTTP server for tests: real sockets, scripted replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.requests import ClientDisconnect

Body = dict[str, Any]


@dataclass
class Reply:
    """What to answer: words streamed one by one, or tool calls; or trouble."""

    text: str = ""
    tool_calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    status: int = 200
    hang_after: int | None = None
    """Send this many words, then nothing more."""
    break_after: int | None = None
    """Send this many words, then end the stream without a finish reason."""
    diffusion: dict[str, Any] | None = None
    word_s: float = 0.0


@dataclass
class Endpoint:
    """The server's log: ``bodies`` of all requests, and how many streams the client left early."""

    script: Callable[[Body], Reply]
    url: str = ""
    bodies: list[Body] = field(default_factory=list)
    abandoned: int = 0
    finished: int = 0

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/chat/completions")
        async def complete(request: Request) -> Any:
            try:
                body = await request.json()
            except ClientDisconnect:  # dropped before it had arrived
                self.abandoned += 1
                return JSONResponse({}, 499)
            self.bodies.append(body)
            reply = self.script(body)
            if reply.status != 200:
                return JSONResponse({"error": {"message": "scripted", "type": "server_error"}}, reply.status)
            if not body.get("stream"):
                return {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"], "choices": []}
            return StreamingResponse(self._stream(reply, body), media_type="text/event-stream")

        @app.get("/v1/models")
        async def models() -> Body:
            return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}

        return app

    async def _stream(self, reply: Reply, body: Body) -> AsyncIterator[bytes]:
        done = False
        try:
            words = [word + " " for word in reply.text.split()]
            for n, word in enumerate(words):
                if n == reply.hang_after:
                    await asyncio.sleep(3600)
                if n == reply.break_after:
                    done = True
                    return
                await asyncio.sleep(reply.word_s)
                yield _event(body, {"role": "assistant", "content": word})
            if reply.hang_after is not None and reply.hang_after >= len(words):
                await asyncio.sleep(3600)
            for index, (name, arguments) in enumerate(reply.tool_calls):
                text = json.dumps(arguments)
                head, tail = text[: len(text) // 2], text[len(text) // 2 :]
                function = {"name": name, "arguments": head}
                call: Body = {"index": index, "id": f"t{index}", "type": "function", "function": function}
                yield _event(body, {"tool_calls": [call]})
                yield _event(body, {"tool_calls": [{"index": index, "function": {"arguments": tail}}]})
            yield _event(body, {}, "tool_calls" if reply.tool_calls else "stop")
            last: Body = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}
            if reply.diffusion is not None:
                last["diffusion"] = reply.diffusion
            yield _data(body, last)
            yield b"data: [DONE]\n\n"
            done = True
        finally:
            self.finished += done
            self.abandoned += not done


def _event(body: Body, delta: Body, finish: str | None = None) -> bytes:
    return _data(body, {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(body: Body, chunk: Body) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    return f"data: {json.dumps({**head, **chunk})}\n\n".encode()


@asynccontextmanager
async def scripted_endpoint(script: Callable[[Body], Reply]) -> AsyncIterator[Endpoint]:
    """Serve ``script`` on a free loopback port."""
    endpoint = Endpoint(script)
    server = uvicorn.Server(
        uvicorn.Config(endpoint.app(), port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    endpoint.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        yield endpoint
    finally:
        server.should_exit = True
        server.force_exit = True
        await task
