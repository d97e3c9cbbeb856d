"""A user's own chat requests, replayed over HTTP at open-loop arrivals.

Open loop: requests are sent when they are due, whether or not earlier ones are answered, as many independent users
would; a slow server faces a queue, and every wait counts. Arrivals are Poisson.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from diffusion_engine.bench.client import Reply, stream
from diffusion_engine.bench.figures import figure, milliseconds
from diffusion_engine.bench.prompts import ChatPrompt

KEY_VARIABLE = "DIFFUSION_ENGINE_API_KEY"


def measure_replay(
    url: str, prompts: Sequence[ChatPrompt], *, rate: float, seed: int = 0, timeout_s: float = 600.0
) -> dict[str, Any]:
    """Send every request once.

    Args:
        url: of the server, without `/v1`.
        prompts: bodies of chat requests.
        rate: mean arrivals a second.
        seed: of the arrivals.
        timeout_s: of a request.
    """
    began = time.perf_counter()
    replies, late_s = asyncio.run(_send(url, prompts, rate, seed, timeout_s))
    took_s = time.perf_counter() - began
    good = [reply for reply in replies if reply.error is None]
    tokens = sum(reply.completion_tokens or 0 for reply in good)
    return {
        "requests": len(replies),
        "rate": rate,
        "errors": dict(Counter(reply.error for reply in replies if reply.error is not None)),
        "first_token_ms": milliseconds(reply.first_token_s for reply in good),
        "reply_ms": milliseconds(reply.reply_s for reply in good),
        "queue_ms": milliseconds(reply.phase_s("queue") for reply in good),
        "completion_tokens": figure(reply.completion_tokens for reply in good),
        "cached_tokens": figure(reply.cached_tokens for reply in good),
        "throughput_tok_s": round(tokens / took_s, 1),
        "answered_per_s": round(len(good) / took_s, 3),
        "sent_late_ms": milliseconds(late_s),
    }


async def _send(
    url: str, prompts: Sequence[ChatPrompt], rate: float, seed: int, timeout_s: float
) -> tuple[list[Reply], list[float]]:
    rng = random.Random(seed)
    key = os.environ.get(KEY_VARIABLE, "").split(",")[0].strip() or None
    due = time.perf_counter()
    late_s: list[float] = []
    tasks = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with httpx.AsyncClient(timeout=timeout_s, limits=limits) as client:
        for prompt in prompts:
            due += rng.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late_s.append(time.perf_counter() - due)
            tasks.append(asyncio.create_task(stream(client, f"{url}/v1/chat/completions", prompt.body, due, key)))
        return list(await asyncio.gather(*tasks)), late_s
