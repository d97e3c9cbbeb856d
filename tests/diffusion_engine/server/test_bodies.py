"""Bodies that are too large or too slow: refused by what is read, not by what is announced."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from diffusion_engine.server.bodies import MAX_BODY_BYTES, BodyLimit
from tests.diffusion_engine.server.conftest import Served, serving

PATH = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def chunks(total: int, size: int = 1 << 18) -> Iterator[bytes]:
    """Without a length, httpx sends these as Transfer-Encoding: chunked."""
    yield b'{"messages": "'
    for _ in range(total // size):
        yield b"x" * size
    yield b'"}'


def test_a_chunked_body_over_the_limit_is_a_413(served: Served) -> None:
    answer = httpx.post(f"{served.url}{PATH}", content=chunks(MAX_BODY_BYTES))
    assert answer.status_code == 413
    assert answer.json()["error"] == {
        "message": "the body exceeds 4 MiB",
        "type": "invalid_request_error",
        "param": None,
        "code": "body_too_large",
    }
    assert answer.headers["connection"] == "close"
    assert served.metric('refused_total{code="body_too_large",status="413"}') >= 1


def test_a_chunked_body_below_the_limit_is_read(served: Served) -> None:
    answer = httpx.post(f"{served.url}{PATH}", content=chunks(MAX_BODY_BYTES - (1 << 18)), headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"


@pytest.mark.parametrize("path", [PATH, "/tiny/v1/echo", "/health"])
def test_an_announced_length_over_the_limit_is_refused_before_the_body_comes(served: Served, path: str) -> None:
    head = HEAD.replace(PATH, path) + f"Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
    assert answer_to(served, head.encode())[0] == 413


def answer_to(served: Served, sent: bytes) -> tuple[int, dict[str, object]]:
    """Status and body of the answer to what is sent; the connection must end by itself."""
    url = httpx.URL(served.url)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as connection:
        connection.sendall(sent)
        received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.fixture(scope="module")
def impatient(checkpoint: Callable[[str], Path]) -> Iterator[Served]:
    with serving(checkpoint("llama_draft"), body_s=0.05) as running:
        yield running


@pytest.mark.parametrize(
    "body", ["Content-Length: 50\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"], ids=["length", "chunked"]
)
def test_a_body_that_does_not_come_frees_the_connection_with_a_408(impatient: Served, body: str) -> None:
    status, answer = answer_to(impatient, (HEAD + body).encode())
    assert status == 408
    assert answer["error"] == {
        "message": "the body was not there within 0.05 s",
        "type": "invalid_request_error",
        "param": None,
        "code": "body_too_slow",
    }


def test_a_client_that_leaves_within_its_body_leaves_nothing_behind(served: Served) -> None:
    url = httpx.URL(served.url)
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall((HEAD + "Content-Length: 50\r\n\r\n{").encode())
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    assert httpx.post(f"{served.url}{PATH}", json=body).is_success


@given(parts=st.lists(st.binary(max_size=8), min_size=1, max_size=8))
def test_the_application_sees_the_whole_body_or_nothing(parts: list[bytes]) -> None:
    seen: list[bytes] = []
    sent: list[Message] = []
    read = 0

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        seen.append(message["body"])
        assert (await receive())["type"] == "http.disconnect"
        await Response()(scope, receive, send)

    async def receive() -> Message:
        nonlocal read
        if read == len(parts):
            return {"type": "http.disconnect"}
        read += 1
        return {"type": "http.request", "body": parts[read - 1], "more_body": read < len(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    limit = BodyLimit(application, lambda status, code, message: PlainTextResponse(message, status), max_bytes=20)
    asyncio.run(limit({"type": "http", "method": "POST", "headers": []}, receive, send))
    whole = b"".join(parts)
    assert seen == ([whole] if len(whole) <= 20 else [])
    assert sent[0]["status"] == (200 if len(whole) <= 20 else 413)
    assert [message.get("more_body", False) for message in sent][-1] is False
