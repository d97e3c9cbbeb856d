"""Stop strings, seeds, and log-probabilities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai

from diffusion_engine.conformance.streams import gather
from diffusion_engine.conformance.suite import Endpoint, Skipped, Suite, expect

suite = Suite("sampling")
PROMPT = "Describe a walk along the sea in a few sentences."


@suite.check("a stop string ends the reply before it, wherever it stands")
def _stop(endpoint: Endpoint) -> None:
    whole = endpoint.chat(PROMPT, max_tokens=48).choices[0].message.content or ""
    expect(len(whole) >= 4, f"the reply {whole!r} is too short to be stopped")
    for at in sorted({1, 2, 3, len(whole) // 2, len(whole) * 3 // 4}):
        stop = whole[at : at + 2]
        if not stop.strip("\ufffd"):
            continue
        cut = endpoint.chat(PROMPT, max_tokens=48, stop=[stop]).choices[0]
        expected = whole[: whole.index(stop)]
        expect(cut.message.content == expected, f"stop {stop!r}: {cut.message.content!r} instead of {expected!r}")
        expect(cut.finish_reason == "stop", f"finish_reason is {cut.finish_reason!r}")
        streamed = gather(endpoint.chat(PROMPT, max_tokens=48, stop=[stop], stream=True))
        expect(streamed.text == expected, f"streamed, stop {stop!r}: {streamed.text!r} instead of {expected!r}")


@suite.check("the first of several stop strings counts")
def _stops(endpoint: Endpoint) -> None:
    whole = endpoint.chat(PROMPT, max_tokens=48).choices[0].message.content or ""
    early, late = whole[2:4], whole[-3:]
    if not early.strip("\ufffd") or not late.strip("\ufffd"):
        raise Skipped("the reply has no text to stop at")
    cut = endpoint.chat(PROMPT, max_tokens=48, stop=[late, early]).choices[0].message.content
    expected = whole[: min(whole.index(early), whole.index(late))]
    expect(cut == expected, f"{cut!r} instead of {expected!r}")


def _seeded(endpoint: Endpoint, seed: int, prompt: str = PROMPT) -> str:
    return endpoint.chat(prompt, temperature=1, seed=seed).choices[0].message.content or ""


@suite.check("the same seed gives the same reply, another seed another one")
def _seed(endpoint: Endpoint) -> None:
    first, again = _seeded(endpoint, 7), _seeded(endpoint, 7)
    expect(first == again, f"{first!r} and {again!r} of one seed")
    others = {_seeded(endpoint, seed) for seed in (8, 9, 10)}
    expect(others != {first}, "four seeds gave one reply")


@suite.check("a seed's reply does not depend on the requests beside it")
def _batch_mates(endpoint: Endpoint) -> None:
    alone = _seeded(endpoint, 21)
    for round_ in range(3):
        with ThreadPoolExecutor(6) as pool:
            mates = [pool.submit(_seeded, endpoint, 100 * round_ + i, f"{'x ' * (5 * i)}{round_}") for i in range(5)]
            beside = pool.submit(_seeded, endpoint, 21).result()
            for mate in mates:
                mate.result()
        expect(beside == alone, f"alone {alone!r}, beside others {beside!r}")


@suite.check("every token has its log-probability, streamed and not")
def _logprobs(endpoint: Endpoint) -> None:
    arguments: dict[str, Any] = {"logprobs": True, "top_logprobs": 2, "max_tokens": 16}
    try:
        whole = endpoint.chat(PROMPT, **arguments)
    except openai.BadRequestError as refused:
        expect("logprobs" in str(refused), f"refused without naming logprobs: {refused}")
        raise Skipped("logprobs are refused, and named") from None
    noted = whole.choices[0].logprobs
    expect(noted is not None and noted.content, "no log-probabilities")
    expect(len(noted.content) == whole.usage.completion_tokens, f"{len(noted.content)} entries")
    for entry in noted.content:
        expect(entry.logprob <= 1e-6, f"{entry.logprob} is no log-probability")
        expect(len(entry.top_logprobs) == 2, f"{len(entry.top_logprobs)} alternatives instead of 2")
    streamed = gather(endpoint.chat(PROMPT, stream=True, **arguments)).logprobs
    tokens = [entry.token for entry in noted.content]
    expect([entry.token for entry in streamed] == tokens, f"streamed {len(streamed)} entries, whole {len(tokens)}")
