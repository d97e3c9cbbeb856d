"""A request at every keystroke, each superseding the last: completion while somebody types, or speaks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from diffusion_engine.bench.bed import Bed
from diffusion_engine.bench.engine_thread import Heard, ask, running
from diffusion_engine.bench.figures import figure, milliseconds
from diffusion_engine.bench.prompts import ChatPrompt, engine_request
from diffusion_engine.runtime import EndCause, Engine, GenerationRequest

LONGEST = 60
"""Keystrokes of one message."""


def measure_supersede(
    bed: Bed, prompts: Sequence[ChatPrompt], *, interval_ms: float, max_tokens: int, limit: int
) -> dict[str, Any]:
    """Type the last message of some prompts, a request a keystroke; the one before is cancelled as a client would.

    Args:
        bed: idle.
        prompts: whose last message of the user is typed.
        interval_ms: between keystrokes.
        max_tokens: of a reply.
        limit: messages.
    """
    wasted: list[float] = []
    superseded: list[float] = []
    late: list[float] = []
    first_token: list[float | None] = []
    alone: list[float | None] = []
    with running(bed) as engine:
        for prompt in prompts[:limit]:
            requests = [
                engine_request(bed.model, typed, f"k{i}", max_tokens=max_tokens)
                for i, typed in enumerate(_keystrokes(prompt))
            ]
            before = engine.statistics.late_steps
            cancelled, last = _type(engine, requests, interval_ms / 1000)
            last.wait()
            ends = [end for heard in cancelled if (end := heard.wait()) is not None]
            given_up = [end for end in ends if end.cause is EndCause.CANCELLED]
            superseded.append(len(given_up))
            wasted.append(sum(end.statistics.forwards for end in given_up))
            late.append(engine.statistics.late_steps - before)
            first_token.append(last.first_token_s)
            again = ask(engine, engine_request(bed.model, _keystrokes(prompt)[-1], "alone", max_tokens=max_tokens))
            again.wait()
            alone.append(again.first_token_s)
    return {
        "messages": len(first_token),
        "interval_ms": interval_ms,
        "superseded": figure(superseded),
        "steps_wasted": figure(wasted),
        "steps_after_cancel": figure(late),
        "first_token_of_the_last_ms": milliseconds(first_token),
        "first_token_with_all_cached_ms": milliseconds(alone),
    }


def _type(engine: Engine, requests: list[GenerationRequest], interval_s: float) -> tuple[list[Heard], Heard]:
    heard: list[Heard] = []
    due = time.perf_counter()
    for i, request in enumerate(requests):
        time.sleep(max(0.0, due - time.perf_counter()))
        due += interval_s
        if i:
            engine.cancel(requests[i - 1].id)
        heard.append(ask(engine, request))
    return heard[:-1], heard[-1]


def _keystrokes(prompt: ChatPrompt) -> list[ChatPrompt]:
    messages = prompt.messages
    at = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=len(messages) - 1)
    text = str(messages[at].get("content") or "")[:LONGEST]
    return [
        ChatPrompt({"messages": [*messages[:at], {"role": "user", "content": text[:end]}]}, None)
        for end in range(1, len(text) + 1)
    ]
