"""The floor: who may speak now. Pure: it is told what happened and when, and answers with decisions."""

from __future__ import annotations

from typing import Protocol

from voice_agent.turn_taking.events import Decision, Event


class Floor(Protocol):
    """A policy for taking turns. It does no I/O, reads no clock, and belongs to one call."""

    @property
    def turn_text(self) -> str:
        """The caller's words that were not committed yet, or whose turn was reopened."""
        ...

    def handle(self, event: Event) -> list[Decision]:
        """Take note of ``event`` and say what to do now, in order. Events come in the order of their ``at``."""
        ...
