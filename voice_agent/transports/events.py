"""Messages of the data channel `events`, kept small enough for every path.

aiortc discovers no path MTU: a message of more than about 1,100 bytes can stall on a tunnel's smaller one, so what is
too long is cut here, the words last.
"""

from __future__ import annotations

import json
from typing import Any

MAX_BYTES = 1_100
_LONGEST_WORD = 24
_TURN_KEYS = ("turn", "caller", "agent", "heard", "gap_ms", "internal_gap_ms", "speculation", "interrupted", "again")
_TURN_EVENTS = (
    "caller_audio_end",
    "vad_trigger_end",
    "vad_end",
    "preflight",
    "final",
    "decision",
    "tts_first_chunk",
    "first_packet",
    "client_audible",
)

Message = dict[str, Any]


def encode(message: Message) -> str:
    """Return ``message`` as JSON of fewer than :data:`MAX_BYTES` bytes of UTF-8.

    A ``turn`` record loses its partial transcripts and the details of its LLM requests (``GET /api/calls/{id}`` has
    them); a text keeps its latest words. A message without a text to cut that is still too long is a programming
    error.

    Raises:
        ValueError: the message can't be made short enough.
    """
    text = _json(message)
    if len(text.encode()) < MAX_BYTES:
        return text
    if message.get("type") == "turn":
        message = {**message, "record": _brief_record(message["record"])}
    while len((text := _json(message)).encode()) >= MAX_BYTES:
        over = len(text.encode()) - MAX_BYTES + 1
        message = _shorten(message, over)
    return text


def _json(message: Message) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _brief_record(record: Message) -> Message:
    events = record.get("events", {})
    brief = {key: record[key] for key in _TURN_KEYS if key in record}
    brief["events"] = {key: events[key] for key in _TURN_EVENTS if key in events}
    brief["events"]["llm"] = [
        {key: request[key] for key in ("request", "first_token", "done") if key in request}
        for request in events.get("llm", [])[-3:]
    ]
    brief["brief"] = True
    return brief


def _shorten(message: Message, over: int) -> Message:
    """Cut the longest text of ``message`` (or of its record) by ``over`` bytes, keeping its end."""
    record = message.get("record")
    holder: Message = record if isinstance(record, dict) else message
    texts = {key: value for key, value in holder.items() if isinstance(value, str) and key != "type"}
    key = max(texts, key=lambda name: len(texts[name]), default="")
    if len(texts.get(key, "")) < 8:
        raise ValueError(f"a message of type {message.get('type')!r} is too long for the data channel")
    whole = texts[key].encode()
    # In JSON a character can be longer than its UTF-8, so a cut by the excess could take too much: no more than a
    # quarter at a time.
    cut = min(over + len("…".encode()), max(8, len(whole) // 4))
    kept = whole[cut:].decode(errors="ignore")
    half_word, _, rest = kept.partition(" ")
    kept = "…" + (rest if rest and len(half_word) < _LONGEST_WORD else kept)
    return {**message, "record": {**holder, key: kept}} if holder is record else {**message, key: kept}
