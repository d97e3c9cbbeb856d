"""The hosted model's rules, under `/<model>/v1`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from diffusion_engine.server.access import Access
from tests.diffusion_engine.server.conftest import PATIENCE_S, Served, serving
from tests.diffusion_engine.tiny import write_checkpoint

USER: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model whose context is larger than the vendor's."""
    folder = write_checkpoint(tmp_path_factory.mktemp("roomy"), "llama_draft", max_position_embeddings=10_000)
    with serving(folder, access=Access(["secret"])) as running:
        yield running


@pytest.fixture
def client(roomy: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{roomy.url}/tiny/v1", api_key="secret", max_retries=0, timeout=PATIENCE_S)


@pytest.mark.parametrize("max_tokens", [2, 100, 255, 257, 511])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_max_tokens_must_be_one_or_a_multiple_of_256(client: openai.OpenAI, field: str, max_tokens: int) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny", messages=USER, extra_body={field: max_tokens})
    assert refused.value.param == field
    assert f"{field} must be 1 (warm ping) or a positive multiple of 256, got {max_tokens}" in str(refused.value)


@pytest.mark.parametrize("max_tokens", [1, 256])
def test_what_the_rule_allows_is_served(client: openai.OpenAI, max_tokens: int) -> None:
    reply = client.chat.completions.create(model="tiny", messages=USER, max_tokens=max_tokens, stream=False)
    assert reply.usage is not None
    assert 1 <= reply.usage.completion_tokens <= max_tokens


def test_replies_are_streamed_unless_told_otherwise(roomy: Served) -> None:
    body = {"model": "tiny", "messages": USER, "max_tokens": 1}
    headers = {"Authorization": "Bearer secret"}
    answer = httpx.post(f"{roomy.url}/tiny/v1/chat/completions", json=body, headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "total" in answer.headers["server-timing"] or "prefill" in answer.headers["server-timing"]
    plain = httpx.post(f"{roomy.url}/v1/chat/completions", json=body, headers=headers)
    assert plain.headers["content-type"] == "application/json"


def test_max_tokens_is_2048_when_omitted(client: openai.OpenAI, roomy: Served) -> None:
    seen = []
    submit = roomy.model.engine.submit

    def record(request: Any, listener: Any) -> None:
        seen.append(request.max_tokens)
        submit(request, listener)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roomy.model.engine, "submit", record)
        with client.chat.completions.create(model="tiny", messages=USER, stream=True) as chunks:
            next(iter(chunks))
        with client.completions.create(model="tiny", prompt="x", stream=True) as texts:
            next(iter(texts))
    assert seen == [2048, 2048]


def test_prompt_and_reply_share_8192_tokens(client: openai.OpenAI) -> None:
    long: list[Any] = [{"role": "user", "content": "x" * 300}]
    with pytest.raises(openai.BadRequestError, match="8192") as refused:
        client.chat.completions.create(model="tiny", messages=long, max_tokens=7936)
    assert refused.value.code == "context_length_exceeded"


def test_the_model_must_be_named_and_match(roomy: Served, client: openai.OpenAI) -> None:
    headers = {"Authorization": "Bearer secret"}
    unnamed = httpx.post(f"{roomy.url}/tiny/v1/chat/completions", json={"messages": USER}, headers=headers)
    assert unnamed.json()["error"]["param"] == "model"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=USER)


def test_echo_warms_a_connection_for_those_with_a_key(roomy: Served) -> None:
    assert httpx.post(f"{roomy.url}/tiny/v1/echo", content=b"ping").status_code == 401
    answer = httpx.post(f"{roomy.url}/tiny/v1/echo", content=b"ping", headers={"Authorization": "Bearer secret"})
    assert (answer.status_code, answer.content) == (200, b"ping")


def test_its_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_our_own_url_takes_any_max_tokens(checkpoint: Callable[[str], Path], served: Served) -> None:
    for max_tokens in (1, 2, 100, 255):
        reply = served.client().chat.completions.create(model="tiny", messages=USER, max_tokens=max_tokens)
        assert reply.usage is not None
        assert reply.usage.completion_tokens <= max_tokens
