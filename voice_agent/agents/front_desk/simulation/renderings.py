"""How callers say a value: the many spoken forms of one date, time, size, name or number."""

from __future__ import annotations

import datetime as dt
import random

from voice_agent.agents.front_desk import speech
from voice_agent.agents.front_desk.facts import WEEKDAYS


def date(value: dt.date, today: dt.date, rng: random.Random) -> str:
    """A date as words, without a preposition; every form means `value` when said on `today`."""
    ahead = (value - today).days
    weekday, month = WEEKDAYS[value.weekday()], f"{value:%B}".lower()
    ordinal = speech.ordinal(value.day)
    if ahead == 0:
        return rng.choice(("today", "today", "tonight", "this evening"))
    if ahead == 1 and rng.random() < 0.85:
        return rng.choice(("tomorrow", "tomorrow", "tomorrow", "tomorrow evening", "tomorrow night"))
    if ahead == 2 and rng.random() < 0.4:
        return rng.choice(("the day after tomorrow", "day after tomorrow"))
    forms: list[str] = []
    if 1 <= ahead <= 6:
        forms += [weekday] * 6 + [f"this {weekday}", f"this coming {weekday}", f"{weekday} evening", f"{weekday} night"]
    monday = today - dt.timedelta(days=today.weekday())
    if 7 <= (value - monday).days < 14:
        forms += [f"next {weekday}"] * 4 + [f"{weekday} next week", f"{weekday} next week"]
    if ahead == 7:
        forms += ["a week from today", "in a week"]
    if 7 < ahead <= 13:
        forms += [f"a week from {weekday}", f"{weekday} week"]
    if ahead == 14:
        forms += ["in two weeks", "two weeks from today"]
    if 2 <= ahead <= 5:
        forms.append(f"in {speech.cardinal(ahead)} days")
    if 1 <= ahead <= 27:
        forms += [f"the {ordinal}", f"{weekday} the {ordinal}", f"{weekday} the {ordinal}"]
    forms += [
        f"the {ordinal} of {month}",
        f"the {ordinal} of {month}",
        f"{month} {ordinal}",
        f"{month} the {ordinal}",
        f"{weekday} the {ordinal} of {month}",
        f"{weekday} {month} {ordinal}",
        f"{ordinal} of {month}",
    ]
    if month not in ("may", "march"):
        forms += [f"{ordinal} {month}", f"{month} {speech.cardinal(value.day)}"]
    if (value.month, value.day) in ((12, 24), (12, 31), (2, 14)):
        forms += [
            {12: {24: "christmas eve", 31: "new year's eve"}, 2: {14: "valentine's day"}}[value.month][value.day]
        ] * 3
    return rng.choice(forms)


def time(minute: int, rng: random.Random, *, certain: bool) -> str:
    """A time as words; `certain`: a form that is a time by itself, not a bare hour."""
    hour, rest = divmod(minute, 60)
    name = speech.cardinal((hour - 1) % 12 + 1)
    following = speech.cardinal(hour % 12 + 1)
    half = "pm" if hour >= 12 else "am"
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 17 else "in the evening"
    if rest == 0:
        forms = [f"{name} o'clock", f"{name} o'clock", f"{name} {half}", f"{name} {half}", f"{name} {part}"]
        if not certain:
            forms += [name] * 6
        if minute == 12 * 60:
            forms += ["noon", "noon", "midday"]
        if hour > 12:
            forms.append(f"{speech.cardinal(hour)} o'clock")
    elif rest == 30:
        forms = [f"half past {name}"] * 3 + [f"{name} thirty"] * 4 + [f"half {name}", f"{name} thirty {half}"]
        if hour > 12:
            forms.append(f"{speech.cardinal(hour)} thirty")
    elif rest in (15, 45):
        said = f"quarter past {name}" if rest == 15 else f"quarter to {following}"
        number = f"{name} {speech.cardinal(rest)}"
        forms = [said, said, f"a {said}", number, number, f"{number} {half}"]
    else:
        forms = [f"{name} {'oh ' if rest < 10 else ''}{speech.cardinal(rest)}", speech.clock(minute)]
    return rng.choice(forms)


def party(n: int) -> str:
    """A size as the words that stand after "for" and before "people"."""
    return speech.cardinal(n)


def party_phrase(n: int, rng: random.Random) -> str | None:
    """A size said as who they are ("me and my wife"), or None when there is no such way."""
    relation = rng.choice(("wife", "husband", "partner", "girlfriend", "boyfriend", "friend", "mum", "son", "daughter"))
    two = (
        "the two of us",
        "just the two of us",
        f"me and my {relation}",
        f"my {relation} and me",
        f"my {relation} and i",
    )
    phrases: dict[int, tuple[str, ...]] = {
        1: ("just me", "only me", "just myself", "just one person"),
        2: (*two, "a couple"),
        3: ("two adults and one child", "me and two friends", f"me my {relation} and one child", "the three of us"),
        4: ("two adults and two children", "two adults and two kids", "me and three friends", "the four of us"),
        5: ("three adults and two kids", "four adults and one child", "me and four friends", "the five of us"),
        6: ("four adults and two kids", "half a dozen people", "me and five colleagues", "the six of us"),
        7: ("five adults and two children", "me and six friends"),
        8: ("six adults and two kids", "me and seven colleagues"),
    }
    return rng.choice(phrases[n]) if n in phrases else None


def number(digits: str, rng: random.Random) -> str:
    """A booking number as words: digit by digit, with doubles and oh, rarely in pairs."""
    kind = rng.random()
    if kind < 0.08 and digits[0] != "0" and digits[2] != "0":
        return f"{speech.cardinal(int(digits[:2]))} {speech.cardinal(int(digits[2:]))}"
    zero = "oh" if rng.random() < 0.4 else "zero"
    words, i = [], 0
    while i < len(digits):
        word = zero if digits[i] == "0" else speech.DIGITS[int(digits[i])]
        if kind > 0.75 and digits[i : i + 2] == digits[i] * 2 and digits[i : i + 3] != digits[i] * 3:
            words.append(f"double {word}")
            i += 2
        else:
            words.append(word)
            i += 1
    return " ".join(words)


def name(value: str, rng: random.Random) -> str:
    """A name, now and then spelled after it is said."""
    last = value.split()[-1]
    if rng.random() < 0.07 and last.isalpha() and len(last) <= 9:
        join = rng.choice(("", "that's ", "spelled ", ""))
        return f"{value} {join}{' '.join(last)}"
    return value
