"""Names, dates, times, sizes and numbers for simulated callers; a part of each pool never appears in training."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import yaml

from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.simulation.grammar import Split

_NAMES: dict[str, list[str]] = {
    kind: text.split()
    for kind, text in yaml.safe_load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8")).items()
}


def _hidden(kind: str, value: str) -> bool:
    """Whether a value is kept from training: a quarter of them, by a hash of the value."""
    return hashlib.sha256(f"{kind}:{value}".encode()).digest()[0] < 64


def _invented(rng: random.Random) -> str:
    """A surname that nobody has listed, made of syllables."""
    stem = rng.choice(_NAMES["onsets"]) + rng.choice(_NAMES["vowels"][:5] if rng.random() < 0.8 else _NAMES["vowels"])
    if rng.random() < 0.5:
        stem += rng.choice(_NAMES["codas"]) + (rng.choice(_NAMES["vowels"][:5]) if rng.random() < 0.3 else "")
    return stem + rng.choice(_NAMES["endings"])


class Values:
    """Draws values; with the split `heldout_values`, only those that training never sees."""

    def __init__(self, split: Split, rng: random.Random) -> None:
        self._hidden = split == "heldout_values"
        self.rng = rng

    def _draw(self, kind: str, make: Callable[[], object]) -> str:
        while True:
            value = str(make())
            if _hidden(kind, value) == self._hidden:
                return value

    def last_name(self) -> str:
        """A surname, four in ten of them invented."""
        return self._draw(
            "last", lambda: _invented(self.rng) if self.rng.random() < 0.4 else self.rng.choice(_NAMES["last"])
        )

    def first_name(self) -> str:
        """A given name."""
        return self._draw("first", lambda: self.rng.choice(_NAMES["first"]))

    def name(self) -> str:
        """What a guest gives as a name: mostly a surname, often both, sometimes a given name only."""
        kind = self.rng.random()
        if kind < 0.5:
            return self.last_name()
        return f"{self.first_name()} {self.last_name()}" if kind < 0.87 else self.first_name()

    def number(self) -> str:
        """A booking number."""
        return self._draw("number", lambda: self.rng.randint(1000, 9999))

    def today(self) -> dt.date:
        """A day on which the call takes place: other years for held-out values."""
        first = dt.date(2029, 1, 1) if self._hidden else dt.date(2025, 1, 1)
        return first + dt.timedelta(days=self.rng.randrange(4 * 365 if not self._hidden else 2 * 365))

    def party(self, restaurant: Restaurant) -> int:
        """A size that can be seated, small ones more often."""
        return min(self.rng.choice((1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 8)), restaurant.bookings.max_party)

    def open_date(self, restaurant: Restaurant, today: dt.date) -> dt.date:
        """A day on which the restaurant is open: near ones more often, never today (it may be too late)."""
        while True:
            ahead = self.rng.choice((1, 1, 2, 3, 4, 5, 6, 7, self.rng.randint(1, 30), self.rng.randint(1, 85)))
            date = today + dt.timedelta(days=ahead)
            if restaurant.services(date):
                return date

    def minute(self, restaurant: Restaurant, date: dt.date) -> int:
        """A time at which guests are seated on an open day: hours and halves more often."""
        step = self.rng.choice((60, 60, 30, 30, 30, 15))
        return self.rng.choice([m for m in range(0, 24 * 60, step) if restaurant.accepts(date, m)])
