"""Whether the bookings that the callers made are in the restaurant's database."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BookedTable:
    """A booking: `time` as HH:MM in the restaurant's time zone, names compared without regard to case."""

    name: str
    date: dt.date
    time: str
    party: int

    def same_as(self, other: BookedTable) -> bool:
        """Tell whether both are the same booking."""
        return (self.name.casefold(), self.date, self.time, self.party) == (
            other.name.casefold(),
            other.date,
            other.time,
            other.party,
        )

    def __str__(self) -> str:
        return f"{self.name}, {self.party} people, {self.date:%A %d %B %Y} at {self.time}"


def read_bookings(database: Path) -> list[BookedTable]:
    """Read the bookings that weren't cancelled; raises sqlite3.Error for a file that isn't the restaurant's."""
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT name, date, minute, party FROM bookings WHERE status = 'booked'").fetchall()
    return [
        BookedTable(name, dt.date.fromisoformat(date), f"{minute // 60:02}:{minute % 60:02}", party)
        for name, date, minute, party in rows
    ]


def missing_bookings(expected: list[BookedTable], found: list[BookedTable]) -> list[BookedTable]:
    """Return the expected bookings that aren't there; one that is there counts once."""
    left, missing = list(found), []
    for booking in expected:
        match = next((other for other in left if booking.same_as(other)), None)
        if match is None:
            missing.append(booking)
        else:
            left.remove(match)
    return missing
