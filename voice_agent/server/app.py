"""The HTTP interface: signalling, the record, metrics, the page. Its contract is in docs/architecture.md."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from voice_agent.server.bodies import BODY_S, read_body
from voice_agent.server.registry import CallRegistry, RefusedError
from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.store import RecordStore

_MAX_SDP = 100_000


class Offer(BaseModel):
    """A browser's offer, all ICE candidates inside."""

    sdp: str = Field(max_length=_MAX_SDP)
    type: str = "offer"
    call_id: str | None = None


def create_app(
    registry: CallRegistry,
    store: RecordStore,
    metrics: Metrics,
    info: dict[str, str],
    health: Callable[[], dict[str, bool]],
    *,
    token: str | None = None,
    page: Path | None = None,
    body_s: float = BODY_S,
) -> FastAPI:
    """Build the application.

    Args:
        registry: The live calls.
        store: The record.
        metrics: Served at ``/metrics``.
        info: Served at ``/api/info``.
        health: Which watched processes are ready.
        token: Bearer token that every ``/api`` request needs; None for none.
        page: Folder of the built page.
        body_s: How long a request's body may take to come, in seconds.
    """
    app = FastAPI(title="voice-agent", docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def authorize(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
        if token is not None and request.url.path.startswith("/api"):
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
                return _error(401, "unauthorized", "send the server's token: Authorization: Bearer <VOICE_AGENT_TOKEN>")
        return await proceed(request)

    @app.post("/api/offer")
    async def offer(request: Request) -> dict[str, str]:
        body = await read_body(request, within_s=body_s)
        try:
            offered = Offer.model_validate_json(body)
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from None
        call_id, sdp = await registry.answer(offered.sdp, offered.type, offered.call_id)
        return {"sdp": sdp, "type": "answer", "call_id": call_id}

    @app.get("/api/info")
    async def get_info() -> dict[str, str]:
        return info

    @app.get("/api/calls")
    async def calls(limit: int = 100) -> dict[str, Any]:
        live = set(registry.live)
        listed = await store.calls(max(1, min(limit, 1000)))
        return {"calls": [{**call, "live": call["call_id"] in live} for call in listed]}

    @app.get("/api/calls/{call_id}")
    async def call(call_id: str) -> Response:
        found = await store.call(call_id)
        if found is None:
            return _error(404, "no_such_call", f"there is no record of a call {call_id!r}")
        return JSONResponse({**found, "live": call_id in registry.live})

    @app.delete("/api/calls/{call_id}")
    async def hang_up(call_id: str) -> Response:
        if not registry.hang_up(call_id, "hung up by the API"):
            return _error(404, "no_such_call", f"there is no live call {call_id!r}")
        return JSONResponse({"call_id": call_id, "state": "ending"})

    @app.get("/health")
    async def get_health() -> Response:
        state = health()
        ready = all(state.values())
        content = {"status": "ok" if ready else "degraded", "processes": state, "live_calls": len(registry.live)}
        return JSONResponse(content, 200 if ready else 503)

    @app.get("/metrics")
    async def get_metrics() -> Response:
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        response = _error(error.status, error.code, str(error))
        if error.status == 503:
            response.headers["Retry-After"] = "30"
        if error.status in (408, 413):
            response.headers["Connection"] = "close"  # what is still to come of the body is no request
        return response

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"] if part != "body") or "the body"
        return _error(
            400, "bad_request", f'{where}: {problem["msg"]}; an offer is {{"sdp": "v=0...", "type": "offer"}}'
        )

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return _error(error.status_code, "not_found" if error.status_code == 404 else "http_error", str(error.detail))

    if page is not None and (page / "index.html").is_file():
        app.mount("/", StaticFiles(directory=page, html=True), name="page")
    else:

        @app.get("/")
        async def no_page() -> Response:
            return _error(404, "no_page", "the page isn't built: run `make web`, or `npm ci && npm run build` in web/")

    return app


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
