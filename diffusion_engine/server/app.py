"""The HTTP application."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from diffusion_engine.runtime import EndCause
from diffusion_engine.server.chat_completions import chat_completion
from diffusion_engine.server.completions import completion
from diffusion_engine.server.errors import (
    ApiError,
    answer_api_error,
    answer_http_exception,
    answer_validation_error,
)
from diffusion_engine.server.generation import ClientGoneError
from diffusion_engine.server.metrics import registry
from diffusion_engine.server.schemas import ChatCompletionRequest, CompletionRequest
from diffusion_engine.server.served_model import ServedModel

MAX_BODY_BYTES = 4 << 20


def create_app(model: ServedModel, *, api_key: str | None) -> FastAPI:
    """The application around a loaded model; its lifespan starts and stops the engine.

    Args:
        model: to serve.
        api_key: that every /v1 request must carry as a bearer token; None for no check.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        model.engine.start()
        yield
        model.engine.stop()

    app = FastAPI(title="diffusion-engine", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_exception_handler(ApiError, answer_api_error)
    app.add_exception_handler(RequestValidationError, answer_validation_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(ClientGoneError, _answer_nobody)
    metrics = registry(model.engine)

    async def authorized(request: Request) -> None:
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > MAX_BODY_BYTES:
            raise ApiError(413, f"the body exceeds {MAX_BODY_BYTES >> 20} MiB", code="body_too_large")
        if api_key is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(token.strip().encode(), api_key.encode()):
            raise ApiError(401, "no valid API key; send it as Authorization: Bearer <key>", code="invalid_api_key")

    guarded = [Depends(authorized)]

    @app.post("/v1/chat/completions", dependencies=guarded)
    async def chat_completions(request: Request, body: ChatCompletionRequest) -> Response:
        return await chat_completion(request, body, model)

    @app.post("/v1/completions", dependencies=guarded)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        return await completion(request, body, model)

    @app.post("/v1/requests/{request_id}/cancel", dependencies=guarded)
    async def cancel(request_id: str) -> dict[str, object]:
        if not model.engine.cancel(request_id, EndCause.CANCELLED):
            raise ApiError(404, f"no request {request_id!r} is running or waiting", code="request_not_found")
        return {"id": request_id, "cancelled": True}

    def described() -> dict[str, object]:
        return {
            "id": model.name,
            "object": "model",
            "created": model.created,
            "owned_by": "local",
            "context_length": model.config.max_positions,
            "family": model.config.family,
            "strategy": model.strategy.value,
        }

    @app.get("/v1/models", dependencies=guarded)
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [described()]}

    @app.get("/v1/models/{name:path}", dependencies=guarded)
    async def one_model(name: str) -> dict[str, object]:
        if name != model.name:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")
        return described()

    @app.get("/health")
    async def health() -> JSONResponse:
        alive = model.engine.alive
        return JSONResponse({"status": "ok" if alive else "engine stopped"}, 200 if alive else 503)

    @app.get("/metrics")
    async def scrape() -> Response:
        return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)

    return app


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """The client is gone; 499 is what web servers write into their logs for that."""
    return Response(status_code=499)
