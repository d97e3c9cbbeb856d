"""The caller says nothing: ask twice, then say goodbye."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class NoInput(Enum):
    """What to do about a silent caller."""

    PROMPT = "prompt"
    GOODBYE = "goodbye"


@dataclass(slots=True)
class NoInputTimer:
    """Counts the caller's silence while neither side speaks.

    Attributes:
        first_s: Silence until the first prompt (s).
        second_s: Silence until the second one, counted from the same moment (s).
        goodbye_s: Silence until the call ends (s).
    """

    first_s: float = 7.0
    second_s: float = 15.0
    goodbye_s: float = 25.0
    _silent_s: float = 0.0
    _last_at: float | None = None
    _prompts: int = 0

    @property
    def prompts(self) -> int:
        """Prompts given since the caller was last heard."""
        return self._prompts

    def reset(self) -> None:
        """The caller said something: start again."""
        self._silent_s = 0.0
        self._prompts = 0

    def tick(self, at: float, *, idle: bool) -> NoInput | None:
        """Count up to ``at`` (s); the time in which someone speaks or a reply is made (not ``idle``) doesn't count."""
        elapsed = 0.0 if self._last_at is None else at - self._last_at
        self._last_at = at
        if not idle:
            return None
        self._silent_s += elapsed
        due = (self.first_s, self.second_s, self.goodbye_s)
        if self._prompts >= len(due) or self._silent_s < due[self._prompts]:
            return None
        self._prompts += 1
        return NoInput.GOODBYE if self._prompts == len(due) else NoInput.PROMPT
