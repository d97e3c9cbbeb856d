"""The turn record: one timeline a turn, all times in ms on the call's clock. docs/architecture.md is its contract."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Speculation = Literal["hit", "miss", "none"]


@dataclass
class LlmRequest:
    """One request to the language model, as the client saw it, with the engine's own phases beside it.

    Attributes:
        request: When it was sent (ms).
        first_token: When its first text or tool call came (ms).
        done: When it ended (ms).
        engine: What the engine reported: ``phases_ms``, ``forwards``, ``accepted_per_verification``,
            ``cached_tokens``. Empty for other endpoints.
        tool_calls: Names of the tools it called.
        speculative: It was sent before the turn was committed.
        error: Why it failed.
    """

    request: float
    first_token: float | None = None
    done: float | None = None
    engine: dict[str, Any] = field(default_factory=dict)
    tool_calls: list[str] = field(default_factory=list)
    speculative: bool = False
    error: str | None = None


@dataclass
class TurnEvents:
    """What happened in a turn, and when (ms)."""

    caller_audio_end: float | None = None
    vad_trigger_end: float | None = None
    vad_end: float | None = None
    partials: list[dict[str, Any]] = field(default_factory=list)
    preflight: float | None = None
    final: float | None = None
    decision: float | None = None
    llm: list[LlmRequest] = field(default_factory=list)
    tts_first_chunk: float | None = None
    first_packet: float | None = None
    client_audible: float | None = None
    reply_ended: float | None = None


@dataclass
class TurnRecord:
    """One turn: what the caller said, what the agent answered, and the timeline between.

    Attributes:
        turn: Number of the turn in the call; 0 is the greeting.
        caller: The caller's words as committed.
        agent: The reply as written.
        heard: What the caller had heard of it when it ended.
        gap_ms: Last audible caller sample to first audible agent sample, as the client measured it.
        speculation: Whether a reply prepared before the commit was used (``hit``), thrown away (``miss``), or none was.
        interrupted: The caller cut the reply off.
        again: The turn before, whose answer was put off while a process was being restarted: the caller has said
            nothing since, so there is no gap to measure.
        error: What went wrong in it.
    """

    turn: int
    caller: str = ""
    agent: str = ""
    heard: str = ""
    events: TurnEvents = field(default_factory=TurnEvents)
    gap_ms: float | None = None
    speculation: Speculation = "none"
    interrupted: bool = False
    again: bool = False
    error: str | None = None

    @property
    def internal_gap_ms(self) -> float | None:
        """First packet of the reply minus the end of the caller's audio (ms)."""
        if self.events.first_packet is None or self.events.caller_audio_end is None:
            return None
        return round(self.events.first_packet - self.events.caller_audio_end, 1)

    def to_json(self) -> dict[str, Any]:
        """The record as plain data, times rounded to 0.1 ms."""
        data = _rounded(asdict(self))
        assert isinstance(data, dict)
        data["internal_gap_ms"] = self.internal_gap_ms
        return data


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, dict):
        # The engine's own figures keep their digits.
        return {key: item if key == "engine" else _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
