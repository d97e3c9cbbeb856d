"""A simulated caller with a goal: what it says next, what it means by that, and which details it has given so far."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from voice_agent.agents.front_desk.desk import Answer
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding.state import asked_for, render
from voice_agent.agents.front_desk.policy import Act
from voice_agent.agents.front_desk.simulation import noise, renderings
from voice_agent.agents.front_desk.simulation.grammar import Grammar, fill, rules
from voice_agent.agents.front_desk.simulation.values import Values

Slot = Literal["party", "date", "time", "name", "number"]
Details = dict[Slot, int | str | dt.date]
_LETTER: dict[Slot, str] = {"party": "p", "date": "d", "time": "t", "name": "n", "number": "k"}
_TABLE: tuple[Slot, ...] = ("party", "date", "time")


@dataclass
class Goal:
    """What a caller wants: a request with its details, or a question."""

    kind: Literal["book", "change", "cancel", "cancel_fresh", "topic", "hours", "side"]
    details: Details = field(default_factory=dict)
    topic: str = ""


@dataclass(frozen=True)
class Utterance:
    """What is said, what is meant by it, and the details in it."""

    text: str
    acts: tuple[Act, ...]
    gives: Mapping[Slot, int | str | dt.date]


@dataclass(frozen=True)
class Style:
    """How a caller talks: probabilities of fillers (a word), false starts, recogniser slips and politeness."""

    filler: float
    false_start: float
    slip: float
    polite: float
    chatty: float
    fickle: float


def style(rng: random.Random) -> Style:
    """A manner of speaking; a third of the callers speak cleanly."""
    if rng.random() < 0.35:
        return Style(0.0, 0.0, 0.0, 0.4, 0.1, 0.05)
    return Style(rng.choice((0.02, 0.05, 0.1)), rng.choice((0.0, 0.1)), rng.choice((0.0, 0.1, 0.2)), 0.35, 0.25, 0.15)


class Caller:
    """Talks through its goals one after the other; `truth` is what it has said and is still valid."""

    def __init__(
        self,
        goals: Sequence[Goal],
        restaurant: Restaurant,
        today: dt.date,
        grammar: Grammar,
        values: Values,
        manner: Style,
        rng: random.Random,
    ) -> None:
        self.goals = list(goals)
        self.goal: Goal | None = None
        self.restaurant, self.today = restaurant, today
        self.grammar, self.values, self.manner, self.rng = grammar, values, manner, rng
        self.truth: Details = {}
        self._told: set[Slot] = set()
        self._side_acts = 0
        self._refusals = 0
        self._due = ""  # what the agent asked for last

    # What the agent did

    def informed(self, tool: str, answer: Answer) -> None:
        """The agent's tool call came to `answer`: a booking made closes the goal and what was said for it."""
        if tool == "confirm" and answer.status == "done":
            kept: tuple[Slot, ...] = ("name", "number") if answer.number else ("name",)
            self.truth = {s: v for s, v in self.truth.items() if s in kept}
            if answer.number:
                self.truth["number"] = answer.number
            self.goal = None
        if answer.status == "refused":
            self._refusals += 1

    # Speaking

    def speak(self, agent: str, answers: Sequence[Answer]) -> Utterance:
        """React to the agent's words (`answers`: what its tools came to in this turn)."""
        if self.goal is None or self.goal.kind in ("topic", "hours", "side"):
            return self._next_goal(agent)
        self._due = asked_for(agent) or self._due
        side = self._side_act(agent)
        if side:
            return side
        last = answers[-1] if answers else None
        asked = asked_for(agent)
        if "put you through" in agent:
            return self._person_offered()
        if "Anything else" in agent or "anything else" in agent:
            self.goal = None
            return self._next_goal(agent)
        if last and last.status == "refused":
            return self._refused(last)
        if "should I change" in agent or "like to change" in agent:
            return self._say("new_answer", self._changed(), polite=True)
        if asked == "yesno" or agent.endswith(("Shall I book it?", "Shall I change it?", "Shall I cancel it?")):
            return self._read_back()
        if last and last.status == "not_found":
            return self._not_found()
        if asked in ("date", "time", "party", "name", "number"):
            return self._asked(asked)
        if agent.startswith("Of course, take your time"):
            return self._asked(self._due) if self._due in _LETTER else self._read_back()
        return self._one("ack", "ack")

    def _next_goal(self, agent: str) -> Utterance:
        first = not self.goals or (self.goal is None and not self._told)
        if not self.goals:
            self.goal = None
            if "nything else" in agent and self.rng.random() < 0.75:
                return self._one("done", "done")
            return self._one("bye", "bye") if self.rng.random() < 0.6 else self._end()
        previous = self.goal
        self.goal = goal = self.goals.pop(0)
        self._told = {s for s in ("name", "number") if s in self.truth}
        self._refusals = 0
        lead = "hello" if first and previous is None and not self.truth and self.rng.random() < 0.5 else ""
        if previous is not None and previous.kind in ("topic", "hours") and self.rng.random() < 0.5:
            lead = "ack"
        match goal.kind:
            case "book":
                return self._open_booking(goal, lead)
            case "change":
                return self._open_change(goal, lead)
            case "cancel":
                gives = self._some(("name", "number"), 0.25)
                return self._say("cancel", gives, lead=lead, tail=True, act="cancel")
            case "cancel_fresh":
                return self._say("cancel_fresh", {}, act="cancel")
            case "topic":
                text = self.grammar.say(goal.topic, file="topics.yaml")
                return self._utter(text, (Act("topic", goal.topic),), {}, lead)
            case "hours":
                if "date" in goal.details:
                    return self._say("hours_day", {"date": goal.details["date"]}, lead=lead, act="hours", topic="day")
                return self._say("hours", {}, lead=lead, act="hours")
        return self._utter(self.grammar.say(goal.topic), (Act(goal.topic),), {}, lead)

    def _end(self) -> Utterance:
        text = f"{self.grammar.say('thanks')} {self.grammar.say('bye')}"
        return self._utter(text, (Act("bye"),), {})

    def _open_booking(self, goal: Goal, lead: str) -> Utterance:
        kind = self.rng.random()
        if "date" in self.truth and "date" in goal.details and self.truth["date"] == goal.details["date"]:
            self._told.add("date")
        open_slots: tuple[Slot, ...] = tuple(s for s in (*_TABLE, "name") if s not in self._told)
        if kind < 0.25:
            gives: Details = {}
        elif kind < 0.4:
            gives = {s: goal.details[s] for s in open_slots if s != "name" or self.rng.random() < 0.4}
        else:
            gives = {s: goal.details[s] for s in open_slots if self.rng.random() < (0.5 if s != "name" else 0.15)}
        return self._say("book", gives, lead=lead, act="book", polite=True)

    def _open_change(self, goal: Goal, lead: str) -> Utterance:
        new: Details = {s: v for s, v in goal.details.items() if s in _TABLE}
        if self.rng.random() < 0.45:
            return self._say("change_to", new, lead=lead, act="change", polite=True)
        return self._say("change", self._some(("name", "number"), 0.2), lead=lead, act="change", tail=True)

    def _some(self, slots: Sequence[Slot], probability: float) -> Details:
        assert self.goal
        return {
            s: self.goal.details[s]
            for s in slots
            if s in self.goal.details and s not in self._told and self.rng.random() < probability
        }

    def _asked(self, slot: str) -> Utterance:
        """Answer a question, now and then with more than was asked for."""
        assert self.goal
        slot_asked: Slot = slot  # type: ignore[assignment]
        details = self.goal.details
        if slot_asked not in details:
            if slot_asked == "name":
                details["name"] = self.values.name()
            elif slot_asked == "number":
                return self._one("not_that_number", "no_number")
            else:
                self._new_value(slot_asked)
        gives: Details = {slot_asked: details[slot_asked]}
        if self.rng.random() < 0.2:
            rest: list[Slot] = [s for s in details if s not in self._told and s != slot_asked]
            if rest:
                extra = self.rng.choice(rest)
                gives[extra] = details[extra]
        if slot_asked == "number" and self.rng.random() < 0.04:
            return self._one("not_that_number", "no_number")
        return self._say(f"{slot_asked}_answer", gives, main=slot_asked, polite=True)

    def _read_back(self) -> Utterance:
        assert self.goal
        chance = self.rng.random()
        cancelling = self.goal.kind in ("cancel", "cancel_fresh")
        if cancelling:
            if chance < 0.92:
                return self._one("yes" if chance < 0.6 else "yes_cancel", "yes")
            self.goal.details.clear()
            return self._one("keep", "no")
        if chance < 0.1 + self.manner.fickle:
            slots: tuple[Slot, ...] = ("party", "time", "date", "name")
            slot = self.rng.choice(slots if self.goal.kind == "book" else slots[:2])
            self._new_value(slot)
            return self._say("correct", {slot: self.goal.details[slot]}, polite=True, lead_no=True)
        if chance < 0.15 + self.manner.fickle:
            return self._one("no", "no")
        if chance < 0.17 + self.manner.fickle:
            return self._one("abandon", "abandon")
        return self._one("yes" if chance < 0.85 or self.goal.kind != "book" else "yes_book", "yes")

    def _refused(self, answer: Answer) -> Utterance:
        """A closed day, a full house: take an offer, ask for something else, or give up."""
        assert self.goal
        details = self.goal.details
        chance = self.rng.random()
        if self._refusals > 2 or chance < 0.06:
            return self._one("abandon", "abandon")
        if answer.times and chance < 0.6:
            return self._take(answer)
        if answer.dates and chance < 0.5:
            details["date"] = answer.dates[0]
            self.truth["date"] = answer.dates[0]
            return self._one("yes", "give")
        if answer.times and chance < 0.7:
            return self._one("none_fits", "no")
        if "How many" in answer.say:
            self._new_value("party")
            return self._say("party_answer", {"party": details["party"]}, main="party")
        slot: Slot = "time" if "time" in answer.say or (answer.times and chance < 0.85) else "date"
        self._new_value(slot)
        return self._say(f"{slot}_answer", {slot: details[slot]}, main=slot, polite=True)

    def _take(self, answer: Answer) -> Utterance:
        assert self.goal
        index = self.rng.randrange(len(answer.times))
        self.goal.details["time"] = answer.times[index]
        if len(answer.times) == 2 and self.rng.random() < 0.3:
            self.truth["time"] = answer.times[index]
            return self._one("first_offer" if index == 0 else "second_offer", "give")
        if len(answer.times) == 1 and self.rng.random() < 0.5:
            self.truth["time"] = answer.times[index]
            return self._one("yes", "give")
        return self._say("take_offer", {"time": answer.times[index]}, main="time")

    def _not_found(self) -> Utterance:
        """The number or the name was wrong: give it again, right this time."""
        assert self.goal
        right: Details = {"number": self.goal.details.get("number", self.truth["number"])}
        if self.truth.get("name") != self.goal.details.get("name", self.truth["name"]):
            right["name"] = self.goal.details["name"]
        return self._say("number_answer", right, main="number", polite=True)

    def _person_offered(self) -> Utterance:
        if self.rng.random() < 0.6:
            return self._one("yes", "yes")
        self.goal = None
        self.truth = {s: v for s, v in self.truth.items()}
        return self._one("done", "no")

    def _changed(self) -> Details:
        """The details of a change that haven't been said, or a new value of one that has."""
        assert self.goal
        new: Details = {s: v for s, v in self.goal.details.items() if s in _TABLE and s not in self._told}
        if not new:
            slot: Slot = self.rng.choice(_TABLE)
            self._new_value(slot)
            new = {slot: self.goal.details[slot]}
        return new

    def _new_value(self, slot: Slot) -> None:
        """Change one's mind."""
        assert self.goal
        details, old = self.goal.details, self.goal.details.get(slot)
        while details.get(slot) == old:
            if slot == "party":
                details[slot] = self.values.party(self.restaurant)
            elif slot == "date":
                details[slot] = self.values.open_date(self.restaurant, self.today)
            elif slot == "time":
                date = details.get("date")
                on = date if isinstance(date, dt.date) and self.restaurant.services(date) else None
                details[slot] = self.values.minute(
                    self.restaurant, on or self.values.open_date(self.restaurant, self.today)
                )
            elif slot == "name":
                details[slot] = self.values.name()
            else:
                details[slot] = self.values.number()

    def _side_act(self, agent: str) -> Utterance | None:
        """Something else in the middle of a request: a question, a request to repeat, noise."""
        if self._side_acts >= 2 or self.rng.random() > 0.07 + self.manner.chatty * 0.15:
            return None
        self._side_acts += 1
        kind = self.rng.choice(
            ("topic", "topic", "topic", "repeat", "unclear", "hold", "off_topic", "unknown", "hear_me")
        )
        if kind == "topic":
            topic = self.rng.choice(list(rules("topics.yaml")))
            text = self.grammar.say(topic, file="topics.yaml")
            return self._utter(text, (Act("topic", topic),), {}, "ack" if self.rng.random() < 0.2 else "")
        return self._one(kind, kind)

    # Words

    def _one(self, rule: str, act: str) -> Utterance:
        text = self.grammar.say(rule)
        return self._utter(text, (Act(act),), {})

    def _say(
        self,
        rule: str,
        gives: Details,
        *,
        lead: str = "",
        act: str = "give",
        topic: str = "",
        main: Slot | None = None,
        polite: bool = False,
        tail: bool = False,
        lead_no: bool = False,
    ) -> Utterance:
        """An utterance of `rule` with details: `main` in the rule's own slot, the others around it."""
        text = self.grammar.say(rule)
        new = "$what" in text
        phrases = [
            self._phrase(slot, text, sole=new, rest=len(gives) > 1)
            for slot in gives
            if slot != main and f"${_LETTER[slot]}" not in text
        ]
        self.rng.shuffle(phrases)
        names = [p for p in phrases if "$n" in p or "$k" in p]
        others = [p for p in phrases if p not in names]
        # A size after another number needs a word between them: "at seven thirty for two", not "seven thirty two".
        others = [f"for {p}" if i and p.startswith("$p") else p for i, p in enumerate(others)]
        joined = " ".join(others)
        if "$slots" in text:
            text = text.replace("$slots", joined)
        elif "$what" in text:
            text = text.replace("$what", joined or names.pop())
        elif others:
            text = f"{text} {'for ' if joined.startswith('$p') else ''}{joined}"
        if names:
            text = f"{text} {'and ' if self.rng.random() < 0.3 else ''}{' and '.join(names)}"
        if polite and self.rng.random() < self.manner.polite:
            text = f"{text} {self.grammar.say('polite_end')}"
        acts = (Act(act, topic), *((Act("give"),) if act != "give" and gives else ()))
        return self._utter(text, acts, gives, lead, answer=main)

    def _phrase(self, slot: Slot, text: str, *, sole: bool, rest: bool) -> str:
        if sole and slot == "name":
            bare = re.search(r"(it's|i said|no|sorry|should be|nope|meant) \$what", text)
            return "$n" if bare else self.rng.choice(("under $n", "the name $n"))
        if sole:
            return {"party": "for $p people" if rest else "$p people", "date": "$d", "time": "$t", "number": "$k"}[slot]
        return self.grammar.say(f"{slot}_in")

    def _utter(
        self, text: str, acts: tuple[Act, ...], gives: Mapping[Slot, object], lead: str = "", answer: Slot | None = None
    ) -> Utterance:
        """Put in the values, the fillers and the slips."""
        rng, manner = self.rng, self.manner
        if lead:
            text = f"{self.grammar.say(lead)} {text}"
        elif rng.random() < manner.filler * 2:
            text = f"{self.grammar.say('opener')} {text}"
        if rng.random() < manner.false_start:
            text = noise.false_start(text, rng)
        text = noise.fillers(text, rng, manner.filler)
        if rng.random() < manner.slip:
            text = noise.slips(text, rng)
        given: Details = dict(gives)  # type: ignore[arg-type]
        if given.get("party") == 1:
            text = re.sub(r"\$p (people|persons|guests|adults)", "$p person", text)
        text = fill(text, {_LETTER[s]: self._render(s, v, text, answer=answer == s) for s, v in given.items()})
        self.truth.update(given)
        self._told.update(given)
        return Utterance(text, acts, given)

    def _render(self, slot: Slot, value: int | str | dt.date, text: str, *, answer: bool) -> str:
        if isinstance(value, dt.date):
            return renderings.date(value, self.today, self.rng)
        if slot == "time":
            assert isinstance(value, int)
            # A bare hour is a time after "at", or as the answer to the question for the time.
            certain = not re.search(r"\bat (about |around )?\$t", text) and not answer
            return renderings.time(value, self.rng, certain=certain)
        if slot == "party":
            assert isinstance(value, int)
            return renderings.party(value, self.rng)
        return renderings.number(str(value), self.rng) if slot == "number" else renderings.name(str(value), self.rng)

    def expected(self) -> dict[str, str]:
        """The details that a perfect listener would hold valid now, as the note writes them."""
        return {slot: render(slot, value) for slot, value in self.truth.items()}
