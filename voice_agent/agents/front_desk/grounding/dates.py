"""Dates in a list of words. What names a month is read by dateparser; what is said relative to today, by rules here."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

import dateparser

from voice_agent.agents.front_desk.facts import WEEKDAYS
from voice_agent.agents.front_desk.grounding import numbers

_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_name) if name}
_WEEKDAYS = {day: i for i, day in enumerate(WEEKDAYS)}
_FEASTS = {
    ("christmas", "eve"): (12, 24),
    ("christmas", "day"): (12, 25),
    ("boxing", "day"): (12, 26),
    ("new", "year's", "eve"): (12, 31),
    ("new", "years", "eve"): (12, 31),
    ("new", "year's", "day"): (1, 1),
    ("new", "years", "day"): (1, 1),
    ("valentine's", "day"): (2, 14),
    ("valentines", "day"): (2, 14),
}
_UNITS = {"day": 1, "days": 1, "week": 7, "weeks": 7, "fortnight": 14}


@lru_cache(maxsize=4096)
def _absolute(day: int, month: int, today: dt.date) -> dt.date | None:
    """The next `day` of `month` that isn't before today; None when there is no such day."""
    if (day, month) == (29, 2):  # dateparser skips the leap year that comes next
        years = (year for year in range(today.year, today.year + 9) if calendar.isleap(year))
        return next(d for d in (dt.date(year, 2, 29) for year in years) if d >= today)
    parsed = dateparser.parse(
        f"{day} {calendar.month_name[month]}",
        languages=["en"],
        settings={
            "RELATIVE_BASE": dt.datetime.combine(today, dt.time()),
            "PREFER_DATES_FROM": "future",
            "REQUIRE_PARTS": ["day", "month"],
        },
    )
    if parsed is None:
        return None
    date = parsed.date()
    # A day shortly before today is meant as the past it is, not as next year's.
    if (date - today).days > 335:
        date = date.replace(year=date.year - 1)
    return date


def _day_of_month(day: int, today: dt.date) -> dt.date | None:
    """The next such day of a month, today included."""
    year, month = today.year, today.month
    for _ in range(12):
        if day <= calendar.monthrange(year, month)[1] and dt.date(year, month, day) >= today:
            return dt.date(year, month, day)
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    return None


def _weekday(name: str, today: dt.date, week: int = 0) -> dt.date:
    """The coming day of that name (today counts); with `week`, that day of the week so many calendar weeks on."""
    if week == 0:
        return today + dt.timedelta(days=(_WEEKDAYS[name] - today.weekday()) % 7)
    monday = today - dt.timedelta(days=today.weekday())
    return monday + dt.timedelta(days=_WEEKDAYS[name] + 7 * week)


def _with_month(words: Sequence[str], at: int, today: dt.date) -> tuple[dt.date, int] | None:
    """ "the fourth of december", "december the fourth", "fourth december", "december four"."""
    i = at + (at < len(words) and words[at] == "the")
    day = numbers.ordinal(words, i) or (numbers.cardinal(words, i) if i == at else None)
    if day:
        j = i + day[1]
        j += j < len(words) and words[j] == "of"
        bare = words[j : j + 1] in (["may"], ["march"]) and not numbers.ordinal(words, i)  # "for two may i"
        # "a party of eight july ten": the eight isn't the day when another day follows the month.
        k = j + 1 + (words[j + 1 : j + 2] == ["the"])
        another = numbers.ordinal(words, k) or numbers.cardinal(words, k)
        bare = bare or (not numbers.ordinal(words, i) and bool(another))
        if j < len(words) and words[j] in _MONTHS and not bare:
            date = _absolute(day[0], _MONTHS[words[j]], today)
            return (date, j + 1 - at) if date else None
    if at < len(words) and words[at] in _MONTHS:
        j = at + 1
        j += j < len(words) and words[j] == "the"
        day = numbers.ordinal(words, j) or numbers.cardinal(words, j)
        if day and 1 <= day[0] <= 31:
            date = _absolute(day[0], _MONTHS[words[at]], today)
            return (date, j + day[1] - at) if date else None
    return None


