"""Noticing that a reply does nothing but repeat itself."""

from __future__ import annotations

from collections import deque

LONGEST_PERIOD = 8
"""Tokens of the longest stretch whose repetition is noticed."""


class RepetitionWatch:
    """Counts, for every short period, how many of the last tokens in a row equal the one a period before."""

    def __init__(self, limit: int) -> None:
        """Start.

        Args:
            limit: such tokens in a row that are too many.
        """
        self._limit = limit
        self._last: deque[int] = deque(maxlen=LONGEST_PERIOD)
        self._runs = [0] * LONGEST_PERIOD

    def exceeded_by(self, token: int) -> bool:
        """Take one more token; whether the reply has only repeated itself for too long."""
        for back, earlier in enumerate(reversed(self._last)):
            self._runs[back] = self._runs[back] + 1 if token == earlier else 0
        self._last.append(token)
        return max(self._runs) >= self._limit
