"""Offers that are too large or too slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from tests.voice_agent.server.test_app import site
from voice_agent.server.bodies import MAX_BODY_BYTES, BodyLimit

pytestmark = pytest.mark.usefixtures("loopback", "no_leaks")


@pytest.mark.parametrize("announced", [True, False])
async def test_an_offer_of_megabytes_is_refused(announced: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(30 * 16):
            yield b"x" * (1 << 16)

    headers = {"content-length": str(30 << 20)} if announced else {}
    async with site() as server:
        response = await server.http.post("/api/offer", content=parts(), headers=headers)
        assert response.status_code == 413
        assert response.json()["error"] == {"code": "body_too_large", "message": "the body exceeds 256 KiB"}
        assert response.headers["connection"] == "close"
        assert server.registry.live == []


async def test_the_largest_offer_that_the_contract_allows_gets_through_to_its_own_check() -> None:
    body = json.dumps({"sdp": "\r\n" * 50_000, "type": "offer"})
    assert len(body) < MAX_BODY_BYTES
    async with site() as server:
        response = await server.http.post("/api/offer", content=body, headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert "v=0" in response.json()["error"]["message"]


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("must not be reached")

    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def never() -> Message:
        return await asyncio.Future()

    def refusal(status: int, code: str, message: str) -> Response:
        return JSONResponse({"code": code, "message": message}, status)

    scope: Scope = {"type": "http", "method": "POST", "headers": []}
    await BodyLimit(application, refusal, body_s=0.0, linger_s=0.0)(scope, never, send)
    assert statuses == [408]