def _relative(words: Sequence[str], at: int, today: dt.date) -> tuple[dt.date, int] | None:
    """ "the day after tomorrow", "in three days", "in a week", "a week today", "two weeks from friday"."""
    rest = tuple(words[at : at + 5])
    for phrase in (("the", "day", "after", "tomorrow"), ("day", "after", "tomorrow"), ("the", "day", "after")):
        if rest[: len(phrase)] == phrase:
            return (today + dt.timedelta(days=2), len(phrase)) if len(phrase) != 3 or phrase[0] == "day" else None
    if rest[:2] == ("yesterday", "evening") or rest[:1] == ("yesterday",):
        return today - dt.timedelta(days=1), 1
    i = at + (rest[:1] == ("in",))
    count = numbers.cardinal(words, i) or ((1, 1) if i < len(words) and words[i] in ("a", "one") else None)
    if count is None or i + count[1] >= len(words) or words[i + count[1]] not in _UNITS:
        return None
    ahead = dt.timedelta(days=count[0] * _UNITS[words[i + count[1]]])
    j = i + count[1] + 1
    if i > at:
        if j < len(words) and words[j] == "time":
            j += 1
        return today + ahead, j - at
    if j < len(words) and words[j] in ("from", "on"):
        j += 1
    if j < len(words) and words[j] in ("today", "now"):
        return today + ahead, j + 1 - at
    if j < len(words) and words[j] == "tomorrow":
        return today + ahead + dt.timedelta(days=1), j + 1 - at
    if j < len(words) and words[j] in _WEEKDAYS and j > i + count[1] + 1:
        return _weekday(words[j], today) + ahead, j + 1 - at
    return None


def date(words: Sequence[str], at: int, today: dt.date, *, expected: bool) -> tuple[dt.date, int] | None:
    """A date that begins at `at`, as (date, words taken), or None.

    A bare weekday is the coming one and may be today; "next friday" is Friday of the next calendar week. A bare
    ordinal needs "the" before it unless a date is `expected`.
    """
    word = words[at]
    found = _with_month(words, at, today) or _relative(words, at, today)
    if found:
        return found
    for phrase, (month, day) in _FEASTS.items():
        if tuple(words[at : at + len(phrase)]) == phrase:
            feast = _absolute(day, month, today)
            return (feast, len(phrase)) if feast else None
    if word in ("today", "tonight"):
        return today, 1
    if word in ("tomorrow", "tomorrow's"):
        return today + dt.timedelta(days=1), 1
    if word in ("this", "next", "coming", "following") and at + 1 < len(words):
        if words[at + 1] in ("evening", "afternoon") and word == "this":
            return today, 2
        if words[at + 1] in _WEEKDAYS:
            return _weekday(words[at + 1], today, week=1 if word == "next" else 0), 2
        if words[at + 1] == "coming" and at + 2 < len(words) and words[at + 2] in _WEEKDAYS:
            return _weekday(words[at + 2], today), 3
    if word in _WEEKDAYS:
        return _from_weekday(words, at, today)
    if word == "the" or expected:
        i = at + (word == "the")
        day_only = numbers.ordinal(words, i)
        taken = i + day_only[1] if day_only else i
        if day_only and not (taken < len(words) and words[taken] in ("one", "option", "time", "table", "thing")):
            if i == at and at and words[at - 1] in ("a", "one", "just"):  # "just a second"
                return None
            if tuple(words[taken : taken + 2]) == ("of", "all"):
                return None
            day_found = _day_of_month(day_only[0], today)
            return (day_found, taken - at) if day_found else None
    return None


def _from_weekday(words: Sequence[str], at: int, today: dt.date) -> tuple[dt.date, int]:
    """ "friday", "friday the fourth", "friday december fourth", "friday next week"."""
    j = at + 1
    j += j < len(words) and words[j] == "on"
    month = _with_month(words, j, today)
    if month:
        return month[0], j + month[1] - at
    if tuple(words[at + 1 : at + 3]) == ("next", "week"):
        return _weekday(words[at], today, week=1), 3
    if tuple(words[at + 1 : at + 3]) == ("this", "week"):
        return _weekday(words[at], today), 3
    if tuple(words[at + 1 : at + 2]) == ("week",):
        return _weekday(words[at], today) + dt.timedelta(days=7), 2
    i = at + 1 + (at + 1 < len(words) and words[at + 1] == "the")
    day = numbers.ordinal(words, i)
    if day and not (i + day[1] < len(words) and words[i + day[1]] in ("one", "option", "time")):
        found = _day_of_month(day[0], today)
        if found:
            return found, i + day[1] - at
    return _weekday(words[at], today), 1
