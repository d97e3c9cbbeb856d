"""Every booking detail that one utterance mentions, in the order it was said, corrections resolved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding import dates, names, numbers, parties, times
from voice_agent.agents.front_desk.grounding.words import is_question, word_set

Slot = Literal["party", "date", "time", "name", "number"]
SLOTS: tuple[Slot, ...] = ("party", "date", "time", "name", "number")
Expected = Literal["party", "date", "time", "name", "number", "yesno", ""]
Value = int | str | dt.date

# Between a value and the one that corrects it: "for four, no wait, five".
_REPAIR = word_set(
    """
    no wait sorry i mean meant actually rather make it that um uh oh well or correction let's say
    """
)
_CUE_NUMBER = word_set("number reference code ref")
_MOVES = word_set("change move moved switch push bring reschedule shift changed postpone")
_FILLERS = word_set("um uh hm well")  # taken out before anything is read
_CLOCK = word_set("o'clock am pm thirty fifteen forty")
_STUTTERED = word_set("the of at on for to is under name it's my in")
_BEFORE_ONE = word_set(
    """
    first second third the earlier later that this which other another last latter former no have need nice good
    got
    """
)
_AFTER_ONE = word_set(
    """
    second moment minute sec more thing question
    """
)
_OFFERS = {(m, "it", "be") for m in ("can", "could", "would")} | {
    (modal, who, "do") for modal in ("can", "could", "would") for who in ("you", "we", "i")
}
_VISIT = word_set(
    """
    reservations bookings anything something sit visit table tables mean said think thinking should book booking
    reserve reservation open opening close closed closing hours come coming eat dinner lunch seat people about
    available availability space room free instead make rather okay possible fine work works prefer change move
    late spot spots got anybody booked full seats
    """
)


@dataclass(frozen=True)
class Mention:
    """A value said at words `start` to `end`; `rejected` when it was said to be the wrong or the old one."""

    slot: Slot
    value: Value
    start: int
    end: int
    rejected: bool = False


class _Scan:
    """One pass over the words of an utterance."""

    def __init__(
        self, words: Sequence[str], today: dt.date, restaurant: Restaurant, expects: Expected, date: dt.date | None
    ) -> None:
        self.words, self.today, self.restaurant, self.expects = words, today, restaurant, expects
        self.date = date
        self.mentions: list[Mention] = []

    def run(self) -> list[Mention]:
        at = 0
        while at < len(self.words):
            mention = self._at(at)
            if mention is None:
                at += 1
            else:
                self.mentions.append(mention)
                at = mention.end
        return self.mentions

    def _at(self, at: int) -> Mention | None:
        words, expects = self.words, self._expects(at)
        said_number = any(w in _CUE_NUMBER for w in words[max(0, at - 4) : at])
        number = numbers.booking_number(words, at, expected=expects == "number" or said_number)
        longer = at and numbers.is_digit(words[at - 1]) and not (self.mentions and self.mentions[-1].end == at)
        if number and not longer and (expects != "time" or said_number):
            return self._mention("number", number, at)
        if expects == "number" and numbers.cardinal(words, at) and numbers.cardinal(words, at + 1):
            return None  # a part of a booking number
        if words[at] == "one" and _is_pronoun(words, at):
            return None
        if (
            expects == "time"
            and words[at : at + 2] in (["the", "first"], ["the", "second"])
            and words[at + 2 : at + 3] != ["of"]
        ):
            return None  # of the times that were offered
        found: tuple[Value, int] | None = dates.date(words, at, self.today, expected=expects == "date")
        if found:
            return self._mention("date", found, at)
        # What is marked as a time or a size is one, before the agent's question decides on a bare number.
        unasked = "party" if expects == "party" else ""
        if found := times.time(words, at, self.restaurant, self.date, expects=unasked):
            return self._mention("time", found, at)
        if found := parties.party(words, at, expects=expects, known=self._has("party")):
            return self._mention("party", found, at)
        if found := times.time(words, at, self.restaurant, self.date, expects=expects):
            return self._mention("time", found, at)
        name = names.name(words, at, expected=expects == "name", correcting=expects == "yesno")
        return self._mention("name", name, at) if name else None

    def _expects(self, at: int) -> Expected:
        """What the agent asked for, unless it was answered, or what the caller is just correcting."""
        if self.mentions:
            last = self.mentions[-1]
            between = self.words[last.end : at]
            if (between or last.rejected) and len(between) <= 6 and all(w in _REPAIR for w in between):
                return last.slot
        return "" if any(m.slot == self.expects and not m.rejected for m in self.mentions) else self.expects

    def _has(self, slot: Slot) -> bool:
        return any(m.slot == slot for m in self.mentions)

    def _mention(self, slot: Slot, found: tuple[Value, int], at: int) -> Mention:
        before = tuple(self.words[max(0, at - 4) : at])
        while before and before[-1] in ("at", "on", "for", "the", "under", "of"):
            before = before[:-1]
        rejected = before[-1:] == ("not",) or before[-2:] in (("instead", "of"), ("rather", "than"), ("instead",))
        raw = tuple(self.words[max(0, at - 2) : at])
        rejected = rejected or raw == ("instead", "of")
        if self.words[at] == "yesterday" and self.expects != "date":  # "the booking i made yesterday"
            rejected = True
        if before[-1:] == ("from",):
            rejected = any(w in _MOVES for w in self.words) or "to" in self.words[at + found[1] :][:2]
        return Mention(slot, found[0], at, at + found[1], rejected)


def _is_pronoun(words: Sequence[str], at: int) -> bool:
    """Whether "one" at `at` counts nothing: "one second", "the later one", "that one"."""
    before, after = words[max(0, at - 1) : at], words[at + 1 : at + 2]
    if words[at + 1 : at + 3] == ["of", "us"] or words[at + 1 : at + 2] in (["person"], ["people"]):
        return False
    return not _CLOCK & set(after) and bool(_BEFORE_ONE & set(before) or _AFTER_ONE & set(after))


def _about_a_visit(words: Sequence[str]) -> bool:
    """Whether an utterance that mentions nothing but a day can be about coming on that day.

    "Tomorrow, please" and "are you open on friday" are, "who won the match yesterday" isn't.
    """
    if (
        _VISIT & set(words)
        or {"put", "down"} <= set(words)
        or _OFFERS & set(zip(words, words[1:], words[2:], strict=False))
    ):
        return True
    return not is_question(words) and "see" not in words


def mentions(
    utterance: str, today: dt.date, restaurant: Restaurant, *, expects: Expected = "", date: dt.date | None = None
) -> list[Mention]:
    """The details in a normalised utterance.

    Args:
        utterance: normalised text.
        today: the restaurant's date; relative dates count from it.
        restaurant: its hours decide between seven in the morning and in the evening.
        expects: what the agent's last words asked for; a bare "seven" or "smith" is understood as that.
        date: the date that is valid so far, for the hours.
    """
    words = [w for w in utterance.replace(" you know ", " ").split() if w not in _FILLERS]
    words = [w for i, w in enumerate(words) if not (i and w == words[i - 1] and w in _STUTTERED)]
    if not words:
        return []
    if is_question(words) and not _about_a_visit(words):  # "what's seven times eight" answers nothing
        expects = ""
    found = _Scan(words, today, restaurant, expects, date).run()
    said = [m.value for m in found if m.slot == "date" and not m.rejected]
    if said and isinstance(said[-1], dt.date) and said[-1] != date:
        found = _Scan(words, today, restaurant, expects, said[-1]).run()
    if expects != "date" and {m.slot for m in found} == {"date"} and not _about_a_visit(words):
        return []
    return found
