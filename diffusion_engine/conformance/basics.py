"""Models, whole replies, usage, and plain completions."""

from __future__ import annotations

import openai

from diffusion_engine.conformance.suite import Endpoint, Skipped, Suite, expect

suite = Suite("basics")


@suite.check("the model is listed")
def _listed(endpoint: Endpoint) -> None:
    names = [model.id for model in endpoint.client.models.list()]
    expect(endpoint.model in names, f"{endpoint.model!r} is not among {names}")


@suite.check("a reply has the shape of a chat completion")
def _shape(endpoint: Endpoint) -> None:
    reply = endpoint.chat()
    expect(reply.object == "chat.completion", f"object is {reply.object!r}")
    expect(len(reply.choices) == 1, f"{len(reply.choices)} choices")
    choice = reply.choices[0]
    expect(choice.message.role == "assistant", f"role is {choice.message.role!r}")
    expect(choice.message.content is not None, "no content")
    expect(choice.finish_reason in ("stop", "length"), f"finish_reason is {choice.finish_reason!r}")


@suite.check("system messages, earlier turns and text parts are taken")
def _messages(endpoint: Endpoint) -> None:
    reply = endpoint.chat(
        messages=[
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": " there."}]},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "And now?"},
        ]
    )
    expect(reply.choices, "there is no reply")


@suite.check("usage adds up, and counts what was emitted")
def _usage(endpoint: Endpoint) -> None:
    for limit in (1, 5, 17):
        usage = endpoint.chat(max_tokens=limit).usage
        expect(usage is not None, "no usage")
        expect(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, f"{usage} does not add up")
        expect(0 <= usage.completion_tokens <= limit, f"{usage.completion_tokens} tokens where {limit} were allowed")


@suite.check("a longer prompt is counted longer; a repeated one may come from a cache")
def _prompt_usage(endpoint: Endpoint) -> None:
    short = endpoint.chat("one", max_tokens=1).usage
    prompt = "one two three four five six seven eight nine ten"
    long, again = (endpoint.chat(prompt, max_tokens=1).usage for _ in range(2))
    expect(long.prompt_tokens > short.prompt_tokens, f"{long.prompt_tokens} <= {short.prompt_tokens} prompt tokens")
    expect(again.prompt_tokens == long.prompt_tokens, "the same prompt was counted differently")
    details = again.prompt_tokens_details
    if details is None or details.cached_tokens is None:
        raise Skipped("cached tokens are not told")
    expect(0 <= details.cached_tokens <= again.prompt_tokens, f"{details.cached_tokens} cached tokens")


@suite.check("max_tokens ends a reply with `length`, whatever the number")
def _length(endpoint: Endpoint) -> None:
    for limit in (1, 2, 3, 7, 20):
        reply = endpoint.chat("Count from one to one hundred.", max_tokens=limit)
        reason = reply.choices[0].finish_reason
        cut = reply.usage.completion_tokens == limit
        expect(reason == "stop" or (reason == "length" and cut), f"{reason!r} where {limit} were allowed")


@suite.check("max_completion_tokens is the same limit")
def _max_completion_tokens(endpoint: Endpoint) -> None:
    reply = endpoint.chat(max_tokens=None, max_completion_tokens=4)
    expect(reply.usage.completion_tokens <= 4, f"{reply.usage.completion_tokens} tokens where 4 were allowed")


@suite.check("plain completions are served, streamed and not")
def _completions(endpoint: Endpoint) -> None:
    try:
        whole = endpoint.client.completions.create(
            model=endpoint.model, prompt="Once upon a time", max_tokens=12, temperature=0
        )
    except openai.NotFoundError:
        raise Skipped("there is no /completions") from None
    chunks = endpoint.client.completions.create(
        model=endpoint.model, prompt="Once upon a time", max_tokens=12, temperature=0, stream=True
    )
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    expect(text == whole.choices[0].text, f"streamed {text!r}, whole {whole.choices[0].text!r}")
