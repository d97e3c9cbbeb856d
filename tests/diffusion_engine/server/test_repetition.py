"""The API's limit to repetition: on by default, to be set or switched off, and reported."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.diffusion_engine.server.conftest import Served

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 450, "temperature": 0}


def ask(served: Served, **diffusion: Any) -> dict[str, Any]:
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={**BODY, "diffusion": diffusion}, timeout=20)
    return dict(answer.json())


@pytest.mark.parametrize("served", ["sdar"], indirect=True)  # the other's random weights end their reply
def test_a_reply_that_repeats_itself_for_ever_is_ended(served: Served) -> None:
    before = served.metric('requests_total{cause="repetition"}')
    endless = ask(served, repetition_limit=0)
    assert endless["diffusion"]["end_cause"] == "length"
    short = ask(served, repetition_limit=12)
    assert short["diffusion"]["end_cause"] == "repetition"
    assert short["choices"][0]["finish_reason"] == "stop"
    assert short["usage"]["completion_tokens"] < endless["usage"]["completion_tokens"]
    assert endless["choices"][0]["message"]["content"].startswith(
        short["choices"][0]["message"]["content"].rstrip("\ufffd")
    )
    assert served.metric('requests_total{cause="repetition"}') == before + 1


def test_a_document_is_not_cut_by_it(served: Served) -> None:
    schema = {"type": "string", "minLength": 40, "pattern": "^x*$"}
    body = {**BODY, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}, "max_tokens": 60}
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={**body, "diffusion": {"repetition_limit": 4}})
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    assert answer.json()["choices"][0]["message"]["content"].endswith('x"')
