"""What the caller has said and is still valid: the source of every value that a tool may be called with."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from voice_agent.agents.front_desk.desk import Answer
from voice_agent.agents.front_desk.facts import WEEKDAYS, Restaurant
from voice_agent.agents.front_desk.grounding.details import SLOTS, Expected, Slot, Value, mentions
from voice_agent.agents.front_desk.grounding.normalise import normalise
from voice_agent.agents.front_desk.grounding.words import is_question

Flag = Literal["free", "not free", "read back", "not found", "problem"]
_TABLE: tuple[Slot, ...] = ("party", "date", "time")
_RELEVANT: dict[str, tuple[Slot, ...]] = {
    "check_availability": _TABLE,
    "book_table": (*_TABLE, "name"),
    "change_booking": SLOTS,
    "cancel_booking": ("name", "number"),
}
_ASKED: tuple[tuple[Expected, re.Pattern[str]], ...] = (
    ("number", re.compile(r"\b(booking|reservation|the|your) number\b|what's the number")),
    ("name", re.compile(r"\bname\b")),
    ("party", re.compile(r"\bhow many\b|\bfor how many\b|\bparty size\b")),
    ("time", re.compile(r"\b(what|which|other|another) (\w+ )?time\b|\btime would\b|\bwhen\b")),
    ("date", re.compile(r"\b(what|which|other|another) (\w+ )?(day|date)\b")),
    ("yesno", re.compile(r"\b(is that right|shall i|is that correct|should i)\b")),
)
_DENIAL = re.compile(
    r"^((uh|um|oh|hm|well|sorry) )*(no(?! problem)|nope|nah|not|wrong|don't|stop|forget|never mind|cancel that"
    r"|that's not|that's wrong|it's not|that isn't)\b"
)
_ACCEPTS = re.compile(
    r"^((well|okay|so|right|yeah|oh|listen|sorry|that|see) )*(yes|yeah|ye|yep|yup|sure|okay|right|fine|great|perfect"
    r"|good|lovely|brilliant|excellent|wonderful|super|cool|mhm|indeed|of course|definitely|certainly|very good|correct"
    r"|exactly|absolutely|please|sounds|looks|i'll take|we'll take|let's|that (is|works|sounds|would)|go ahead"
    r"|happy with|all (right|correct|good)|that'll (do|work|be fine)"
    r"|(that|it|everything)'s (all )?(fine|right|good|great|perfect|correct|okay|lovely))\b"
)
_DECLINES = re.compile(
    r"\b(no|not|nope|never|else|leave|forget|hear|hello|missed|don't|couldn't|doesn't|won't|can't|neither|none|but)\b"
)
_FIRST = re.compile(r"\bthe (first|earlier|former)( (one|option|time)\b| please| is|$)|\b(earlier one|first one)\b")
_SECOND = re.compile(r"\bthe (second|later|latter|last)( (one|option|time)\b| please| is|$)|\b(later one|second one)\b")
_GOODBYE = re.compile(
    r"\b(good ?)?bye\b|\bsee you\b|\bgood ?night\b"
    r"|\bhave an? (\w+ ){0,3}(good|nice|lovely|great|wonderful) (\w+ )?(day|evening|night|one|weekend|afternoon)\b"
)
_FILLERS = frozenset(("um", "uh", "hm"))
_OTHER_BOOKING = re.compile(
    r"\b(change|move|cancel|reschedule|alter|amend|postpone)\b.*\b(booking|reservation|table|it)\b"
)


@dataclass(frozen=True)
class Heard:
    """The current value of a slot, other values still possible, and whether it was said only in a question."""

    value: Value
    others: tuple[Value, ...] = ()
    in_question: bool = False


def asked_for(agent: str) -> Expected:
    """What the agent's last sentence asks the caller for; a question that was cut off counts as far as it got."""
    last = re.split(r"(?<=[.!]) ", agent.strip())[-1]
    said = normalise(last)
    if not last.endswith("?") and not said.startswith(("what ", "how ", "which ", "shall ", "is that")):
        return ""
    return next((slot for slot, pattern in _ASKED if pattern.search(said)), "")


def is_denial(utterance: str) -> bool:
    """Whether a normalised answer to a read-back begins with a no."""
    return bool(_DENIAL.search(utterance))


def _accepts(utterance: str) -> bool:
    """Whether a short answer takes the only offer made."""
    words = utterance.split()
    return (
        len(words) <= 7
        and not is_question(words)
        and bool(_ACCEPTS.search(utterance))
        and not _DECLINES.search(utterance)
    )


