"""Keys, rates, and whose request is whose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.server.access import Access
from diffusion_engine.server.errors import ApiError
from tests.diffusion_engine.server.conftest import Served, serving

USER: list[Any] = [{"role": "user", "content": "hello"}]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def shared(checkpoint: Callable[[str], Path], clock: Clock) -> Iterator[Served]:
    """A server for two clients, each with three requests a minute."""
    access = Access(["first", "second"], requests_per_minute=3, clock=clock)
    with serving(checkpoint("llama_draft"), access=access) as running:
        yield running


@pytest.fixture(autouse=True)
def _a_minute_later(clock: Clock) -> None:
    clock.now += 60


def test_a_key_that_asks_too_often_is_told_when_to_come_back(shared: Served, clock: Clock) -> None:
    ask: dict[str, Any] = {"model": "tiny", "messages": USER, "max_tokens": 1}
    left = []
    for _ in range(3):
        raw = shared.client("first").chat.completions.with_raw_response.create(**ask)
        left.append(raw.headers["x-ratelimit-remaining-requests"])
    assert left == ["2", "1", "0"]
    with pytest.raises(openai.RateLimitError, match="3 requests a minute") as refused:
        shared.client("first").chat.completions.create(**ask)
    assert refused.value.code == "rate_limit_exceeded"
    assert refused.value.response.headers["retry-after"] == "20"
    # Neither the other key nor what costs no computation is refused.
    assert shared.client("second").chat.completions.create(**ask).choices
    assert shared.client("first").models.list().data
    assert shared.metric('refused_total{code="rate_limit_exceeded",status="429"}') == 1
    clock.now += 20
    assert shared.client("first").chat.completions.create(**ask).choices


def _refusal(access: Access) -> ApiError | None:
    try:
        access.admit("")
    except ApiError as refused:
        return refused
    return None


@given(st.lists(st.floats(0, 30), min_size=1, max_size=60), st.integers(1, 20))
def test_never_more_than_the_limit_and_what_refilled(pauses: list[float], limit: int) -> None:
    clock = Clock()
    access = Access(requests_per_minute=limit, clock=clock)
    started = clock.now
    for admitted, pause in enumerate(pauses, start=1):
        clock.now += pause
        refusal = _refusal(access)
        if refusal is not None:
            assert refusal.status == 429
            assert refusal.retry_after_s is not None
            clock.now += refusal.retry_after_s
            assert _refusal(access) is None, "what it says is enough"
        assert admitted <= limit + (clock.now - started) * limit / 60 + 1e-6


def test_a_client_can_neither_cancel_nor_block_another_ones_request(shared: Served) -> None:
    body: dict[str, Any] = {"messages": USER, "max_tokens": 450, "diffusion": {"request_id": "mine"}}
    headers = [{"Authorization": f"Bearer {key}"} for key in ("first", "second")]
    with httpx.stream(
        "POST", f"{shared.url}/v1/chat/completions", json={**body, "stream": True}, headers=headers[0], timeout=20
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        told = httpx.post(f"{shared.url}/v1/requests/mine/cancel", headers=headers[1])
        assert told.status_code == 404
        other = httpx.post(
            f"{shared.url}/v1/chat/completions", json={**body, "max_tokens": 1}, headers=headers[1], timeout=20
        )
        assert other.status_code == 200
        assert other.json()["diffusion"]["request_id"] == "mine"
        threading.Thread(target=lambda: httpx.post(f"{shared.url}/v1/requests/mine/cancel", headers=headers[0])).start()
        assert any('"finish_reason":' in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "field"), [({"keys": ["a", " "]}, "keys"), ({"requests_per_minute": 0}, "requests")]
)
def test_a_setting_that_cannot_be_meant_names_itself(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Access(**arguments)
