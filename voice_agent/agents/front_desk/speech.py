"""How the agent says dates, times and numbers: plain English that any synthesizer reads right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from voice_agent.agents.front_desk.facts import Restaurant

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def cardinal(n: int) -> str:
    """0..99 in words, without a hyphen."""
    if not 0 <= n <= 99:
        raise ValueError(f"only 0..99 is spoken here, not {n}")
    if n < 10:
        return DIGITS[n]
    if n < 20:
        return _TEENS[n - 10]
    return _TENS[n // 10] + (f" {DIGITS[n % 10]}" if n % 10 else "")


def ordinal(n: int) -> str:
    """1..99 as "first", "twenty first"."""
    head, _, last = cardinal(n).rpartition(" ")
    last = _ORDINALS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return f"{head} {last}".strip()


def digits(number: str) -> str:
    """A booking number, digit by digit: "four two seven one"."""
    return " ".join(DIGITS[int(d)] for d in number)


def clock(minute: int) -> str:
    """A time of day (minutes since midnight): "half past seven", "noon", "ten past eight in the morning"."""
    hour, rest = divmod(minute, 60)
    if minute in (0, 24 * 60):
        return "midnight"
    if minute == 12 * 60:
        return "noon"
    name = cardinal((hour - 1) % 12 + 1)
    next_name = cardinal(hour % 12 + 1)
    if rest == 0:
        text = f"{name} o'clock"
    elif rest == 30:
        text = f"half past {name}"
    elif rest in (15, 45):
        text = f"quarter past {name}" if rest == 15 else f"quarter to {next_name}"
    elif rest < 30:
        text = f"{cardinal(rest)}{'' if rest % 5 == 0 else ' minutes'} past {name}"
    else:
        text = f"{cardinal(60 - rest)}{'' if rest % 5 == 0 else ' minutes'} to {next_name}"
    return text + (" in the morning" if hour < 12 else "")


def day(date: dt.date, today: dt.date) -> str:
    """A date after a noun: "today", "tomorrow", "on Friday the fourth of December"."""
    if date == today:
        return "today"
    if date == today + dt.timedelta(days=1):
        return "tomorrow"
    return f"on {date:%A} the {ordinal(date.day)} of {date:%B}"


def people(n: int) -> str:
    """A party size: "one person", "four people"."""
    return "one person" if n == 1 else f"{cardinal(n)} people"


def either(options: Sequence[str]) -> str:
    """ "a", "a or b", "a, b or c"."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def hours(restaurant: Restaurant, date: dt.date) -> str:
    """The services of a day that isn't closed: "from noon to three o'clock and from five o'clock to ten o'clock"."""
    return " and ".join(f"from {clock(s.opens)} to {clock(s.closes)}" for s in restaurant.services(date))


def week(restaurant: Restaurant) -> str:
    """The weekly opening hours in one sentence, days with the same hours together."""
    monday = dt.date(2024, 1, 1)  # any Monday
    days = [monday + dt.timedelta(days=i) for i in range(7)]
    runs: list[tuple[dt.date, dt.date, str]] = []
    for date in days:
        text = hours(restaurant, date) or "closed"
        if runs and runs[-1][2] == text:
            runs[-1] = (runs[-1][0], date, text)
        else:
            runs.append((date, date, text))

    def span(first: dt.date, last: dt.date) -> str:
        if first == last:
            return f"{first:%A}"
        joint = "and" if (last - first).days == 1 else "to"
        return f"{first:%A} {joint} {last:%A}"

    opened = ", ".join(f"{span(a, b)} {text}" for a, b, text in runs if text != "closed")
    closed = " and ".join(f"{span(a, b)}" for a, b, text in runs if text == "closed")
    return f"We're open {opened}." + (f" We're closed on {closed}." if closed else "")