@dataclass
class Grounding:
    """Details that the caller gave, and what the last acts made of them.

    `rules(date, minute, party)` says (truthy) what the house forbids whatever is free. `copy` is
    cheap, so a reply can be speculated on a copy.
    """

    restaurant: Restaurant
    today: dt.date
    heard: dict[Slot, Heard] = field(default_factory=dict)
    expects: Expected = ""
    offered: tuple[Value, ...] = ()
    denied: bool = False
    asking: bool = False
    """The last utterance is a question without a goodbye: no time to hang up."""
    _offer_due: bool = False  # the offer is made with the agent's next words
    rules: Callable[[dt.date | None, int | None, int | None], object] = lambda date, minute, party: None
    _outcomes: dict[Flag, tuple[tuple[Slot, Value | None], ...]] = field(default_factory=dict)

    def copy(self) -> Grounding:
        """A state that can go its own way."""
        return replace(self, heard=dict(self.heard), _outcomes=dict(self._outcomes))

    # The caller

    def listen(self, utterance: str) -> None:
        """Take in what the caller said (normalised)."""
        utterance = " ".join(w for w in utterance.replace("uh huh", "yes").split() if w not in _FILLERS)
        if _OTHER_BOOKING.search(utterance):
            self.heard = {s: h for s, h in self.heard.items() if not h.in_question}
        if self.denied:  # what was said no to is not confirmed by a later yes to something else
            self._outcomes.pop("read back", None)
        self.denied = is_denial(utterance)
        self.asking = is_question(utterance.split()) and not _GOODBYE.search(utterance)
        date = self.heard["date"].value if "date" in self.heard else None
        expects: Expected = self.expects
        if self.offered:
            expects = "date" if isinstance(self.offered[0], dt.date) else "time"
        found = mentions(
            utterance, self.today, self.restaurant, expects=expects, date=date if isinstance(date, dt.date) else None
        )
        for slot in SLOTS:
            values = [m.value for m in found if m.slot == slot and not m.rejected]
            if values:
                either = f" {' '.join(utterance.split())} ".count(" or ") > 0
                others = tuple(dict.fromkeys(v for v in values[:-1] if v != values[-1])) if either else ()
                self.heard[slot] = Heard(values[-1], others)
            if values and slot in ("name", "number"):
                self._outcomes.pop("not found", None)
        if any(m.slot in ("time", "date") for m in found):
            self.offered = ()
        elif self.offered:
            self._take_offer(utterance)

    def _take_offer(self, utterance: str) -> None:
        """One of the times or the day that the agent offered is taken by its place or with a yes."""
        slot: Slot = "date" if isinstance(self.offered[0], dt.date) else "time"
        if _FIRST.search(utterance):
            taken = self.offered[0]
        elif _SECOND.search(utterance) or (len(self.offered) == 1 and _accepts(utterance)):
            taken = self.offered[-1]
        else:
            return
        self.heard[slot], self.offered = Heard(taken), ()

    # The agent

    def spoken(self, agent: str) -> None:
        """Take in what the agent said and the caller heard."""
        asked = asked_for(agent)
        if asked or "?" in agent:  # "Of course, take your time." leaves the question before it open
            self.expects = asked
        if not self._offer_due and "?" in agent:  # the agent has moved on
            self.offered = ()
        self._offer_due = False

    def acted(self, tool: str, answer: Answer) -> None:
        """Take in what an act came to."""
        if tool in _RELEVANT:
            self.offered, self._offer_due = answer.times or answer.dates, True
        if tool in ("opening_hours", "restaurant_info"):
            self.heard = {
                s: replace(h, in_question=True) if s in _TABLE and not self._open() else h
                for s, h in self.heard.items()
            }
        elif tool in _RELEVANT:
            self._outcomes = {}
            flag: Flag | None = {"free": "free", "refused": "not free", "not_found": "not found"}.get(answer.status)  # type: ignore[assignment]
            if flag:
                relevant = _TABLE if flag == "not free" else _RELEVANT[tool]
                self._outcomes[flag] = self._values(relevant)
        elif tool == "confirm" and answer.status == "done":
            self._outcomes = {}
            kept: tuple[Slot, ...] = ("name", "number") if answer.number else ("name",)
            self.heard = {s: h for s, h in self.heard.items() if s in kept}
            if answer.number:
                self.heard["number"] = Heard(answer.number)

    def read_back(self, tool: str) -> None:
        """The sentence that reads back what `tool` staged was heard by the caller."""
        self._outcomes["read back"] = self._values(_RELEVANT[tool])
        self.denied = False

    def _open(self) -> bool:
        """Whether a booking is under way: more than a date was said outside a question."""
        return sum(1 for s in _TABLE if s in self.heard and not self.heard[s].in_question) >= 2 or bool(self._outcomes)

    def _values(self, slots: tuple[Slot, ...]) -> tuple[tuple[Slot, Value | None], ...]:
        return tuple((s, self.heard[s].value if s in self.heard else None) for s in slots)

    # What comes of it

    @property
    def flags(self) -> list[Flag]:
        """What is known of exactly the current values; "problem" when the rules of the house forbid them."""
        known: list[Flag] = [
            flag for flag, values in self._outcomes.items() if values == self._values(tuple(slot for slot, _ in values))
        ]
        if "not free" not in known and self._forbidden():
            known.append("problem")
        return known

    def _forbidden(self) -> bool:
        date, minute, party = (self.heard[s].value if s in self.heard else None for s in ("date", "time", "party"))
        return bool(
            self.rules(
                date if isinstance(date, dt.date) else None,
                minute if isinstance(minute, int) else None,
                party if isinstance(party, int) else None,
            )
        )

    def allowed(self, slot: Slot) -> list[Value]:
        """The values a tool may be called with, the current one first."""
        heard = self.heard.get(slot)
        return [heard.value, *heard.others] if heard else []

    def note(self) -> str:
        """The line under the caller's words: "(heard: party 4, date 2026-12-01 tuesday, time 19:30)", or ""."""
        parts = [f"{slot} {render(slot, self.heard[slot].value)}" for slot in SLOTS if slot in self.heard]
        parts += self.flags
        return f"(heard: {', '.join(parts)})" if parts else ""

    def known(self) -> Mapping[str, str]:
        """The current values as text."""
        return {slot: render(slot, self.heard[slot].value) for slot in SLOTS if slot in self.heard}


def render(slot: Slot, value: Value) -> str:
    """A value as the note writes it."""
    if isinstance(value, dt.date):
        return f"{value.isoformat()} {WEEKDAYS[value.weekday()]}"
    if slot == "time" and isinstance(value, int):
        return clock(value)
    return str(value)


def clock(minute: int) -> str:
    """Minutes since midnight as the tools' arguments write them: "19:30"."""
    return f"{minute // 60:02}:{minute % 60:02}"


def minutes(text: str) -> int:
    """The inverse of `clock`.

    Raises:
        ValueError: `text` isn't HH:MM.
    """
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)
