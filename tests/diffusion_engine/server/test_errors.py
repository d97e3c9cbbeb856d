"""Requests that can't be served: which status, which field, and that the next one is served."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from diffusion_engine.runtime import EndCause, EndEvent
from tests.diffusion_engine.server.conftest import Served

USER = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}}


BLAMED: list[tuple[dict[str, Any], str]] = [
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
    ({"diffusion": {"canvas_cache": "dual"}}, "diffusion.canvas_cache"),
    ({"diffusion": {"entropy_bound": -1}}, "diffusion.entropy_bound"),
    ({"diffusion": {"edit_threshold": 2}}, "diffusion.edit_threshold"),
    ({"diffusion": {"sub_block_length": 0}}, "diffusion.sub_block_length"),
    ({"n": 2}, "n"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
    (_strict({"const": 10**29 + 1}), "response_format"),
    (_strict({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}), "response_format"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "tools": [TOOL]}, "logprobs"),
    ({"diffusing": True}, "diffusing"),
    ({"diffusing": True, "stream": True, "logprobs": True}, "diffusing"),
    ({"stream": False, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"tools": [TOOL], "tool_choice": "required", "max_tokens": 3}, "max_tokens"),
    ({"response_format": {"type": "json_object"}, "max_tokens": 1}, "max_tokens"),
    ({"prompt_logprobs": 1}, "prompt_logprobs"),
    ({"logit_bias": {"1": 5}}, "logit_bias"),
    ({"frequency_penalty": 0.5}, "frequency_penalty"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 100_000}, "max_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "user", "content": "x" * 600}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"tools": [TOOL, TOOL]}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 5}}}]}, "tools"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}}, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array", "contains": {}}}}},
        "response_format",
    ),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}}, "response_format"),
    ({"diffusion": {"strategy": "telepathy"}}, "diffusion.strategy"),
    ({"diffusion": {"block_length": 0}}, "diffusion.block_length"),
    ({"diffusion": {"denoising_steps": 99}}, "diffusion.denoising_steps"),
    ({"diffusion": {"speed": 1}}, "diffusion.speed"),
]


@pytest.mark.parametrize(("change", "param"), BLAMED, ids=[param + str(i) for i, (_, param) in enumerate(BLAMED)])
def test_a_400_names_the_field_and_the_next_request_is_served(
    served: Served, change: dict[str, Any], param: str
) -> None:
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={"model": "tiny", "messages": USER, **change})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert httpx.post(f"{served.url}/v1/chat/completions", json={"messages": USER, "max_tokens": 1}).is_success


def test_a_strategy_of_another_family_is_refused(served: Served) -> None:
    other = "dynamic" if served.model.config.family == "llama_draft" else "hybrid"
    with pytest.raises(openai.BadRequestError, match="decodes by") as refused:
        served.client().chat.completions.create(
            model="tiny",
            messages=USER,
            extra_body={"diffusion": {"strategy": other}},  # type: ignore[arg-type]
        )
    assert refused.value.param == "diffusion.strategy"


def test_a_body_that_is_no_json_is_a_400(served: Served) -> None:
    answer = httpx.post(f"{served.url}/v1/chat/completions", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize("body", [{}, {"content": b'{"messages": []}', "headers": {"content-type": "text/plain"}}])
def test_a_body_that_is_missing_or_not_called_json_is_a_400(served: Served, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(f"{served.url}/v1/{path}", **body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "the body must be a JSON object, sent with Content-Type: application/json"
    )


def test_half_of_a_surrogate_pair_is_a_400(served: Served) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "half \ud800"}]})  # escaped, so valid JSON
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{served.url}/v1/chat/completions", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"
    assert "surrogate" in answer.json()["error"]["message"]


def test_an_unknown_model_is_a_404(served: Served) -> None:
    with pytest.raises(openai.NotFoundError, match="'tiny' is") as refused:
        served.client().chat.completions.create(model="other", messages=USER)  # type: ignore[arg-type]
    assert refused.value.param == "model"


def test_an_unknown_path_has_the_same_shape(served: Served) -> None:
    answer = httpx.get(f"{served.url}/v1/nothing")
    assert answer.status_code == 404
    assert "/v1/nothing" in answer.json()["error"]["message"]


def test_without_the_key_nothing_of_v1_answers(small: Served) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
        for answer in (
            httpx.get(f"{small.url}/v1/models", headers=headers),
            httpx.post(f"{small.url}/v1/requests/x/cancel", headers=headers),
            httpx.post(f"{small.url}/v1/chat/completions", headers=headers, json={"messages": USER}),
        ):
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
    with pytest.raises(openai.AuthenticationError):
        small.client("wrong").models.list()
    assert small.client("secret").models.list().data
    assert httpx.get(f"{small.url}/health").is_success


def test_a_full_engine_says_when_to_come_back(small: Served) -> None:
    client = small.client("secret")
    long: dict[str, Any] = {"model": "tiny", "messages": USER, "max_tokens": 400, "stream": True}
    running = client.chat.completions.create(**long)
    next(iter(running))
    waiting = _Background(small, {**long, "max_tokens": 1})
    small.wait_for(lambda: small.metric("requests_waiting") == 1 or waiting.done)
    if not waiting.done:  # the first one may have ended in between on a fast machine
        with pytest.raises(openai.InternalServerError) as refused:
            client.chat.completions.create(**long)
        assert refused.value.status_code == 503
        assert refused.value.response.headers["retry-after"] == "1"
    running.close()
    waiting.join()
    assert waiting.status == 200


def test_an_id_in_use_is_a_409(small: Served) -> None:
    client = small.client("secret")
    arguments: dict[str, Any] = {
        "model": "tiny", "messages": USER, "max_tokens": 400, "extra_body": {"diffusion": {"request_id": "mine"}}
    }  # fmt: skip
    with client.chat.completions.create(**arguments, stream=True) as running:
        next(iter(running))
        with pytest.raises(openai.ConflictError):
            client.chat.completions.create(**arguments)


def test_a_draining_engine_is_a_503(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.model.engine, "_draining", True)
    with pytest.raises(openai.InternalServerError, match="shutting down") as refused:
        served.client().chat.completions.create(model="tiny", messages=USER)  # type: ignore[arg-type]
    assert refused.value.status_code == 503


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_is_not_what_it_was_held_to_is_an_error(
    served: Served, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """The last check stands on its own: here the grammar is taken away."""
    monkeypatch.setattr("diffusion_engine.server.constraints.json_grammar", lambda schema: "start: /[a-z]{3}/")
    body: dict[str, Any] = {
        "model": "tiny", "messages": USER, "response_format": {"type": "json_object"}, "stream": stream
    }  # fmt: skip
    with pytest.raises(openai.APIError, match="does not satisfy the schema"):
        list(served.client().chat.completions.create(**body))


def test_an_error_in_the_middle_of_a_stream_reaches_the_client(served: Served) -> None:
    stream = served.client().chat.completions.create(
        model="tiny", messages=USER, max_tokens=300, stream=True,  # type: ignore[arg-type]
        extra_body={"diffusion": {"request_id": "doomed"}},
    )  # fmt: skip
    chunks = iter(stream)
    next(chunks)
    served.model.engine._listeners["doomed"]([EndEvent(EndCause.TIMEOUT)])
    with pytest.raises(openai.APIError, match="took too long"):
        list(chunks)


class _Background:
    """A request in a thread."""

    def __init__(self, served: Served, body: dict[str, Any]) -> None:
        import threading

        self.status = 0
        self._thread = threading.Thread(target=self._run, args=(served, body))
        self._thread.start()

    def _run(self, served: Served, body: dict[str, Any]) -> None:
        answer = httpx.post(
            f"{served.url}/v1/chat/completions", json=body, headers={"Authorization": "Bearer secret"}, timeout=20
        )
        self.status = answer.status_code

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(20)
