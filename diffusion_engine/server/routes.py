"""The routes under a base URL: our own `/v1`, and the stricter one of `celeris`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from diffusion_engine.runtime import EndCause
from diffusion_engine.server.access import Access
from diffusion_engine.server.celeris import with_vendor_limits, with_vendor_rules
from diffusion_engine.server.chat_completions import chat_completion
from diffusion_engine.server.completions import completion
from diffusion_engine.server.errors import ApiError
from diffusion_engine.server.preparation import engine_id
from diffusion_engine.server.schemas import ChatCompletionRequest, CompletionRequest
from diffusion_engine.server.served_model import ServedModel


class Guard:
    """Dependencies that check a request before it is served, and say on whose behalf it runs."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def authorized(self, request: Request) -> None:
        """Refuse requests without a valid key."""
        request.state.owner = self._access.check(request.headers.get("authorization", ""))

    async def admitted(self, request: Request) -> None:
        """As `authorized`, and count the request against its key's limit."""
        await self.authorized(request)
        request.state.limits = self._access.admit(request.state.owner)


def routes(model: ServedModel, guard: Guard) -> APIRouter:
    """`/v1`: what OpenAI's clients call, and cancelling by id."""
    router = APIRouter()
    authorized, admitted = [Depends(guard.authorized)], [Depends(guard.admitted)]

    @router.post("/chat/completions", dependencies=admitted)
    async def chat_completions(request: Request, body: ChatCompletionRequest) -> Response:
        return _with_limits(request, await chat_completion(request, body, model))

    @router.post("/completions", dependencies=admitted)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        return _with_limits(request, await completion(request, body, model))

    @router.post("/requests/{request_id}/cancel", dependencies=authorized)
    async def cancel(request: Request, request_id: str) -> dict[str, object]:
        if not model.engine.cancel(engine_id(request.state.owner, request_id), EndCause.CANCELLED):
            raise ApiError(404, f"no request {request_id!r} is running or waiting", code="request_not_found")
        return {"id": request_id, "cancelled": True}

    _add_models(router, model, authorized)
    return router


def vendor_routes(model: ServedModel, guard: Guard) -> APIRouter:
    """`/<model>/v1`: see `celeris`."""
    router = APIRouter()
    limited = with_vendor_limits(model)
    authorized, admitted = [Depends(guard.authorized)], [Depends(guard.admitted)]

    @router.post("/chat/completions", dependencies=admitted)
    async def chat_completions(request: Request, body: ChatCompletionRequest) -> Response:
        return _with_limits(request, await chat_completion(request, with_vendor_rules(body), limited))

    @router.post("/completions", dependencies=admitted)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        return _with_limits(request, await completion(request, with_vendor_rules(body), limited))

    @router.api_route("/echo", methods=["GET", "POST"], dependencies=authorized)
    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type=request.headers.get("content-type"))

    _add_models(router, limited, authorized)
    return router


def _add_models(router: APIRouter, model: ServedModel, authorized: list[Any]) -> None:
    def described() -> dict[str, object]:
        return {
            "id": model.name,
            "object": "model",
            "created": model.created,
            "owned_by": "local",
            "context_length": model.config.max_positions,
            "family": model.config.family,
            "strategy": model.strategy.value,
            "strategies": [strategy.value for strategy in model.strategies],
        }

    @router.get("/models", dependencies=authorized)
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [described()]}

    @router.get("/models/{name:path}", dependencies=authorized)
    async def one_model(name: str) -> dict[str, object]:
        if name != model.name:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")
        return described()


def _with_limits(request: Request, response: Response) -> Response:
    response.headers.update(request.state.limits)
    return response
