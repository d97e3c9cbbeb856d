"""The LLM plugin against a real HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from livekit.agents import APIConnectionError, APIStatusError, APITimeoutError, llm

from tests.voice_agent.llm.scripted_endpoint import Endpoint as Server
from tests.voice_agent.llm.scripted_endpoint import Reply, scripted_endpoint
from tests.voice_agent.transports.peer import until
from voice_agent.llm import LLM, Endpoint, Timeouts

pytestmark = pytest.mark.usefixtures("no_leaks")
ASK = [{"role": "user", "content": "are you open"}]
TOOLS = [{"type": "function", "function": {"name": "opening_hours", "parameters": {"type": "object"}}}]


@asynccontextmanager
async def plugin(
    reply: Reply, *, extensions: bool = False, first_token_s: float = 5.0
) -> AsyncIterator[tuple[LLM, Server]]:
    async with scripted_endpoint(lambda body: reply) as server:
        timeouts = Timeouts(connect_s=1.0, first_token_s=first_token_s, between_tokens_s=first_token_s)
        made = LLM(Endpoint(server.url, "m", extensions=extensions, timeouts=timeouts))
        try:
            yield made, server
        finally:
            await made.aclose()


async def consume(made: LLM) -> None:
    async with made.request(ASK, []) as stream:
        async for _ in stream:
            pass


async def test_words_come_as_they_are_streamed() -> None:
    diffusion = {"forwards": 7, "phases_ms": {"prefill": 12.5}}
    async with plugin(Reply("yes we are open", diffusion=diffusion), extensions=True) as (made, server):
        async with made.request(ASK, TOOLS) as stream:
            pieces = [chunk.delta.content async for chunk in stream if chunk.delta]
        assert "".join(piece or "" for piece in pieces).split() == ["yes", "we", "are", "open"]
        assert len(pieces) == 4
        assert stream.report.diffusion == diffusion
        assert stream.report.finish_reason == "stop"
        assert server.bodies[0]["messages"] == ASK
        assert server.bodies[0]["tools"] == TOOLS


async def test_a_tool_call_is_put_together_from_its_pieces() -> None:
    reply = Reply(tool_calls=[("opening_hours", {"date": "2026-12-01"}), ("end_call", {})])
    async with plugin(reply) as (made, _), made.request(ASK, TOOLS) as stream:
        calls = [call async for chunk in stream if chunk.delta for call in chunk.delta.tool_calls]
    assert [(call.name, call.arguments) for call in calls] == [
        ("opening_hours", '{"date": "2026-12-01"}'),
        ("end_call", "{}"),
    ]


async def test_livekit_s_own_way_to_ask_works_too() -> None:
    async with plugin(Reply("hello there")) as (made, server):
        context = llm.ChatContext.empty()
        context.add_message(role="user", content="hello")
        async with made.chat(chat_ctx=context) as stream:
            text = "".join([chunk.delta.content or "" async for chunk in stream if chunk.delta])
        assert text == "hello there "
        assert server.bodies[0]["messages"] == [{"role": "user", "content": "hello"}]


async def test_closing_the_stream_ends_the_request_at_the_server() -> None:
    async with plugin(Reply("one two three four", word_s=0.05, hang_after=2)) as (made, server):
        stream = made.request(ASK, [])
        await anext(aiter(stream))
        await stream.aclose()
        await until(lambda: server.abandoned == 1)


async def test_case_60_a_stream_that_opens_and_says_nothing_times_out() -> None:
    async with plugin(Reply("never", hang_after=0), first_token_s=0.2) as (made, server):
        with pytest.raises(APITimeoutError):
            await asyncio.wait_for(consume(made), 10)
        await until(lambda: server.abandoned == 1)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply("one two three four", break_after=3), APIConnectionError),
        (Reply(status=500), APIStatusError),
        (Reply(status=400), APIStatusError),
    ],
)
async def test_trouble_is_told_apart(reply: Reply, error: type[Exception]) -> None:
    async with plugin(reply) as (made, _):
        with pytest.raises(error):
            await consume(made)


async def test_an_endpoint_that_is_not_there_is_a_connection_error() -> None:
    made = LLM(Endpoint("http://127.0.0.1:9/v1", "m"))
    with pytest.raises(APIConnectionError):
        await consume(made)
    await made.aclose()


async def test_prefill_is_sent_to_our_engine_only() -> None:
    async with plugin(Reply(), extensions=True) as (made, server):
        made.prefill(ASK, TOOLS)
        await until(lambda: len(server.bodies) == 1)
        assert server.bodies[0]["diffusion"] == {"prefill_only": True, "priority": -1}
        assert server.bodies[0]["tools"] == TOOLS
    async with plugin(Reply("hi")) as (made, server):
        made.prefill(ASK, TOOLS)
        await consume(made)
        assert len(server.bodies) == 1
        assert "diffusion" not in server.bodies[0]


async def test_a_draft_is_told_to_our_engine_only() -> None:
    for extensions in (True, False):
        async with plugin(Reply("hi"), extensions=extensions) as (made, server):
            async with made.request(ASK, [], draft="hi there") as stream:
                async for _ in stream:
                    pass
            assert server.bodies[0].get("diffusion") == ({"draft": "hi there"} if extensions else None)
