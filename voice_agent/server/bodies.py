"""A request's body: how large it may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import Request

from voice_agent.server.registry import RefusedError

MAX_BODY_BYTES = 256 << 10
"""An offer's SDP has 100,000 characters at the most, and JSON writes a line end as four."""
BODY_S = 10.0
LINGER_S = 1.0
"""How long a refused client may go on sending. Answered at once, with bytes unread, it might see a reset instead."""


async def read_body(
    request: Request, *, max_bytes: int = MAX_BODY_BYTES, within_s: float = BODY_S, linger_s: float = LINGER_S
) -> bytes:
    """Read a request's body. The limit holds for what is read, however it is sent.

    Args:
        request: not read yet.
        max_bytes: of the body.
        within_s: from now to its last byte, in seconds.
        linger_s: see `LINGER_S`.

    Raises:
        RefusedError: 413, the body is larger; 408, it wasn't there in time.
        ClientDisconnect: the client is gone.
    """
    length = request.headers.get("content-length", "")
    too_large = length.isdigit() and int(length) > max_bytes
    body, parts = bytearray(), request.stream()
    try:
        async with asyncio.timeout(within_s):
            while not too_large and (part := await anext(parts, None)) is not None:
                body += part
                too_large = len(body) > max_bytes
    except TimeoutError:
        raise RefusedError(408, "body_too_slow", f"the body was not there within {within_s:g} s") from None
    if too_large:
        with suppress(TimeoutError):
            async with asyncio.timeout(linger_s):
                while await anext(parts, None) is not None:
                    pass
        raise RefusedError(413, "body_too_large", f"the body exceeds {max_bytes >> 10} KiB")
    return bytes(body)
