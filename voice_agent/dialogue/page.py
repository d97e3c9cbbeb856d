"""What the page is told of a call, and what it says; docs/architecture.md is the contract of the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from voice_agent.dialogue.utterance import Utterance
from voice_agent.transports.events import Message

_LONGEST_MS = 1e12


class Page:
    """Writes the messages.

    Args:
        send: Sends one to the page.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send

    def info(self, call_id: str, info: dict[str, str]) -> None:
        """The call begins."""
        self._send({"type": "info", "call_id": call_id, **info})

    def state(self, state: str) -> None:
        """What the agent does now."""
        self._send({"type": "state", "state": state})

    def caller_says(self, turn: int, text: str, *, final: bool = False) -> None:
        """The caller's words of a turn so far."""
        self._send({"type": "caption", "role": "caller", "turn": turn, "text": text, "final": final})

    def agent_says(self, utterance: Utterance, *, final: bool = False, heard: str | None = None) -> None:
        """The agent's words so far; ``heard``: those that were heard of a reply that was cut."""
        text = utterance.caption.strip()
        caption: Message = {"type": "caption", "role": "agent", "turn": utterance.turn, "text": text, "final": final}
        if heard is not None:
            caption["heard_text"] = heard
        self._send(caption)

    def record(self, record: dict[str, Any]) -> None:
        """A turn's record is complete, or has a new figure."""
        self._send({"type": "turn", "record": record})

    def pong(self, client_ms: float, server_ms: float) -> None:
        """The answer to a ping."""
        self._send({"type": "pong", "client_ms": client_ms, "server_ms": server_ms})

    def error(self, code: Literal["engine", "speech"], message: str) -> None:
        """Something of the server doesn't work at the moment."""
        self._send({"type": "error", "code": code, "message": message})

    def bye(self, reason: str) -> None:
        """The call is over."""
        self.state("ended")
        self._send({"type": "bye", "reason": reason})


def milliseconds(value: object) -> float | None:
    """A time of the page's; None for anything else, such as NaN or 10**400, which no record can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= _LONGEST_MS else None
