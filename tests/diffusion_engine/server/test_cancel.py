"""A client that goes, or cancels, frees its request within a step."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from tests.diffusion_engine.server.conftest import Served

LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 450, "temperature": 0}


@pytest.fixture
def slowed(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Steps that take as long as those of a real model, so that a request is still running when it is cancelled."""
    runner = served.model.engine._scheduler._runner
    run, pause = runner.run, threading.Event()

    def slow(segments: Any) -> Any:
        pause.wait(0.01)
        return run(segments)

    monkeypatch.setattr(runner, "run", slow)
    return served


def test_closing_the_stream_frees_the_request(slowed: Served) -> None:
    before, late = slowed.metric('requests_total{cause="disconnected"}'), slowed.metric("cancel_late_steps_total")
    with httpx.stream("POST", f"{slowed.url}/v1/chat/completions", json={**LONG, "stream": True}) as answer:
        lines = answer.iter_lines()
        for _ in range(5):
            next(lines)
        assert slowed.metric("requests_running") == 1
    slowed.wait_for(lambda: slowed.metric('requests_total{cause="disconnected"}') == before + 1)
    assert slowed.metric("requests_running") == 0
    assert slowed.metric("cancel_late_steps_total") == late
    assert slowed.metric("pages_free") + slowed.metric("pages_prefix_cache") == slowed.metric("pages")
    # Nothing runs on: the engine is idle.
    forwards = slowed.metric("forwards_total")
    slowed.metric("forwards_total")
    assert slowed.metric("forwards_total") == forwards


def test_a_client_that_leaves_before_the_first_byte_frees_the_request(slowed: Served) -> None:
    before = slowed.metric('requests_total{cause="disconnected"}')
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{slowed.url}/v1/chat/completions", json=LONG, timeout=httpx.Timeout(5, read=0.05))
    slowed.wait_for(lambda: slowed.metric('requests_total{cause="disconnected"}') == before + 1)
    assert slowed.metric("requests_running") == 0


@pytest.mark.parametrize("stream", [False, True])
def test_cancel_by_id(slowed: Served, stream: bool) -> None:
    before = slowed.metric('requests_total{cause="cancelled"}')
    answers: list[httpx.Response] = []
    body = {**LONG, "stream": stream, "diffusion": {"request_id": "call-7"}}
    thread = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{slowed.url}/v1/chat/completions", json=body, timeout=20))
    )
    thread.start()
    slowed.wait_for(lambda: slowed.metric("requests_running") == 1)
    told = httpx.post(f"{slowed.url}/v1/requests/call-7/cancel")
    assert told.json() == {"id": "call-7", "cancelled": True}
    thread.join(20)
    # What was said until then arrives, and the end is told apart from a limit.
    assert answers[0].status_code == 200
    assert '"end_cause":"cancelled"' in answers[0].text
    assert '"finish_reason":"length"' not in answers[0].text
    assert slowed.metric('requests_total{cause="cancelled"}') == before + 1
    assert httpx.post(f"{slowed.url}/v1/requests/call-7/cancel").status_code == 404


def test_the_next_request_is_not_affected(slowed: Served) -> None:
    body = {**LONG, "max_tokens": 12}
    expected = httpx.post(f"{slowed.url}/v1/chat/completions", json=body, timeout=20).json()["choices"]
    with httpx.stream("POST", f"{slowed.url}/v1/chat/completions", json={**LONG, "stream": True}) as answer:
        next(answer.iter_lines())
    assert httpx.post(f"{slowed.url}/v1/chat/completions", json=body, timeout=20).json()["choices"] == expected
