"""The booking book: SQLite, one row a booking, one table of the restaurant for each."""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from voice_agent.agents.front_desk.facts import Restaurant

_SCHEMA = """
CREATE TABLE IF NOT EXISTS bookings (
    number  TEXT PRIMARY KEY,          -- four digits, told to the caller
    name    TEXT NOT NULL,             -- lower case, as it was heard
    date    TEXT NOT NULL,             -- ISO
    minute  INTEGER NOT NULL,          -- since midnight, the restaurant's time
    party   INTEGER NOT NULL CHECK (party > 0),
    seat    INTEGER NOT NULL,          -- which table
    status  TEXT NOT NULL CHECK (status IN ('booked', 'cancelled'))
);
CREATE INDEX IF NOT EXISTS bookings_by_date ON bookings (date, status);
CREATE TABLE IF NOT EXISTS hand_overs (at TEXT NOT NULL, reason TEXT NOT NULL, known TEXT NOT NULL);
"""


class TableGoneError(Exception):
    """The table was free when it was offered and was taken before the booking was confirmed."""


@dataclass(frozen=True)
class Booking:
    """One row: `minute` counts from midnight in the restaurant's time zone."""

    number: str
    name: str
    date: dt.date
    minute: int
    party: int
    status: str = "booked"


def same_name(booked: str, given: str) -> bool:
    """Whether two names as recognised can be the same guest's.

    One may leave out the first name, and a recogniser spells "smyth" as "smith"; the number is what must match exactly.
    """
    a, b = booked.lower().split(), given.lower().split()
    if not a or not b:
        return False
    short, long = sorted((a, b), key=len)
    return all(any(SequenceMatcher(None, s, word).ratio() >= 0.75 for word in long) for s in short)


class BookingStore:
    """Bookings and free tables of one restaurant.

    Safe for concurrent calls: within a process one lock, between processes SQLite's own write lock; a booking looks
    for its table inside the transaction that writes it. Operations take about a millisecond.
    """

    def __init__(self, path: Path | str, restaurant: Restaurant, rng: random.Random | None = None) -> None:
        """Open (and create) the database at `path`; ":memory:" keeps it in memory. `rng` draws booking numbers."""
        self._rules = restaurant.bookings
        self._rng = rng or random.SystemRandom()
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(_SCHEMA)
        # Tables as seats, the smallest first: the first free one that is large enough is the one to take.
        self._seats = [seats for seats, count in sorted(self._rules.tables.items()) for _ in range(count)]

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def free_table(self, date: dt.date, minute: int, party: int, *, but_for: str = "") -> int | None:
        """The index of the smallest table free for the dining time, or None. `but_for`: a booking not to count."""
        with self._lock:
            rows = self._db.execute(
                "SELECT seat FROM bookings"
                " WHERE date = ? AND status = 'booked' AND number != ? AND abs(minute - ?) < ?",
                (date.isoformat(), but_for, minute, self._rules.dining_minutes),
            )
            taken = {seat for (seat,) in rows}
        return next((i for i, seats in enumerate(self._seats) if seats >= party and i not in taken), None)

    def book(self, name: str, date: dt.date, minute: int, party: int, *, number: str = "") -> Booking:
        """Write a booking under a new number, or under `number` when the staff enter one that was given before.

        Raises:
            TableGoneError: no table is free any more.
        """
        with self._writing():
            seat = self.free_table(date, minute, party)
            if seat is None:
                raise TableGoneError
            booking = Booking(number or self._new_number(), name.lower(), date, minute, party)
            self._db.execute(
                "INSERT INTO bookings VALUES (?, ?, ?, ?, ?, ?, 'booked')",
                (booking.number, booking.name, date.isoformat(), minute, party, seat),
            )
        return booking

    def change(self, number: str, date: dt.date, minute: int, party: int) -> Booking:
        """Give a booking another date, time or size.

        Raises:
            KeyError: no such booking.
            TableGoneError: no table is free any more.
        """
        with self._writing():
            if self.find(number) is None:
                raise KeyError(number)
            seat = self.free_table(date, minute, party, but_for=number)
            if seat is None:
                raise TableGoneError
            self._db.execute(
                "UPDATE bookings SET date = ?, minute = ?, party = ?, seat = ? WHERE number = ?",
                (date.isoformat(), minute, party, seat, number),
            )
            booking = self.find(number)
        assert booking is not None
        return booking

    def cancel(self, number: str) -> Booking:
        """Cancel a booking; its table is free again.

        Raises:
            KeyError: no such booking.
        """
        with self._writing():
            booking = self.find(number)
            if booking is None:
                raise KeyError(number)
            self._db.execute("UPDATE bookings SET status = 'cancelled' WHERE number = ?", (number,))
        return booking

    def find(self, number: str) -> Booking | None:
        """The booking that is on the books under `number`."""
        return next((b for b in self._select("number = ? AND status = 'booked'", number)), None)

    def all(self) -> list[Booking]:
        """Every booking, cancelled ones too, by date and time."""
        return self._select("1 = 1")

    def record_hand_over(self, at: dt.datetime, reason: str, known: str) -> None:
        """Note for the staff that a caller was passed on, why, and what the caller had said (`known`)."""
        with self._writing():
            self._db.execute("INSERT INTO hand_overs VALUES (?, ?, ?)", (at.isoformat(), reason, known))

    def hand_overs(self) -> list[tuple[str, str, str]]:
        """Every hand-over as (when, reason, known)."""
        with self._lock:
            return list(self._db.execute("SELECT at, reason, known FROM hand_overs ORDER BY at"))

    def _select(self, where: str, *parameters: object) -> list[Booking]:
        with self._lock:
            rows = self._db.execute(
                f"SELECT number, name, date, minute, party, status FROM bookings WHERE {where} ORDER BY date, minute",
                parameters,
            ).fetchall()
        return [Booking(n, name, dt.date.fromisoformat(d), m, p, s) for n, name, d, m, p, s in rows]

    def _new_number(self) -> str:
        used = {n for (n,) in self._db.execute("SELECT number FROM bookings")}
        if len(used) >= 9000:
            raise RuntimeError("all four-digit booking numbers are used; archive old bookings")
        while (number := str(self._rng.randint(1000, 9999))) in used:
            pass
        return number
