"""Times of day in a list of words; half of the day is resolved by the restaurant's hours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding import numbers
from voice_agent.agents.front_desk.grounding.words import word_set

_PEOPLE = word_set(
    """
    people persons person guests guest adults adult of pax diners covers seats kids children
    """
)
_ABOUT = word_set("around about circa maybe say approximately roughly like")
_MINUTE_WORDS = frozenset(range(10, 60))


def resolve(hour: int, minute: int, half: str, restaurant: Restaurant, date: dt.date | None) -> int | None:
    """Minutes since midnight for a spoken hour.

    `half` is "am", "pm" or "" when it wasn't said: then the reading at which the restaurant seats guests (on `date`, or
    on any day) is meant, and the later one when neither or both do.
    """
    if not (0 <= hour <= 24 and 0 <= minute <= 59):
        return None
    if hour > 12 or hour == 0:
        return (hour % 24) * 60 + minute
    if half:
        return (hour % 12 + (12 if half == "pm" else 0)) * 60 + minute
    early, late = (hour % 12) * 60 + minute, (hour % 12 + 12) * 60 + minute
    monday = dt.date(2024, 1, 1)
    days = [date] if date and restaurant.services(date) else [monday + dt.timedelta(days=i) for i in range(7)]

    def seated(at: int) -> bool:
        return any(restaurant.accepts(day, at) for day in days)

    return early if seated(early) and not seated(late) else late


def _half(words: Sequence[str], at: int) -> tuple[str, int]:
    """What follows a time and names the half of the day, as (am|pm|"", words taken)."""
    rest = tuple(words[at : at + 3])
    if rest[:1] in (("am",), ("pm",)):
        return rest[0], 1
    for phrase, half in (
        (("in", "the", "morning"), "am"),
        (("in", "the", "evening"), "pm"),
        (("in", "the", "afternoon"), "pm"),
        (("at", "night"), "pm"),
    ):
        if rest[: len(phrase)] == phrase:
            return half, len(phrase)
    return "", 0


def _clock(words: Sequence[str], at: int) -> tuple[int, int, int, bool] | None:
    """The words of a clock time, as (hour, minute, words taken, certain); a bare hour isn't certain to be a time."""
    i = at + (words[at] in ("a", "the"))
    if i < len(words) and words[i] == "half":
        j = i + 1 + (i + 1 < len(words) and words[i + 1] in ("past", "after"))
        hour = numbers.cardinal(words, j)
        if hour and 1 <= hour[0] <= 12:
            return hour[0], 30, j + 1 - at, True
        return None
    minutes = (15, 1) if i < len(words) and words[i] == "quarter" else numbers.cardinal(words, i)
    if minutes is None:
        return None
    j = i + minutes[1]
    j += j < len(words) and words[j] == "minutes"
    if j < len(words) and words[j] in ("past", "after", "to", "of", "before", "till"):
        hour = numbers.cardinal(words, j + 1)
        sensible = minutes[0] in (5, 10, 15, 20, 25) or words[j - 1] == "minutes"
        if hour and j + 2 < len(words) and words[j + 2] in _PEOPLE:  # "five to six people"
            return None
        if hour and 1 <= hour[0] <= 12 and sensible and not (words[j] == "of" and words[i] != "quarter"):
            if words[j] in ("past", "after"):
                return hour[0], minutes[0], j + 2 - at, True
            return (hour[0] - 1) or 12, 60 - minutes[0], j + 2 - at, True
    if words[i] == "quarter" or i > at:
        return None
    hour_value, k = minutes[0], i + minutes[1]
    if k < len(words) and words[k] == "o'clock":
        return hour_value, 0, k + 1 - at, True
    if k < len(words) and words[k] in ("oh", "o", "zero") and (unit := numbers.cardinal(words, k + 1)) and unit[0] < 10:
        return hour_value, unit[0], k + 2 - at, True
    if k < len(words) and 1 <= hour_value <= 24:
        rest = numbers.cardinal(words, k)
        date_follows = words[k] in ("twenty", "thirty") and k + 1 < len(words) and words[k + 1] in numbers.ORDINALS
        if rest and rest[0] in _MINUTE_WORDS and not date_follows:  # "at four twenty seventh of july"
            return hour_value, rest[0], k + rest[1] - at, True
    return hour_value, 0, k - at, False


def time(
    words: Sequence[str], at: int, restaurant: Restaurant, date: dt.date | None, *, expects: str
) -> tuple[int, int] | None:
    """A time that begins at `at`, as (minutes since midnight, words taken), or None.

    A bare hour counts after "at" and the like, before am, pm or "in the evening", with "ish" or "sharp", or when a
    time is what the agent asked for (`expects`); not when people follow.
    """
    if words[at] in ("noon", "midday", "lunchtime"):
        return 12 * 60, 1
    if words[at] == "midnight":
        return 0, 1
    if expects == "time" and (digits := numbers.booking_number(words, at, expected=False)):  # "1930"
        hour, minute = int(digits[0][:2]), int(digits[0][2:])
        value = resolve(hour, minute, "", restaurant, date)
        return (value, digits[1]) if value is not None else None
    clock = _clock(words, at)
    if clock is None:
        return None
    hour, minute, taken, certain = clock
    half, more = _half(words, at + taken)
    following = words[at + taken] if at + taken < len(words) else ""
    if not certain:
        before = words[at - 1] if at else ""
        about = before in _ABOUT and expects != "party"
        marked = more or about or before in ("at", "by") or following in ("ish", "sharp", "onwards")
        marked = marked or (following == "tonight" and before != "for")
        if hour < 1 or following in _PEOPLE or not (marked or expects == "time"):
            return None
    value = resolve(hour, minute, half, restaurant, date)
    return (value, taken + more) if value is not None else None
