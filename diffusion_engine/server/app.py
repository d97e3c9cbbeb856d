"""The HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from diffusion_engine.server.access import Access
from diffusion_engine.server.bodies import BODY_S, BodyLimit
from diffusion_engine.server.errors import (
    ApiError,
    answer_api_error,
    answer_http_exception,
    answer_validation_error,
)
from diffusion_engine.server.generation import ClientGoneError
from diffusion_engine.server.metrics import ServerMetrics
from diffusion_engine.server.routes import Guard, routes, vendor_routes
from diffusion_engine.server.served_model import ServedModel


def create_app(model: ServedModel, access: Access | None = None, *, body_s: float = BODY_S) -> FastAPI:
    """The application around a loaded model; its lifespan starts and stops the engine.

    Args:
        model: to serve.
        access: who may send requests; None for everybody.
        body_s: how long a request's body may take to come, in seconds.
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
    app.state.metrics = metrics = ServerMetrics(model.engine)

    def refusal(status: int, code: str, message: str) -> Response:
        metrics.refuse(status, code)
        return JSONResponse(ApiError(status, message, code=code).body, status)

    app.add_middleware(BodyLimit, refusal=refusal, body_s=body_s)

    @app.get("/health")
    async def health() -> JSONResponse:
        if not model.engine.alive:
            return JSONResponse({"status": "engine stopped"}, 503)
        if model.engine.draining:
            return JSONResponse({"status": "shutting down"}, 503, {"Retry-After": "10"})
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    async def scrape() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    guard = Guard(access or Access())
    app.include_router(routes(model, guard), prefix="/v1")
    app.include_router(vendor_routes(model, guard), prefix=f"/{quote(model.name)}/v1")
    return app


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """The client is gone; 499 is what web servers write into their logs for that."""
    return Response(status_code=499)
