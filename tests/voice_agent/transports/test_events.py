"""Messages on the data channel stay below what every path carries."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.transports.events import MAX_BYTES, encode


def test_a_short_message_is_sent_as_it_is() -> None:
    message = {"type": "caption", "role": "caller", "turn": 1, "text": "a table für vier", "final": True}
    assert json.loads(encode(message)) == message


@given(st.text(min_size=400, max_size=3000))
def test_a_long_caption_keeps_its_latest_words(text: str) -> None:
    message = {"type": "caption", "role": "agent", "turn": 7, "text": text + " the very end", "final": False}
    encoded = encode(message)
    assert len(encoded.encode()) < MAX_BYTES
    decoded = json.loads(encoded)
    assert decoded["text"].endswith("the very end")
    assert {key: decoded[key] for key in ("type", "role", "turn", "final")} == {
        key: message[key] for key in ("type", "role", "turn", "final")
    }


def test_a_full_turn_record_keeps_its_figures() -> None:
    record = {
        "turn": 3,
        "caller": "a table for four",
        "agent": "Sure. " * 60,
        "heard": "Sure. " * 60,
        "gap_ms": 640.0,
        "internal_gap_ms": 512.5,
        "speculation": "hit",
        "interrupted": False,
        "events": {
            "caller_audio_end": 1000.0,
            "partials": [{"at": n * 100.0, "text": "a table " * n} for n in range(12)],
            "llm": [{"request": 1.0, "first_token": 2.0, "done": 3.0, "engine": {"phases_ms": {"queue": 1.0}}}] * 3,
            "first_packet": 1512.5,
        },
    }
    encoded = encode({"type": "turn", "record": record})
    sent = json.loads(encoded)["record"]
    assert len(encoded.encode()) < MAX_BYTES
    assert (sent["gap_ms"], sent["internal_gap_ms"], sent["turn"]) == (640.0, 512.5, 3)
    assert sent["events"]["first_packet"] == 1512.5
    assert len(record["events"]["partials"]) == 12, "the record itself is left alone"


def test_a_message_without_a_text_to_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        encode({"type": "info", "numbers": list(range(1000))})
