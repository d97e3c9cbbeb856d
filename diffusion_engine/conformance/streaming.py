"""Streams: their shape, that they only append, and that they begin before the reply is done."""

from __future__ import annotations

import json

from diffusion_engine.conformance.streams import gather
from diffusion_engine.conformance.suite import Endpoint, Suite, expect

suite = Suite("streaming")
PROMPT = "Tell a short story about a lighthouse."


@suite.check("events are server-sent JSON and end with [DONE]")
def _events(endpoint: Endpoint) -> None:
    body = {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 8,
        "stream": True,
    }
    with endpoint.http.stream("POST", f"{endpoint.url}/chat/completions", json=body) as answer:
        expect(answer.status_code == 200, f"status {answer.status_code}")
        kind = answer.headers.get("content-type", "")
        expect(kind.startswith("text/event-stream"), f"content-type is {kind!r}")
        lines = [line for line in answer.iter_lines() if line and not line.startswith(":")]
    expect(all(line.startswith("data:") for line in lines), "a line that is no data")
    expect(lines[-1].removeprefix("data:").strip() == "[DONE]", f"the last line is {lines[-1]!r}")
    for line in lines[:-1]:
        expect(json.loads(line.removeprefix("data:"))["object"] == "chat.completion.chunk", f"{line} is no chunk")


@suite.check("one id, the role first, one finish reason")
def _shape(endpoint: Endpoint) -> None:
    chunks = list(endpoint.chat(PROMPT, stream=True))
    reply = gather(chunks)
    expect(len(reply.ids) == 1, f"ids {reply.ids}")
    expect(chunks[0].choices[0].delta.role == "assistant", "the first delta has no role")
    expect(len(reply.reasons) == 1, f"finish reasons {reply.reasons}")


@suite.check("what is streamed is the reply that is not streamed")
def _same(endpoint: Endpoint) -> None:
    for prompt in (PROMPT, "List three colours.", "Why?"):
        whole = endpoint.chat(prompt, max_tokens=48).choices[0]
        reply = gather(endpoint.chat(prompt, max_tokens=48, stream=True))
        expect(reply.text == whole.message.content, f"streamed {reply.text!r}, whole {whole.message.content!r}")
        expect(reply.reasons == [whole.finish_reason], f"streamed {reply.reasons}, whole {whole.finish_reason!r}")


@suite.check("a reply comes in several pieces")
def _pieces(endpoint: Endpoint) -> None:
    reply = gather(endpoint.chat(PROMPT, max_tokens=64, stream=True))
    expect(len(reply.pieces) > 1, f"{len(reply.text)} characters in one piece")


@suite.check("no mask or special token reaches the text")
def _clean(endpoint: Endpoint) -> None:
    for limit in (3, 10, 33):
        reply = gather(endpoint.chat(PROMPT, max_tokens=limit, temperature=1, seed=limit, stream=True))
        expect(reply.reasons, "the stream has no end")
        for mark in ("<|", "|>", "[MASK]", "<mask>"):
            expect(mark not in reply.text, f"{mark!r} in {reply.text!r}")


@suite.check("include_usage adds one last chunk with usage, equal to the whole reply's")
def _usage(endpoint: Endpoint) -> None:
    chunks = list(endpoint.chat(PROMPT, stream=True, stream_options={"include_usage": True}))
    expect(chunks[-1].choices == [], "the last chunk has choices")
    expect(chunks[-1].usage is not None, "the last chunk has no usage")
    whole = endpoint.chat(PROMPT).usage
    told = chunks[-1].usage.completion_tokens
    expect(told == whole.completion_tokens, f"streamed {told} tokens, whole {whole.completion_tokens}")
