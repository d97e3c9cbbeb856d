"""A streaming client of the OpenAI API that notes when what arrived."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Reply:
    """One streamed reply. Times in seconds since it was due to be sent.

    Attributes:
        first_token_s: until the first piece of content or of a tool call.
        last_token_s: until the last one.
        reply_s: until the stream ended.
        completion_tokens: as the server counts them; None where it doesn't say.
        text: of the content.
        diffusion: our engine's extension object; empty elsewhere.
        error: what went wrong, such as "503", or None.
    """

    first_token_s: float | None = None
    last_token_s: float | None = None
    reply_s: float = 0.0
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    text: str = ""
    diffusion: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def phase_s(self, name: str) -> float | None:
        """One of the engine's own phases."""
        ms = self.diffusion.get("phases_ms", {}).get(name)
        return None if ms is None else ms / 1000


async def stream(
    client: httpx.AsyncClient, url: str, body: dict[str, Any], due: float, key: str | None = None
) -> Reply:
    """Send a request and read its stream to the end; failures are noted, not raised.

    Args:
        client: keeps the connections.
        url: of the endpoint.
        body: of the request; streaming and usage are switched on.
        due: when it ought to be sent, on `time.perf_counter`: waiting for a connection counts.
        key: of the API.
    """
    reply = Reply()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    wanted = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with client.stream("POST", url, json=wanted, headers=headers) as response:
            if response.status_code != 200:
                reply.error = str(response.status_code)
                await response.aread()
            else:
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        _take(reply, json.loads(line[6:]), time.perf_counter() - due)
    except (httpx.HTTPError, ValueError) as failed:
        reply.error = type(failed).__name__
    reply.reply_s = time.perf_counter() - due
    return reply


def _take(reply: Reply, chunk: dict[str, Any], now: float) -> None:
    if "error" in chunk:
        reply.error = str(chunk["error"].get("code") or chunk["error"].get("message"))
    for choice in chunk.get("choices", []):
        delta = choice.get("delta", {})
        piece = delta.get("content") or choice.get("text") or ""
        if piece or delta.get("tool_calls"):
            if reply.first_token_s is None:
                reply.first_token_s = now
            reply.last_token_s = now
        reply.text += piece
    usage = chunk.get("usage")
    if usage:
        reply.completion_tokens = usage.get("completion_tokens")
        reply.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    reply.diffusion = chunk.get("diffusion") or reply.diffusion
