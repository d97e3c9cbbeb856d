"""Log-probabilities: one entry for every token, streamed or not, and the right numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from diffusion_engine.decoding import Pass
from diffusion_engine.runtime.attention import Segment
from tests.diffusion_engine.server.conftest import Served

USER: list[Any] = [{"role": "user", "content": "hello"}]


def _entries(served: Served, stream: bool, **more: Any) -> tuple[list[Any], str, int]:
    """Entries, text and tokens of a reply."""
    arguments: dict[str, Any] = {
        "model": "tiny", "messages": USER, "max_tokens": 30, "logprobs": True, "top_logprobs": 3, **more
    }  # fmt: skip
    client = served.client()
    if not stream:
        reply = client.chat.completions.create(**arguments)
        choice = reply.choices[0]
        assert choice.logprobs is not None
        assert reply.usage is not None
        return list(choice.logprobs.content or []), choice.message.content or "", reply.usage.completion_tokens
    entries: list[Any] = []
    text, tokens = "", 0
    for chunk in client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True}):
        for part in chunk.choices:
            text += part.delta.content or ""
            if part.delta.content:
                assert part.logprobs is not None, "text without its log-probabilities"
            entries += (part.logprobs.content or []) if part.logprobs is not None else []
        tokens = chunk.usage.completion_tokens if chunk.usage is not None else tokens
    return entries, text, tokens


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_token_has_one(served: Served, stream: bool, seed: int) -> None:
    entries, text, tokens = _entries(served, stream, temperature=1.0, seed=seed)
    assert len(entries) == tokens > 0
    spelled = b"".join(bytes(entry.bytes) for entry in entries)
    assert spelled.decode(errors="replace").startswith(text.rstrip("\ufffd"))
    for entry in entries:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob >= entry.logprob
        ranked = [alternative.logprob for alternative in entry.top_logprobs]
        assert ranked == sorted(ranked, reverse=True)


def test_streamed_and_whole_agree(served: Served) -> None:
    whole, text, _ = _entries(served, False, temperature=1.0, seed=11)
    streamed, same, _ = _entries(served, True, temperature=1.0, seed=11)
    assert (streamed, same) == (whole, text)


def test_at_temperature_zero_the_token_is_the_most_probable_one(served: Served) -> None:
    entries, _, _ = _entries(served, False, temperature=0)
    assert [entry.token for entry in entries] == [entry.top_logprobs[0].token for entry in entries]


@pytest.mark.parametrize("served", ["llama_draft"], indirect=True)
def test_they_are_those_of_the_model(served: Served) -> None:
    """Against a forward pass of the bare transformer; causal text has one distribution a token, whatever the steps."""
    model = served.model
    prompt = model.tokenizer.encode("once upon a time")
    reply = served.client().completions.create(
        model="tiny", prompt="once upon a time", max_tokens=8, temperature=0, logprobs=2
    )
    noted = reply.choices[0].logprobs
    assert noted is not None
    assert noted.token_logprobs is not None
    assert len(noted.token_logprobs) == len(noted.tokens or []) == len(noted.top_logprobs or []) == 8
    scheduler = model.engine._scheduler
    text = list(prompt)
    for logprob in noted.token_logprobs:
        step = Pass(tokens=text, start=0, clean=len(text), wanted=[len(text) - 1])
        pages = scheduler.cache.pool.total - 1
        with torch.inference_mode():
            (logits,) = scheduler._runner.run([Segment(step, list(range(pages, pages - 16, -1)))])
            logits[:, scheduler._suppressed] = -torch.inf
        value, token = torch.log_softmax(logits[0].double(), -1).max(-1)
        assert math.isclose(float(value), logprob, abs_tol=1e-4)
        text.append(int(token))


def test_what_a_grammar_forces_has_a_log_probability_of_zero(served: Served) -> None:
    schema = {"const": "forced"}
    entries, text, _ = _entries(
        served, False, temperature=1.0,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )  # fmt: skip
    assert text == '"forced"'
    assert all(entry.logprob == 0 for entry in entries)


def test_asking_for_them_changes_no_token(served: Served) -> None:
    _, noted, _ = _entries(served, False, temperature=1.0, seed=5)
    plain = served.client().chat.completions.create(model="tiny", messages=USER, max_tokens=30, temperature=1.0, seed=5)
    assert plain.choices[0].message.content == noted
