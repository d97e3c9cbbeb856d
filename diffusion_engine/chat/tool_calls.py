"""Tool calls in a reply, recognised while it grows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from diffusion_engine.chat.grammar import TOOL_CALL_CLOSE, TOOL_CALL_OPEN

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"arguments"\s*:\s*(?=\{)')


@dataclass(frozen=True)
class ContentDelta:
    """More text for the user."""

    text: str


@dataclass(frozen=True)
class CallStarted:
    """A call of a tool begins.

    Attributes:
        index: of the call in the reply, from 0.
        name: of the tool.
    """

    index: int
    name: str


@dataclass(frozen=True)
class ArgumentsDelta:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


Delta = ContentDelta | CallStarted | ArgumentsDelta


class ToolCallParser:
    """Splits a reply into text and calls of the Hermes form.

    Text that may be the beginning of a marker is held back, so a content delta never holds half a marker.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._inside = False
        self._calls = 0
        self._arguments: _JsonEnd | None = None

    def feed(self, text: str) -> list[Delta]:
        """Take more of the reply."""
        self._buffer += text
        deltas: list[Delta] = []
        while self._advance(deltas):
            pass
        return deltas

    def finish(self) -> list[Delta]:
        """The reply has ended: what was held back is text, unless it is inside a call that was cut off."""
        rest, self._buffer = self._buffer, ""
        return [ContentDelta(rest)] if rest and not self._inside else []

    def _advance(self, deltas: list[Delta]) -> bool:
        """Consume some of the buffer; False when more text is needed."""
        if not self._inside:
            return self._text(deltas)
        if self._arguments is not None:
            return self._argument_text(self._arguments, deltas)
        if (head := _HEAD.match(self._buffer)) is not None:
            self._buffer = self._buffer[head.end() :]
            self._arguments = _JsonEnd()
            deltas.append(CallStarted(self._calls, json.loads(f'"{head.group(1)}"')))
            return True
        if (close := self._buffer.find(TOOL_CALL_CLOSE)) >= 0:
            self._buffer = self._buffer[close + len(TOOL_CALL_CLOSE) :]
            self._inside = False
            return True
        return False

    def _text(self, deltas: list[Delta]) -> bool:
        marker = self._buffer.find(TOOL_CALL_OPEN)
        if marker >= 0:
            self._say(self._buffer[:marker], deltas)
            self._buffer = self._buffer[marker + len(TOOL_CALL_OPEN) :]
            self._inside = True
            return True
        keep = next((n for n in range(len(TOOL_CALL_OPEN) - 1, 0, -1) if self._buffer.endswith(TOOL_CALL_OPEN[:n])), 0)
        cut = len(self._buffer) - keep
        self._say(self._buffer[:cut], deltas)
        self._buffer = self._buffer[cut:]
        return False

    def _say(self, text: str, deltas: list[Delta]) -> None:
        # Line breaks between calls are part of the form, not of the text.
        if text and not (self._calls and not text.strip()):
            deltas.append(ContentDelta(text))

    def _argument_text(self, end: _JsonEnd, deltas: list[Delta]) -> bool:
        length = end.scan(self._buffer)
        text = self._buffer if length is None else self._buffer[:length]
        if text:
            deltas.append(ArgumentsDelta(self._calls, text))
        self._buffer = self._buffer[len(text) :]
        if length is None:
            return False
        self._arguments = None
        self._calls += 1
        # What follows is the call's closing brace and marker; `_advance` skips to the marker.
        return True


class _JsonEnd:
    """Finds where a JSON object ends, across chunks."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def scan(self, text: str) -> int | None:
        """Length of `text` up to and with the closing brace, or None when the object goes on."""
        for at, char in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = char == "\\"
                self._in_string = char != '"'
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        return None
