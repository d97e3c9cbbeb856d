"""The workloads, in process and against a running server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffusion_engine import cli
from diffusion_engine.bench.loop import CALLS
from diffusion_engine.bench.prompts import FRONT_DESK, ChatPrompt, PromptError, load_prompts
from diffusion_engine.bench.random_model import measure_floor, write_random_model
from diffusion_engine.bench.supersede import measure_supersede
from diffusion_engine.server.schemas import ChatCompletionRequest
from tests.diffusion_engine.bench.conftest import MESSAGES
from tests.diffusion_engine.server.conftest import Served, served  # noqa: F401

Bench = Callable[..., dict[str, Any]]


def test_a_loop_of_calls_finds_its_own_prefix(
    bench: Bench, checkpoint: Callable[[str], Path], prompts_file: Path
) -> None:
    model = str(checkpoint("llama_draft"))
    loop = ["loop", "--rounds", "1", "--max-tokens", "4", "--prompts", str(prompts_file), "--dtype", "fp32"]
    results = bench("--model", model, *loop)
    cached = [call["cached_tokens"] for call in results["calls"]]
    assert len(cached) == CALLS
    assert cached[0] == 0
    assert cached == sorted(set(cached)), "each call finds more than the last"
    assert results["identical"] is True
    assert results["without_prefix_cache"]["reply_ms"]["n"] == CALLS


def test_a_keystroke_supersedes_the_last_request(beds: Callable[[str], Any], prompts_file: Path) -> None:
    results = measure_supersede(
        beds("llama_draft"), load_prompts(prompts_file), interval_ms=0.0, max_tokens=16, limit=2
    )
    typed = [len(message) for message in MESSAGES[:2]]
    assert results["messages"] == 2
    assert 0 < results["superseded"]["p50"] <= max(typed) - 1
    assert results["first_token_of_the_last_ms"]["n"] == 2
    assert results["steps_after_cancel"]["p95"] <= results["superseded"]["p95"], "each cancel within a step"


def test_replaying_a_file_of_requests(bench: Bench, served: Served, prompts_file: Path) -> None:  # noqa: F811
    wrong = {"messages": [{"role": "nobody", "content": "hello"}]}
    lines = [json.loads(line) for line in prompts_file.read_text().splitlines()]
    bodies = [{"messages": line["messages"], "max_tokens": 8} for line in lines]
    prompts_file.write_text("\n".join(map(json.dumps, [*bodies, wrong])))
    results = bench("replay", str(prompts_file), "--rate", "200", "--url", f"{served.url}/v1")
    assert results["requests"] == len(bodies) + 1
    assert results["errors"] == {"400": 1}
    assert results["reply_ms"]["n"] == results["sent_late_ms"]["n"] - 1 == len(bodies)
    assert results["completion_tokens"]["p95"] <= 8


def test_output_speed(bench: Bench, served: Served) -> None:  # noqa: F811
    results = bench("output-speed", "--requests", "12", "--cap", "24", "--url", served.url)
    assert (results["requests"], results["errors"]) == (12, 0)
    assert results["whole_request_tok_s"]["n"] == 12
    assert 0 < results["completion_tokens"]["p95"] <= 24


def test_a_server_is_started_where_none_is_named(
    bench: Bench, checkpoint: Callable[[str], Path], prompts_file: Path
) -> None:
    results = bench(
        "replay", str(prompts_file), "--rate", "100", "--model", str(checkpoint("llama_draft")), "--dtype", "fp32"
    )
    assert (results["requests"], results["errors"]) == (len(MESSAGES), {})


def test_the_random_model_has_twenty_million_weights(tmp_path: Path) -> None:
    assert write_random_model(tmp_path / "random") == pytest.approx(20e6, rel=0.05)


def test_the_first_token_of_the_random_model_comes_over_http() -> None:
    results = measure_floor(dtype="int8", repeats=3)
    assert results["errors"] == 0
    assert results["first_token_ms"]["n"] == 3
    assert results["first_token_ms"]["p50"] >= results["engine_first_token_ms"]["p50"] > 0


def test_the_shipped_prompts_are_requests() -> None:
    prompts = load_prompts(FRONT_DESK)
    calls = [prompt for prompt in prompts if prompt.reply and prompt.reply.get("tool_calls")]
    assert (len(prompts), len(calls)) == (24, 8)
    for prompt in prompts:
        assert ChatCompletionRequest.model_validate(prompt.body).tools


def test_fewer_prompts_are_spread_over_the_file(prompts_file: Path) -> None:
    def asked(prompts: list[ChatPrompt]) -> list[str]:
        return [str(prompt.messages[-1]["content"]) for prompt in prompts]

    assert asked(load_prompts(prompts_file, 2)) == [MESSAGES[0], MESSAGES[2]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [("", "holds no request"), ('{"messages": [{}]}\nnonsense', "line 2"), ('{"prompt": "hello"}', "line 1")],
)
def test_a_file_that_holds_no_requests_is_refused_by_line(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(PromptError, match=reason):
        load_prompts(path)


def test_the_command_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    checkpoint: Callable[[str], Path],
    prompts_file: Path,
) -> None:
    monkeypatch.setattr(cli, "_pin_threads", lambda threads: None)
    model = ["bench", "--model", str(checkpoint("sdar"))]
    assert cli.main([*model, "--prompts", str(tmp_path / "missing.jsonl")]) == 1
    assert "missing.jsonl" in capsys.readouterr().err
    assert cli.main([*model, "loop", "--prompts", str(prompts_file), "--json", str(tmp_path / "no" / "x.json")]) == 1
    assert "there is no folder" in capsys.readouterr().err
