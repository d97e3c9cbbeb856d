import numpy as np
import pytest

from voice_agent.bench.gaps import Span, TurnGap
from voice_agent.bench.report import audio_figures, match_records, oddities, summarise, table, turns_of_call

RATE = 48000
PER_MS = 48


def channels(seconds: float, caller: list[tuple[int, int]], agent: list[tuple[int, int]]) -> np.ndarray:
    """A recording with loud stretches from and to the given milliseconds."""
    recording = np.zeros((int(seconds * RATE), 2), dtype=np.int16)
    for column, stretches in enumerate((caller, agent)):
        for start, end in stretches:
            recording[start * PER_MS : end * PER_MS, column] = 3000
    recording[1::2] *= -1
    return recording


def log(*turns: tuple[str, str | None, int, int], offset: float | None = 0.0) -> dict:
    return {
        "rate": RATE,
        "turns": [{"say": s, "agent": a, "start": b * PER_MS, "end": e * PER_MS} for s, a, b, e in turns],
        "server_offset_ms": offset,
        "error": None,
        "unfinished": [],
        "pacing_late_ms": {"p99": 1.0},
        "playout": {"underruns": []},
    }


def record(turn: int, caller_end: float, **figures) -> dict:
    events = {"caller_audio_end": caller_end, "decision": caller_end + 300, "first_packet": caller_end + 400, "llm": []}
    return {"turn": turn, "caller": "hi", "events": events, "internal_gap_ms": 400.0, "gap_ms": None, **figures}


def two_turn_call() -> tuple[dict, np.ndarray]:
    recording = channels(8, caller=[(1000, 2000), (4000, 4500), (5000, 5500)], agent=[(2500, 3200), (5900, 6500)])
    return log(("Hello.", "Hi!", 1000, 2000), ("One, two.", "Three.", 4000, 5500)), recording


def test_rows_have_the_gap_of_the_recording_and_the_figures_of_the_server():
    call, recording = two_turn_call()
    first, second = turns_of_call(1, call, recording, [record(2, 5510.0), record(1, 1990.0)])
    assert (first["caller"], first["agent"]) == ("Hello.", "Hi!")
    assert first["gap_ms"] == pytest.approx(500, abs=0.1)
    assert second["gap_ms"] == pytest.approx(400, abs=0.1)
    assert (first["pauses"], second["pauses"]) == (0, 1)
    assert first["internal_gap_ms"] == 400
    assert first["internal"]["decision"] == 300
    assert first["internal"]["caller_end_error_ms"] == pytest.approx(-10, abs=0.1)
    assert second["internal"]["caller_end_error_ms"] == pytest.approx(10, abs=0.1)


def test_records_are_matched_on_the_servers_clock():
    turns = [TurnGap(caller=Span(0, 1000 * PER_MS)), TurnGap(caller=Span(2000 * PER_MS, 3000 * PER_MS))]
    records = [record(0, 400.0), record(1, 5990.0), record(2, 8010.0), {"turn": 3, "events": {}}]
    assert match_records(turns, records, RATE, server_offset_ms=5000.0) == [records[1], records[2]]


def test_a_reply_that_the_server_broke_off_is_told():
    call, recording = two_turn_call()
    broken = record(1, 1500.0, interrupted=True)
    rows = turns_of_call(1, call, recording, [broken, record(2, 1990.0), record(3, 5490.0)])
    assert [row["restarts"] for row in rows] == [1, 0]
    assert rows[0]["internal"]["caller_end_error_ms"] == pytest.approx(-10, abs=0.1)
    notes = oddities(rows, audio_figures([recording], RATE), [call])
    assert notes == ["turn 1: the agent broke off a reply and began anew; the gap is the first one's"]


def test_a_turn_without_a_record_still_has_its_gap():
    call, recording = two_turn_call()
    rows = turns_of_call(1, call, recording, [])
    assert [row["internal_gap_ms"] for row in rows] == [None, None]
    assert [row["gap_ms"] for row in rows] == pytest.approx([500, 400], abs=0.1)


def test_takeovers_and_missed_turns_count_but_are_no_gaps():
    recording = channels(12, caller=[(1000, 2000), (2600, 3000), (5000, 5500)], agent=[(2300, 3500)])
    call = log(("One, two.", "Three.", 1000, 3000), ("Hello?", None, 5000, 5500))
    rows = turns_of_call(1, call, recording, [])
    summary = summarise(rows)
    assert (summary["n"], summary["takeovers"], summary["missed"], summary["gaps_measured"]) == (2, 1, 1, 0)
    assert (summary["pauses"], summary["pause_takeovers"]) == (1, 1)
    assert summary["gap_p50_ms"] is None
    printed = table(rows)
    assert "took" in printed
    assert "missed" in printed
    assert "700 ms before the caller's end" in printed


def row(call: int, gap: float | None, **internal) -> dict:
    counts = {"missed": gap is None, "takeover": False, "pauses": 0, "pause_takeovers": 0, "restarts": 0}
    return {"call": call, "gap_ms": gap, "internal_gap_ms": None, "internal": internal, **counts}


def test_percentiles_over_the_turns_that_have_a_gap():
    rows = [row(1, gap) for gap in (900.0, 500.0, None, 800.0, -100.0, 600.0)]
    summary = summarise(rows)
    assert (summary["n"], summary["gaps_measured"], summary["missed"]) == (6, 5, 1)
    assert summary["gap_p50_ms"] == 600
    assert summary["gap_p95_ms"] == 880


def test_kinds_of_turns_are_told_apart():
    rows = [
        row(1, 900.0, speculation="none", tool_calls=["opening_hours"]),
        row(1, 300.0, speculation="hit", tool_calls=[]),
        row(2, 700.0, speculation="miss", tool_calls=[]),
        row(2, 500.0, speculation="hit", tool_calls=["confirm"]),
    ]
    kinds = summarise(rows)["gaps_by_kind"]
    assert kinds["first_turn"] == {"n": 2, "p50_ms": 800}
    assert kinds["with_tools"] == {"n": 2, "p50_ms": 700}
    assert kinds["without_tools"] == {"n": 2, "p50_ms": 500}
    assert kinds["speculation_hit"] == {"n": 2, "p50_ms": 400}


def test_what_sounds_wrong_is_said():
    call, recording = two_turn_call()
    recording[2700 * PER_MS : 2740 * PER_MS, 1] = 0
    recording[3000 * PER_MS : 3001 * PER_MS, 1] = 32767
    rows = turns_of_call(1, call, recording, [record(1, 2100.0)])
    call["pacing_late_ms"] = {"p99": 35.0}
    notes = "\n".join(oddities(rows, audio_figures([recording], RATE), [call]))
    assert "1 holes in the reply, the longest 40 ms" in notes
    assert "the agent's channel has 48 clipped samples" in notes
    assert "the server puts the caller's end +100 ms" in notes
    assert "left late (p99 35 ms)" in notes


def test_a_clean_call_has_no_notes():
    call, recording = two_turn_call()
    rows = turns_of_call(1, call, recording, [])
    assert oddities(rows, audio_figures([recording], RATE), [call]) == []
