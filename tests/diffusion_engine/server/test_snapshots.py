"""A normal stream is append-only; snapshots come only where asked for, and marked."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from diffusion_engine.decoding import Strategy
from tests.diffusion_engine.server.conftest import Served

USER: list[Any] = [{"role": "user", "content": "hello"}]
BODY: dict[str, Any] = {"model": "tiny", "messages": USER, "max_tokens": 24, "temperature": 1.0, "stream": True}


def chunks(served: Served, **more: Any) -> list[dict[str, Any]]:
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={**BODY, **more}, timeout=20)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize("seed", range(5))
def test_each_snapshot_replaces_the_last_and_the_last_is_the_reply(served: Served, seed: int) -> None:
    shown = chunks(served, diffusing=True, seed=seed)
    whole = httpx.post(f"{served.url}/v1/chat/completions", json={**BODY, "stream": False, "seed": seed}).json()
    snapshots = [chunk for chunk in shown if "diffusion_meta" in chunk]
    assert snapshots[-1]["choices"][0]["delta"]["content"] == whole["choices"][0]["message"]["content"]
    assert snapshots[-1]["diffusion_meta"]["diffusion_progress"] == 1
    assert shown[-1]["diffusion"]["end_cause"] == whole["diffusion"]["end_cause"]
    for chunk in snapshots:
        assert chunk["diffusion_meta"]["diffusion_content"] == chunk["choices"][0]["delta"]["content"]
        assert 0 <= chunk["diffusion_meta"]["diffusion_progress"] <= 1


def test_what_is_written_ahead_of_a_gap_is_shown_and_not_billed(served: Served) -> None:
    strategy = Strategy.STATIC if Strategy.STATIC in served.model.strategies else Strategy.HYBRID
    shown = chunks(
        served, diffusing=True, seed=3, diffusion={"strategy": strategy}, stream_options={"include_usage": True}
    )
    normal = chunks(served, seed=3, diffusion={"strategy": strategy}, stream_options={"include_usage": True})
    assert shown[-1]["usage"] == {
        **normal[-1]["usage"],
        "prompt_tokens_details": shown[-1]["usage"]["prompt_tokens_details"],
    }
    reply = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in normal if chunk["choices"])
    snapshots = [chunk["diffusion_meta"]["diffusion_content"] for chunk in shown if "diffusion_meta" in chunk]
    assert any(not reply.startswith(snapshot) for snapshot in snapshots), "nothing provisional was shown"


@pytest.mark.parametrize("stop", [None, ["ab", "e"]])
def test_a_normal_stream_is_append_only_and_unmarked(served: Served, stop: list[str] | None) -> None:
    for strategy in served.model.strategies:
        normal = chunks(served, seed=1, diffusion={"strategy": strategy}, **({"stop": stop} if stop else {}))
        assert not any("diffusion_meta" in chunk for chunk in normal)
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in normal)
        body = {
            **BODY,
            "stream": False,
            "seed": 1,
            "diffusion": {"strategy": strategy},
            **({"stop": stop} if stop else {}),
        }
        whole = httpx.post(f"{served.url}/v1/chat/completions", json=body).json()
        assert text == whole["choices"][0]["message"]["content"]
        for mark in ("<|", "[MASK]"):
            assert mark not in text
