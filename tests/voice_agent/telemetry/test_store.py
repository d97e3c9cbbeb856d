"""Records survive the process; the store answers what the API asks."""

from __future__ import annotations

from pathlib import Path

from voice_agent.telemetry.metrics import Metrics
from voice_agent.telemetry.record import LlmRequest, TurnRecord
from voice_agent.telemetry.store import RecordStore


def record(turn: int) -> TurnRecord:
    made = TurnRecord(turn, caller="a table for four", agent="Sure. For when?", heard="Sure. For when?")
    made.events.caller_audio_end = 1000.04
    made.events.first_packet = 1512.56
    made.events.llm.append(LlmRequest(1300.0, first_token=1400.0, engine={"phases_ms": {"queue": 0.1234}}))
    return made


async def test_a_call_is_read_back_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data" / "calls.sqlite"
    store = RecordStore(path)
    await store.start_call("c1", "2026-12-01T18:00:00+00:00", {"model": "m"})
    await store.put_turn("c1", record(1).to_json())
    changed = record(1)
    changed.gap_ms = 640.0
    await store.put_turn("c1", changed.to_json())
    await store.put_turn("c1", record(2).to_json())
    await store.end_call("c1", "2026-12-01T18:01:00+00:00", "caller hung up", {"model": "m", "underruns": 0})
    await store.aclose()

    store = RecordStore(path)
    call = await store.call("c1")
    assert call is not None
    assert [turn["gap_ms"] for turn in call["turns"]] == [640.0, None]
    assert call["reason"] == "caller hung up"
    assert call["model"] == "m"
    (listed,) = await store.calls()
    assert listed["turn_count"] == 2
    assert await store.call("unknown") is None
    await store.aclose()


def test_the_record_has_the_contract_s_shape() -> None:
    data = record(3).to_json()
    assert data["internal_gap_ms"] == 512.5
    assert set(data) >= {"turn", "caller", "agent", "heard", "events", "gap_ms", "speculation", "interrupted"}
    assert data["events"]["caller_audio_end"] == 1000.0
    assert data["events"]["llm"][0]["engine"] == {"phases_ms": {"queue": 0.1234}}


def test_metrics_count_turns_by_their_speculation() -> None:
    metrics = Metrics()
    hit = record(1)
    hit.speculation = "hit"
    metrics.turn_ended(hit)
    metrics.client_measured(640.0)
    text = metrics.exposition().decode()
    assert 'voice_agent_turns_total{speculation="hit"} 1.0' in text
    assert 'voice_agent_turn_gap_seconds_bucket{le="0.7"} 1.0' in text
    assert 'voice_agent_internal_turn_gap_seconds_bucket{le="0.5"} 0.0' in text
    assert 'voice_agent_internal_turn_gap_seconds_bucket{le="0.6"} 1.0' in text
