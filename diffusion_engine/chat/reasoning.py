"""Reasoning in a reply, `<think>...</think>` before the answer, told apart while it grows."""

from __future__ import annotations

from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class ReasoningDelta:
    """More of the reasoning."""

    text: str


class ReasoningSplitter:
    """Splits a reply into reasoning and what follows it; a reply that doesn't begin with a marker has none."""

    def __init__(self, prompt: str) -> None:
        """Start.

        Args:
            prompt: rendered; templates may open the reasoning themselves.
        """
        self._state = "inside" if prompt.rstrip().endswith(OPEN) else "before"
        self._buffer = ""
        self._begun = False

    def feed(self, text: str) -> tuple[str, str]:
        """Take more of the reply.

        Returns:
            (reasoning, answer) that are certain now: never a part of a marker.
        """
        self._buffer += text
        if self._state == "before":
            start = self._buffer.lstrip()
            if OPEN.startswith(start) and len(start) < len(OPEN):
                return "", ""
            self._state = "inside" if start.startswith(OPEN) else "after"
            if self._state == "inside":
                self._buffer = start[len(OPEN) :]
        reasoning = self._reasoning() if self._state == "inside" else ""
        answer = ""
        if self._state == "after":
            answer, self._buffer = self._buffer, ""
            if self._begun:
                answer = answer.lstrip("\n")
                self._begun = not answer
        return reasoning, answer

    def finish(self) -> tuple[str, str]:
        """The reply has ended: what was held back."""
        rest, self._buffer = self._buffer, ""
        return (rest, "") if self._state == "inside" else ("", rest)

    def _reasoning(self) -> str:
        close = self._buffer.find(CLOSE)
        if close >= 0:
            reasoning, self._buffer = self._buffer[:close], self._buffer[close + len(CLOSE) :]
            self._state, self._begun = "after", True
            return reasoning
        held = next((n for n in range(len(CLOSE) - 1, 0, -1) if self._buffer.endswith(CLOSE[:n])), 0)
        cut = len(self._buffer) - held
        reasoning, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return reasoning
