"""Offers that are too large or too slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.types import Message

from tests.voice_agent.server.test_app import site
from voice_agent.server.bodies import MAX_BODY_BYTES, read_body
from voice_agent.server.registry import RefusedError

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
    async def never() -> Message:
        return await asyncio.Future()

    request = Request({"type": "http", "method": "POST", "headers": []}, never)
    with pytest.raises(RefusedError, match="was not there within 0 s") as refused:
        await read_body(request, within_s=0.0)
    assert refused.value.status == 408


async def test_a_client_that_goes_on_sending_is_answered_after_a_while() -> None:
    async def more() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": []}, more)
    with pytest.raises(RefusedError, match="exceeds 1 KiB") as refused:
        await read_body(request, max_bytes=1024, linger_s=0.0)
    assert refused.value.status == 413


async def test_a_client_that_vanishes_within_its_offer_is_no_error_of_ours() -> None:
    sent: list[Message] = []

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async with site() as server:
        transport = server.http._transport
        assert isinstance(transport, httpx.ASGITransport)
        headers = [(b"content-length", b"1000")]
        scope = {"type": "http", "method": "POST", "path": "/api/offer", "headers": headers, "query_string": b""}
        await transport.app(scope, gone, send)  # and does not raise
        assert server.registry.live == []
    assert [message["status"] for message in sent if "status" in message] == [400]
