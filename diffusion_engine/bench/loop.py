"""Ten calls in a row, each prompt the last one and its reply and one message more: an agent's loop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from diffusion_engine.bench.bed import Bed, Run, run
from diffusion_engine.bench.figures import milliseconds
from diffusion_engine.bench.prompts import ChatPrompt, engine_request

CALLS = 10


def measure_loop(bed: Bed, prompts: Sequence[ChatPrompt], *, max_tokens: int, rounds: int) -> dict[str, Any]:
    """Run the loop with the prefix cache, and with none from call to call, in turn.

    Args:
        bed: idle.
        prompts: the first one's system message begins; each one's last message of the user is a call.
        max_tokens: of a reply.
        rounds: of both.
    """
    kept: list[list[Run]] = []
    cold: list[list[Run]] = []
    totals: dict[str, list[float]] = {"kept": [], "cold": []}
    for _ in range(rounds):
        for name, taken, keep in (("kept", kept, True), ("cold", cold, False)):
            bed.scheduler.cache.prefix.clear()
            began = time.perf_counter()
            taken.append(_loop(bed, prompts, max_tokens, keep))
            totals[name].append(time.perf_counter() - began)
    flat = [each for loop in kept for each in loop]
    return {
        "calls": [
            {
                "cached_tokens": kept[0][i].cached_tokens,
                "completion_tokens": len(kept[0][i].tokens),
                "first_token_ms": milliseconds(loop[i].first_token_s for loop in kept),
                "reply_ms": milliseconds(loop[i].reply_s for loop in kept),
            }
            for i in range(CALLS)
        ],
        "first_token_ms": milliseconds(each.first_token_s for each in flat),
        "reply_ms": milliseconds(each.reply_s for each in flat),
        "total_ms": milliseconds(totals["kept"]),
        "without_prefix_cache": {
            "first_token_ms": milliseconds(each.first_token_s for loop in cold for each in loop),
            "reply_ms": milliseconds(each.reply_s for loop in cold for each in loop),
            "total_ms": milliseconds(totals["cold"]),
        },
        "identical": all([a.tokens == b.tokens for a, b in zip(flat, (e for loop in cold for e in loop), strict=True)]),
    }


def _loop(bed: Bed, prompts: Sequence[ChatPrompt], max_tokens: int, keep: bool) -> list[Run]:
    messages = [message for message in prompts[0].messages if message["role"] == "system"]
    runs = []
    for call in range(CALLS):
        messages = [*messages, _asked(prompts[call % len(prompts)])]
        if not keep:
            bed.scheduler.cache.prefix.clear()
        request = engine_request(bed.model, ChatPrompt({"messages": messages}, None), "loop", max_tokens=max_tokens)
        runs.append(run(bed, request))
        messages = [*messages, {"role": "assistant", "content": bed.model.tokenizer.decode(list(runs[-1].tokens))}]
    return runs


def _asked(prompt: ChatPrompt) -> dict[str, Any]:
    users = [message for message in prompt.messages if message["role"] == "user"]
    return users[-1] if users else {"role": "user", "content": prompt.text}
