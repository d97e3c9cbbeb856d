"""What callers call about, and how full the house is when they do."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable

from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.simulation.caller import TABLE, Goal
from voice_agent.agents.front_desk.simulation.speaker import Details
from voice_agent.agents.front_desk.simulation.values import Values
from voice_agent.agents.front_desk.store import BookingStore, TableGoneError

_SIDE = [
    "how_are_you",
    "robot",
    "hear_me",
    "nice",
    "person",
    "person",
    "person",
    "complaint",
    "weather",
    "off_topic",
    "off_topic",
    "off_topic",
    "off_topic",
    "off_topic",
    "unknown",
    "unknown",
    "repeat",
    "unclear",
    "hold",
    "thanks",
]


def _booking_details(restaurant: Restaurant, values: Values, today: dt.date) -> Details:
    date = values.open_date(restaurant, today)
    return {"party": values.party(restaurant), "date": date, "time": values.minute(restaurant, date)}


def _book(restaurant: Restaurant, values: Values, today: dt.date, rng: random.Random) -> Goal:
    details = _booking_details(restaurant, values, today)
    details["name"] = values.name()
    fault = rng.random()
    if fault < 0.06:  # a closed day
        closed = [today + dt.timedelta(days=i) for i in range(1, 21)]
        closed = [d for d in closed if not restaurant.services(d)]
        if closed:
            details["date"] = rng.choice(closed)
    elif fault < 0.08:
        details["date"] = today - dt.timedelta(days=rng.randint(2, 20))
    elif fault < 0.11:
        details["party"] = rng.choice((restaurant.bookings.max_party + 1, 10, 12, 15, 20, 25, 30))
    elif fault < 0.12:
        details["party"] = 0
    elif fault < 0.16:
        details["time"] = rng.choice((15 * 60, 16 * 60, 22 * 60, 22 * 60 + 30, 23 * 60, 21 * 60 + 15))
    elif fault < 0.18:
        details["time"] = rng.choice((18, 19, 20)) * 60 + rng.choice((5, 10, 20, 25, 40, 50))
    elif fault < 0.19:
        details["date"] = today + dt.timedelta(days=rng.randint(restaurant.bookings.days_ahead + 5, 200))
    return Goal("book", details)


def _existing(restaurant: Restaurant, store: BookingStore, values: Values, today: dt.date) -> Details:
    """A booking on the books, with a number of this split."""
    details = _booking_details(restaurant, values, today)
    name, number = values.name(), values.number()
    date, time, party = details["date"], details["time"], details["party"]
    assert isinstance(date, dt.date)
    assert isinstance(time, int)
    assert isinstance(party, int)
    store.book(name, date, time, party, number=number)
    return {"name": name, "number": number}


def draw_goals(
    restaurant: Restaurant, store: BookingStore, values: Values, today: dt.date, rng: random.Random
) -> list[Goal]:
    """One call's goals; bookings to change or cancel are put into the store."""

    def topic() -> Goal:
        return Goal("topic", topic=rng.choice(list(restaurant.topics)))

    def hours() -> Goal:
        if rng.random() < 0.3:
            return Goal("hours")
        return Goal(
            "hours", {"date": today + dt.timedelta(days=rng.choice((0, 0, 1, 1, 2, 3, 4, 5, 6, rng.randint(7, 30))))}
        )

    def misremembered(goal: Goal) -> Goal:
        """Some callers first give a wrong number or name; some have only a wrong one."""
        chance = rng.random()
        if chance < 0.14:
            goal.corrected = {"number": goal.details["number"]}
            goal.details["number"] = values.number()
        elif chance < 0.18:
            goal.corrected = {"name": goal.details["name"]}
            goal.details["name"] = values.name()
        elif chance < 0.21:
            goal.details["number"] = values.number()
        return goal

    def side() -> Goal:
        return Goal("side", topic=rng.choice(_SIDE))

    def change() -> Goal:
        details = _existing(restaurant, store, values, today)
        new = _booking_details(restaurant, values, today)
        for slot in rng.sample(TABLE, k=rng.choice((1, 1, 1, 2))):
            details[slot] = new[slot]
        return Goal("change", details)

    def book() -> Goal:
        return _book(restaurant, values, today, rng)

    def then() -> Goal:
        return rng.choice((topic(), book(), Goal("side", topic="number_again"), Goal("side", topic="thanks")))

    calls: tuple[tuple[int, Callable[[], list[Goal]]], ...] = (
        (36, lambda: [book()]),
        (10, lambda: [misremembered(change())]),
        (9, lambda: [misremembered(Goal("cancel", _existing(restaurant, store, values, today)))]),
        (12, lambda: [topic() for _ in range(rng.choice((1, 2, 2, 3)))]),
        (5, lambda: [hours()]),
        (6, lambda: [rng.choice((topic, hours))(), book()]),
        (2, lambda: [book(), Goal("cancel_fresh")]),
        (3, lambda: [book(), then()]),
        (14, lambda: [side() for _ in range(rng.choice((1, 2, 2)))]),
        (3, lambda: [side(), book()]),
    )
    (draw,) = rng.choices([make for _, make in calls], weights=[weight for weight, _ in calls])
    return draw()


def occupy(restaurant: Restaurant, store: BookingStore, goals: list[Goal], rng: random.Random) -> None:
    """Fill the house around what the caller wants, in a quarter of the calls so that it is full."""
    for goal in goals:
        date, time = goal.details.get("date"), goal.details.get("time")
        if not isinstance(date, dt.date) or not isinstance(time, int) or not restaurant.accepts(date, time):
            continue
        if rng.random() > 0.25:
            continue
        whole_day = rng.random() < 0.15
        tables = sum(restaurant.bookings.tables.values())
        for minute in range(12 * 60, 23 * 60, restaurant.bookings.dining_minutes) if whole_day else (time,):
            for _ in range(tables):
                try:
                    store.book("guest", date, minute, 1)
                except TableGoneError:
                    break
