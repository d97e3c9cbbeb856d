"""Putting the chunks of a stream together again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Streamed:
    """A reply from its chunks.

    Attributes:
        text: of all content deltas.
        pieces: content deltas that held text.
        calls: [name, arguments, id] by index.
        reasons: every finish reason, in order.
        usage: of the last chunk that had one.
        ids: of the chunks.
        logprobs: entries, in order.
    """

    text: str = ""
    pieces: list[str] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    usage: Any = None
    ids: set[str] = field(default_factory=set)
    logprobs: list[Any] = field(default_factory=list)


def gather(chunks: Iterable[Any]) -> Streamed:
    """Read a stream of the official client to its end."""
    reply = Streamed()
    for chunk in chunks:
        reply.ids.add(chunk.id)
        reply.usage = chunk.usage or reply.usage
        for choice in chunk.choices:
            if choice.delta.content:
                reply.pieces.append(choice.delta.content)
                reply.text += choice.delta.content
            for part in choice.delta.tool_calls or []:
                call = reply.calls.setdefault(part.index, ["", "", ""])
                call[2] = part.id or call[2]
                if part.function is not None:
                    call[0] += part.function.name or ""
                    call[1] += part.function.arguments or ""
            if choice.logprobs is not None:
                reply.logprobs += choice.logprobs.content or []
            if choice.finish_reason is not None:
                reply.reasons.append(choice.finish_reason)
    return reply
