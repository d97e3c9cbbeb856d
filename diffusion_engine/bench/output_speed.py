"""Output speed by the method that the hosted diffusion model publishes its own by.

Ten prompts for long texts, fifty requests in all, one after the other, at most 1,024 tokens each, the median. Tokens a
second are counted twice: from the first to the last token, and over the whole request with the wait for the first.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import httpx

from diffusion_engine.bench.client import Reply, stream
from diffusion_engine.bench.figures import figure, milliseconds
from diffusion_engine.bench.modes import Report
from diffusion_engine.bench.replay import KEY_VARIABLE

OUTPUT_CAP = 1024
REQUESTS = 50
PROMPTS = (
    "Write a detailed history of the bicycle, from the first wooden machines to electric ones.",
    "Explain how a modern processor executes a program, from the instruction fetch to the retirement, step by step.",
    "Write a short story about a lighthouse keeper who finds a letter in a bottle. Take your time with the scenery.",
    "Describe a week of hiking in the mountains, day by day, with what to pack and what can go wrong.",
    "Write a tutorial on baking sourdough bread for complete beginners, with the reasons behind every step.",
    "Discuss the arguments for and against working from home, for employees, companies and cities.",
    "Explain the causes and the course of the French Revolution to a curious teenager.",
    "Write a long letter from a grandmother to her grandson who is moving abroad.",
    "Compare five ways to store energy from the sun and the wind, with their costs, limits and uses.",
    "Write a guide to starting a small vegetable garden, month by month through the year.",
)


def measure_output_speed(
    url: str, *, requests: int = REQUESTS, cap: int = OUTPUT_CAP, report: Report
) -> dict[str, Any]:
    """Ask, one request after the other.

    Args:
        url: of the server, without `/v1`.
        requests: in all, the prompts in turn.
        cap: tokens of a reply at most.
        report: gets a line a round of prompts.
    """
    replies = asyncio.run(_ask(url, requests, cap, report))
    good = [reply for reply in replies if reply.error is None and reply.completion_tokens]
    return {
        "method": f"{len(PROMPTS)} prompts, {requests} requests, one after the other, at most {cap} tokens",
        "requests": len(replies),
        "errors": len(replies) - len(good),
        "output_tok_s": figure(_after_first(reply) for reply in good),
        "whole_request_tok_s": figure((reply.completion_tokens or 0) / reply.reply_s for reply in good),
        "completion_tokens": figure(reply.completion_tokens for reply in good),
        "first_token_ms": milliseconds(reply.first_token_s for reply in good),
        "reply_ms": milliseconds(reply.reply_s for reply in good),
    }


def _after_first(reply: Reply) -> float | None:
    if reply.first_token_s is None or reply.last_token_s is None or reply.last_token_s <= reply.first_token_s:
        return None  # it came in one piece
    return ((reply.completion_tokens or 0) - 1) / (reply.last_token_s - reply.first_token_s)


async def _ask(url: str, requests: int, cap: int, report: Report) -> list[Reply]:
    key = os.environ.get(KEY_VARIABLE, "").split(",")[0].strip() or None
    replies = []
    async with httpx.AsyncClient(timeout=600.0) as client:
        for number in range(requests):
            body = {
                "messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}],
                "max_tokens": cap,
                "temperature": 0,
            }
            replies.append(await stream(client, f"{url}/v1/chat/completions", body, time.perf_counter(), key))
            if (number + 1) % len(PROMPTS) == 0:
                report(f"{number + 1} of {requests} requests")
    return replies
