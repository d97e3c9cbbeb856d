"""What the front desk can do, decided by rules: each act answers with one speakable sentence.

Nothing here knows of models or messages. Acts that change the book are staged first: they answer with a sentence that
reads the details back, and only `confirm` writes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from voice_agent.agents.front_desk import speech
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.store import Booking, BookingStore, TableGoneError, same_name

Status = Literal["ok", "free", "refused", "staged", "not_found", "done", "hand_over", "end"]


@dataclass(frozen=True)
class Answer:
    """What an act came to: `say` is spoken as it is; `offered` are the times (minutes) or dates proposed instead."""

    say: str
    status: Status = "ok"
    times: tuple[int, ...] = ()
    dates: tuple[dt.date, ...] = ()
    number: str = ""


@dataclass(frozen=True)
class Staged:
    """A change that waits for the caller's yes. `booking.number` is empty for a new booking."""

    act: Literal["book", "change", "cancel"]
    booking: Booking


class Desk:
    """One caller's dealings with the restaurant; `staged` is what waits for a yes."""

    def __init__(self, restaurant: Restaurant, store: BookingStore, clock: Callable[[], dt.datetime]) -> None:
        """`clock` gives the time as an aware datetime; days and hours are the restaurant's."""
        self.restaurant = restaurant
        self.store = store
        self.clock = clock
        self.staged: Staged | None = None
        self._failed_searches = 0

    def now(self) -> dt.datetime:
        """The restaurant's wall clock."""
        return self.clock().astimezone(self.restaurant.zone)

    @property
    def today(self) -> dt.date:
        """The restaurant's date."""
        return self.now().date()

    # Questions

    def opening_hours(self, date: dt.date | None = None) -> Answer:
        """The hours of one day, or of the week."""
        if date is None:
            return Answer(speech.week(self.restaurant))
        when = speech.day(date, self.today)
        if not self.restaurant.services(date):
            return Answer(f"I'm sorry, we're closed {when}.")
        return Answer(f"We're open {when} {speech.hours(self.restaurant, date)}.")

    def restaurant_info(self, topic: str) -> Answer:
        """The sentence about one of the restaurant's topics."""
        if topic not in self.restaurant.topics:
            return Answer("I'm sorry, I don't know that. Shall I put you through to a colleague?")
        return Answer(self.restaurant.topics[topic])

    def check_availability(
        self, date: dt.date | None = None, minute: int | None = None, party: int | None = None
    ) -> Answer:
        """Whether a table is free, and what is free instead; with less than all three, what speaks against it."""
        refusal = self.problem(date, minute, party)
        if refusal:
            return refusal
        if date is None or minute is None or party is None:
            return Answer("I need the day, the time and the number of people for that.")
        if self.store.free_table(date, minute, party) is None:
            return self._full(date, minute, party)
        when = f"{speech.day(date, self.today)} at {speech.clock(minute)}"
        return Answer(f"Yes, we have a table for {speech.cardinal(party)} {when}.", "free")

    # Staged acts

    def book_table(self, name: str, date: dt.date, minute: int, party: int) -> Answer:
        """Stage a booking and read it back."""
        self.staged = None
        refusal = self.problem(date, minute, party)
        if refusal:
            return refusal
        if self.store.free_table(date, minute, party) is None:
            return self._full(date, minute, party)
        booking = Booking("", name, date, minute, party)
        self.staged = Staged("book", booking)
        return Answer(f"{self._details(booking)}. Is that right?", "staged")

    def change_booking(
        self, name: str, number: str, date: dt.date | None = None, minute: int | None = None, party: int | None = None
    ) -> Answer:
        """Stage a change of what is given and read back the whole booking as it would be."""
        self.staged = None
        booking = self._find(name, number)
        if booking is None:
            return self._not_found(name, number)
        changed = replace(
            booking,
            date=booking.date if date is None else date,
            minute=booking.minute if minute is None else minute,
            party=booking.party if party is None else party,
        )
        if changed == booking:
            return Answer(f"That's how it is already: {self._details(booking, 'a')}. What should I change?", "refused")
        refusal = self.problem(changed.date, changed.minute, changed.party)
        if refusal:
            return refusal
        if self.store.free_table(changed.date, changed.minute, changed.party, but_for=number) is None:
            return self._full(changed.date, changed.minute, changed.party, but_for=number)
        self.staged = Staged("change", changed)
        return Answer(f"So that's now {self._details(changed, 'a')}. Is that right?", "staged")

    def cancel_booking(self, name: str, number: str) -> Answer:
        """Stage a cancellation and read back what would be cancelled."""
        self.staged = None
        booking = self._find(name, number)
        if booking is None:
            return self._not_found(name, number)
        self.staged = Staged("cancel", booking)
        return Answer(f"That's {self._details(booking, 'a')}. Shall I cancel it?", "staged")

    def confirm(self) -> Answer:
        """Carry out what is staged. The only act that writes bookings."""
        staged, self.staged = self.staged, None
        if staged is None:
            return Answer("There's nothing to confirm yet. What can I do for you?", "refused")
        b = staged.booking
        try:
            if staged.act == "book":
                number = self.store.book(b.name, b.date, b.minute, b.party).number
                say = f"You're booked. Your number is {speech.digits(number)}. Anything else?"
                return Answer(say, "done", number=number)
            if staged.act == "change":
                self.store.change(b.number, b.date, b.minute, b.party)
                return Answer("That's changed. Your number stays the same. Anything else?", "done", number=b.number)
            self.store.cancel(b.number)
            return Answer("Your booking is cancelled. Anything else?", "done")
        except TableGoneError:
            return Answer("I'm sorry, that table has just gone. Would another time suit you?", "refused")
        except KeyError:
            return Answer("I'm sorry, that booking is no longer there. Anything else?", "refused")

    # The end of the call

    def hand_over(self, reason: str, known: str = "") -> Answer:
        """Pass the caller to a person: noted for the staff with the reason and what is `known`."""
        self.store.record_hand_over(self.now(), reason, known)
        return Answer(self.restaurant.hand_over, "hand_over")

    def end_call(self) -> Answer:
        """Say goodbye; the call ends when it has been spoken."""
        return Answer(self.restaurant.goodbye, "end")

    # Rules

    def _details(self, booking: Booking, article: str = "A") -> str:
        when = f"{speech.day(booking.date, self.today)} at {speech.clock(booking.minute)}"
        return f"{article} table for {speech.cardinal(booking.party)} {when}, under {booking.name.title()}"

    def _find(self, name: str, number: str) -> Booking | None:
        booking = self.store.find(number)
        return booking if booking and same_name(booking.name, name) else None

    def _not_found(self, name: str, number: str) -> Answer:
        # One answer for a wrong name and a wrong number: it must not tell a stranger which of them exists.
        self._failed_searches += 1
        missing = f"I can't find number {speech.digits(number)} under {name.title()}."
        if self._failed_searches > 1:
            return Answer(f"{missing} Shall I put you through to a colleague?", "not_found")
        return Answer(f"{missing} What's the number again?", "not_found")

    def problem(self, date: dt.date | None, minute: int | None, party: int | None) -> Answer | None:
        """Why a booking can't be had whatever tables are free, or None; what isn't known yet is None.

        The rules of the house only; fast and without a look into the database.
        """
        rules, now = self.restaurant.bookings, self.now()
        if party is not None and party < 1:
            return Answer("A table is for at least one person. How many people will there be?", "refused")
        if party is not None and party > rules.max_party:
            limit = speech.cardinal(rules.max_party)
            return Answer(f"For more than {limit} people I need a colleague. Shall I put you through?", "refused")
        if date is None:
            return None
        when = speech.day(date, now.date())
        if date < now.date():
            return Answer("I'm sorry, that day has passed. What day would you like?", "refused")
        if (date - now.date()).days > rules.days_ahead:
            limit = speech.cardinal(rules.days_ahead)
            return Answer(f"I'm sorry, we book up to {limit} days ahead. What other day would you like?", "refused")
        services = self.restaurant.services(date)
        if not services:
            return Answer(f"I'm sorry, we're closed {when}. What other day would you like?", "refused")
        if minute is None:
            return None
        if not self.restaurant.accepts(date, minute):
            windows = " and ".join(
                f"from {speech.clock(s.opens)} to {speech.clock(s.closes - rules.last_seating_minutes)}"
                for s in services
            )
            return Answer(f"I'm sorry, {when} we seat guests {windows}. What time would you like?", "refused")
        if date == now.date() and minute <= now.hour * 60 + now.minute:
            return Answer("I'm sorry, that time has passed. What other time would you like?", "refused")
        if minute % rules.slot_minutes:
            before = minute - minute % rules.slot_minutes
            offered = tuple(m for m in (before, before + rules.slot_minutes) if self.restaurant.accepts(date, m))
            spoken = speech.either([speech.clock(m) for m in offered])
            return Answer(f"We book every quarter of an hour. Would {spoken} suit you?", "refused", times=offered)
        return None

    def _full(self, date: dt.date, minute: int, party: int, *, but_for: str = "") -> Answer:
        """The nearest free times of the same day, before other days."""
        now, slot = self.now(), self.restaurant.bookings.slot_minutes
        earliest = now.hour * 60 + now.minute + 1 if date == now.date() else 0

        def free(on: dt.date, at: int) -> bool:
            return self.restaurant.accepts(on, at) and self.store.free_table(on, at, party, but_for=but_for) is not None

        half_hours = range(0, 24 * 60, max(slot, 30))
        near = sorted((m for m in half_hours if m >= earliest and free(date, m)), key=lambda m: (abs(m - minute), m))
        before = next((m for m in near if m < minute), None)
        after = next((m for m in near if m > minute), None)
        times = tuple(m for m in (before, after) if m is not None)
        if times:
            say = f"{speech.clock(minute)} is full. Would {speech.either([speech.clock(m) for m in times])} suit you?"
            return Answer(f"I'm sorry, {say}", "refused", times=times)
        last = now.date() + dt.timedelta(days=self.restaurant.bookings.days_ahead)
        days = (date + dt.timedelta(days=i) for i in range(1, 8))
        other = next((d for d in days if d <= last and free(d, minute)), None)
        when = speech.day(date, self.today)
        if other is None:
            return Answer(f"I'm sorry, we're full {when}. What other day would you like?", "refused")
        return Answer(
            f"I'm sorry, we're full {when}. Would {speech.day(other, self.today).removeprefix('on ')} suit you?",
            "refused",
            dates=(other,),
        )
