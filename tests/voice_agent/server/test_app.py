"""The HTTP interface with real WebRTC callers: answers, refusals, the record, clean ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.voice_agent.call.line import RESTAURANT, shared
from tests.voice_agent.llm.scripted_endpoint import Reply
from tests.voice_agent.transports.peer import Caller, until
from voice_agent.server.app import create_app
from voice_agent.server.registry import CallRegistry

pytestmark = pytest.mark.usefixtures("loopback", "no_leaks")


class Site:
    """A running application and its client."""

    def __init__(self, http: httpx.AsyncClient, registry: CallRegistry) -> None:
        self.http, self.registry = http, registry

    async def offer(self, sdp: str, **more: str) -> httpx.Response:
        return await self.http.post("/api/offer", json={"sdp": sdp, "type": "offer", **more})

    async def call(self) -> tuple[Caller, str]:
        caller = Caller()
        response = await self.offer(await caller.offer())
        assert response.status_code == 200, response.text
        await caller.accept(response.json()["sdp"])
        await until(lambda: any(m["type"] == "info" for m in caller.messages))
        return caller, str(response.json()["call_id"])


@contextlib.asynccontextmanager
async def site(*, token: str | None = None, max_calls: int = 2, page: Path | None = None) -> AsyncIterator[Site]:
    async with shared(lambda body: Reply("yes")) as (services, _):
        registry = CallRegistry(services, max_calls=max_calls)
        app = create_app(
            registry,
            services.store,
            services.metrics,
            services.info,
            lambda: {"speech": True},
            token=token,
            page=page,
        )
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            try:
                yield Site(http, registry)
            finally:
                await registry.aclose()


async def test_a_call_is_answered_greeted_recorded_and_hung_up() -> None:
    async with site() as server:
        caller, call_id = await server.call()
        await until(lambda: any(m["type"] == "caption" and m["text"] == RESTAURANT.greeting for m in caller.messages))
        assert caller.messages[0] == {
            **{"type": "info", "call_id": call_id, "model": "m", "llm": "m"},
            **{"engine": "scripted", "agent": "a", "version": "0"},
        }
        await until(lambda: bool((abs(caller.heard().astype(int)) > 1000).any()))
        assert (await server.http.get("/health")).json()["live_calls"] == 1
        assert (await server.http.delete(f"/api/calls/{call_id}")).status_code == 200
        await until(lambda: caller.messages[-1] == {"type": "bye", "reason": "hung up by the API"})
        await until(lambda: server.registry.live == [])
        record = (await server.http.get(f"/api/calls/{call_id}")).json()
        assert record["reason"] == "hung up by the API"
        assert record["turns"][0]["turn"] == 0
        listed = (await server.http.get("/api/calls")).json()["calls"]
        assert [(entry["call_id"], entry["live"]) for entry in listed] == [(call_id, False)]
        assert (await server.http.delete(f"/api/calls/{call_id}")).status_code == 404
        assert "voice_agent_calls_total 1.0" in (await server.http.get("/metrics")).text
        await caller.hang_up()


async def test_a_caller_who_leaves_frees_the_line() -> None:
    async with site(max_calls=1) as server:
        caller, _ = await server.call()
        refused = await server.offer(await Caller().offer())
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "busy"
        assert refused.headers["Retry-After"]
        await caller.hang_up()
        await until(lambda: server.registry.live == [])
        again, _ = await server.call()
        await again.hang_up()
        await until(lambda: server.registry.live == [])


async def test_case_80_a_burst_of_offers_fills_the_lines_and_no_more() -> None:
    async with site(max_calls=2) as server:
        callers = [Caller() for _ in range(5)]
        offers = [await caller.offer() for caller in callers]
        responses = await asyncio.gather(*(server.offer(sdp) for sdp in offers))
        assert sorted(response.status_code for response in responses) == [200, 200, 503, 503, 503]
        for caller in callers:
            await caller.hang_up()


async def test_a_second_offer_on_a_live_call_is_refused_and_the_call_goes_on() -> None:
    async with site() as server:
        caller = Caller()
        sdp = await caller.offer()
        first = await server.offer(sdp)
        await caller.accept(first.json()["sdp"])
        other = Caller()
        for again in (
            await server.offer(sdp),
            await server.offer(await other.offer(), call_id=first.json()["call_id"]),
        ):
            assert again.status_code == 409
            assert again.json()["error"]["code"] == "call_is_live"
        await until(lambda: any(m["type"] == "info" for m in caller.messages))
        assert server.registry.live == [first.json()["call_id"]]
        await caller.hang_up()
        await other.hang_up()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"sdp": "hello", "type": "offer"}, "v=0"),
        ({"sdp": "v=0\r\nm=audio nonsense\r\n", "type": "offer"}, "parsed"),
        ({"type": "offer"}, "sdp"),
        ({"sdp": 7}, "sdp"),
        ({"sdp": "v=0\r\n", "type": "answer"}, "offer"),
    ],
)
async def test_a_broken_offer_is_explained(body: dict[str, object], says: str) -> None:
    async with site() as server:
        response = await server.http.post("/api/offer", json=body)
        assert response.status_code == 400
        assert says in response.json()["error"]["message"]
        assert server.registry.live == []


async def test_no_json_at_all_is_explained_too() -> None:
    async with site() as server:
        response = await server.http.post("/api/offer", content=b"{", headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "bad_request"


async def test_with_a_token_the_api_is_closed_to_others() -> None:
    secret = "a-token-of-some-length"
    async with site(token=secret) as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": secret}):
            response = await server.http.get("/api/info", headers=headers)
            assert response.status_code == 401
            assert "VOICE_AGENT_TOKEN" in response.json()["error"]["message"]
        allowed = await server.http.get("/api/info", headers={"Authorization": f"Bearer {secret}"})
        assert allowed.json()["model"] == "m"
        assert (await server.http.get("/health")).status_code == 200


async def test_the_page_is_served_where_it_is_built(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>page</p>", encoding="utf-8")
    async with site(page=tmp_path) as server:
        assert (await server.http.get("/")).text == "<p>page</p>"
        missing = await server.http.get("/nothing.js")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    async with site() as server:
        assert "make web" in (await server.http.get("/")).json()["error"]["message"]
