"""Requests' bodies: how large they may be, and how long they may take to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 4 << 20
BODY_S = 30.0
"""Enough for the largest body on a line of 1.2 Mbit/s."""
LINGER_S = 1.0
"""How long a refused client may go on sending. Closed at once, with bytes unread, the connection would be reset, and
the client might never see the answer."""

Refusal = Callable[[int, str, str], Response]
"""Makes the answer, of a status, a code for programs and a message."""


class _TooLargeError(Exception):
    pass


class _ClientGoneError(Exception):
    pass


class BodyLimit:
    """ASGI middleware that reads a request's body before the application sees the request.

    The limit holds for what is read, however it is sent; a `Content-Length` is believed only where it is too much. A
    body that is refused is answered 413 or 408, what still comes of it is dropped, and its connection closed.
    """

    def __init__(
        self,
        app: ASGIApp,
        refusal: Refusal,
        *,
        max_bytes: int = MAX_BODY_BYTES,
        body_s: float = BODY_S,
        linger_s: float = LINGER_S,
    ) -> None:
        """Wrap an application.

        Args:
            app: sees requests with a whole body only.
            refusal: makes the answer to the others.
            max_bytes: of a body.
            body_s: from the request's head to the last byte of its body, in seconds.
            linger_s: see `LINGER_S`.
        """
        self._app = app
        self._refusal = refusal
        self._max_bytes = max_bytes
        self._body_s = body_s
        self._linger_s = linger_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._body_s):
                body = await self._read(scope, receive)
        except _ClientGoneError:
            return
        except _TooLargeError:
            message = f"the body exceeds {_size(self._max_bytes)}"
            await self._refuse(scope, receive, send, self._refusal(413, "body_too_large", message))
        except TimeoutError:
            message = f"the body was not there within {self._body_s:g} s"
            await self._refuse(scope, receive, send, self._refusal(408, "body_too_slow", message))
        else:
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > self._max_bytes:
            raise _TooLargeError
        parts = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGoneError
            parts += message.get("body", b"")
            if len(parts) > self._max_bytes:
                raise _TooLargeError
            if not message.get("more_body", False):
                return bytes(parts)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, response: Response) -> None:
        response.headers["Connection"] = "close"

        async def send_but_stay(message: Message) -> None:
            await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

        await response(scope, receive, send_but_stay)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._linger_s):
                while (message := await receive())["type"] != "http.disconnect" and message.get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one message, then whatever else the server tells: that the client is gone."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} bytes"
