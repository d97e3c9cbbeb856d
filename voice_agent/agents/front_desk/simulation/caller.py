"""A simulated caller with goals: what it says next, what it means by that, and which details it has given so far."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from voice_agent.agents.front_desk.desk import Answer
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding.state import asked_for, render
from voice_agent.agents.front_desk.policy import Act
from voice_agent.agents.front_desk.simulation.grammar import rules
from voice_agent.agents.front_desk.simulation.speaker import Details, Slot, Speaker, Utterance
from voice_agent.agents.front_desk.simulation.values import Values
from voice_agent.agents.front_desk.store import Booking

TABLE: tuple[Slot, ...] = ("party", "date", "time")
_ASIDES = ("topic", "topic", "topic", "repeat", "unclear", "hold", "off_topic", "unknown", "hear_me")
_SLOTS: dict[str, Slot] = {"party": "party", "date": "date", "time": "time", "name": "name", "number": "number"}


@dataclass
class Goal:
    """What a caller wants: a request with its details, a question about a topic, or a side remark."""

    kind: Literal["book", "change", "cancel", "cancel_fresh", "topic", "hours", "side"]
    details: Details = field(default_factory=dict)
    topic: str = ""
    corrected: Details = field(default_factory=dict)  # what the caller remembers when nothing is found the first time


class Caller:
    """Talks through its goals one after the other; `truth` is what it has said and is still valid."""

    def __init__(
        self, goals: Sequence[Goal], restaurant: Restaurant, speaker: Speaker, values: Values, rng: random.Random
    ) -> None:
        """`values` draws what a caller who changes its mind wants instead."""
        self.goals = list(goals)
        self.goal: Goal | None = None
        self.restaurant, self.speaker, self.values, self.rng = restaurant, speaker, values, rng
        self.truth: Details = {}
        self._told: set[Slot] = set()
        self._asides = 0
        self._refusals = 0
        self._due: Slot | None = None  # what the agent asked for last
        self._refusal: Answer | None = None  # of the last tool call, until it is answered
        self._began = False

    def expected(self) -> dict[str, str]:
        """The details that a perfect listener would hold valid now, as the note writes them."""
        return {slot: render(slot, value) for slot, value in self.truth.items()}

    def informed(self, tool: str, answer: Answer) -> None:
        """The agent's tool call came to `answer`: a booking made closes the goal and what was said for it."""
        if tool == "confirm" and answer.status == "done":
            kept: tuple[Slot, ...] = ("name", "number") if answer.number else ("name",)
            self.truth = {s: v for s, v in self.truth.items() if s in kept}
            if answer.number:
                self.truth["number"] = answer.number
            self.goal = None
        self._refusals += answer.status == "refused"

    def speak(self, agent: str, answers: Sequence[Answer], staged: Booking | None = None) -> Utterance:
        """React to the agent's words.

        Args:
            agent: what the agent said last.
            answers: what its tools came to in this turn.
            staged: the booking that it reads back, to be compared with what is wanted.
        """
        utterance = self._react(agent, answers, staged)
        self._began = True
        self.truth.update(utterance.gives)
        self._told.update(utterance.gives)
        return utterance

    def _react(self, agent: str, answers: Sequence[Answer], staged: Booking | None) -> Utterance:
        if self.goal is None or self.goal.kind in ("topic", "hours", "side"):
            return self._next_goal(agent)
        asked = asked_for(agent)
        self._due = _SLOTS.get(asked, self._due)
        last = answers[-1] if answers else None
        if last:
            self._refusal = last if last.status == "refused" else self._refusal if last.status == "ok" else None
        aside = self._aside()
        if aside:
            return aside
        if "put you" in agent:
            return self._person_offered()
        if "nything else" in agent:
            return self._next_goal(agent)
        if "other day or time" in agent:
            return self._something_else()
        if last and last.status == "refused":
            return self._refused(last)
        if "should I change" in agent or "like to change" in agent:
            return self.speaker.say("new_answer", self._wrong(staged) or self._changed(), polite=True)
        if asked == "yesno" or agent.endswith(("Shall I book it?", "Shall I change it?", "Shall I cancel it?")):
            return self._read_back(staged)
        if last and last.status == "not_found":
            return self._not_found()
        if asked in _SLOTS:
            return self._asked(_SLOTS[asked])
        if agent.startswith("Of course, take your time"):
            if self._refusal:
                return self._refused(self._refusal)
            return self._asked(self._due) if self._due else self._read_back(staged)
        return self._remind(asked=bool(agent.endswith("?")))

    # Goals

    def _next_goal(self, agent: str) -> Utterance:
        previous, self.goal = self.goal, None
        if not self.goals:
            return self._finish(agent)
        self.goal = goal = self.goals.pop(0)
        self._told = {s for s in ("name", "number") if s in self.truth}
        self._refusals, self._due = 0, None
        lead = "hello" if not self._began and self.rng.random() < 0.5 else ""
        if previous is not None and previous.kind in ("topic", "hours") and self.rng.random() < 0.5:
            lead = "ack"
        match goal.kind:
            case "book":
                return self._open_booking(goal, lead, offered="book a table" in agent, again="number" in self.truth)
            case "change":
                return self._open_change(goal, lead)
            case "cancel":
                gives = self._some(("name", "number"), 0.25)
                return self.speaker.say("cancel", gives, lead=lead, act=Act("cancel"))
            case "cancel_fresh":
                return self.speaker.plain("cancel_fresh", Act("cancel"))
            case "topic":
                return self._question(goal.topic, lead)
            case "hours":
                if "date" in goal.details:
                    given: Details = {"date": goal.details["date"]}
                    return self.speaker.say("hours_day", given, lead=lead, act=Act("hours", "day"))
                return self.speaker.plain("hours", Act("hours"), lead=lead)
        return self.speaker.plain(goal.topic, Act(goal.topic), lead=lead)

    def _finish(self, agent: str) -> Utterance:
        if "?" in agent and self.rng.random() < 0.75:
            return self.speaker.plain("done", Act("done"))
        return self.speaker.plain("bye", Act("bye"), lead="thanks" if self.rng.random() < 0.4 else "")

    def _question(self, topic: str, lead: str) -> Utterance:
        if not lead and self.rng.random() < 0.3:
            lead = "question_lead"
        return self.speaker.plain(topic, Act("topic", topic), file="topics.yaml", lead=lead)

    def _open_booking(self, goal: Goal, lead: str, *, offered: bool, again: bool) -> Utterance:
        if "date" in self.truth and self.truth["date"] == goal.details.get("date"):
            self._told.add("date")
        untold: list[Slot] = [s for s in (*TABLE, "name") if s not in self._told]
        kind = self.rng.random()
        share = 0.0 if kind < 0.25 else 1.0 if kind < 0.4 else 0.5
        gives = {s: goal.details[s] for s in untold if self.rng.random() < share * (0.35 if s == "name" else 1)}
        rule = "again" if again else "yes_table" if offered and self.rng.random() < 0.5 else "book"
        return self.speaker.say(rule, gives, lead=lead, act=Act("book"), polite=True)

    def _open_change(self, goal: Goal, lead: str) -> Utterance:
        if self.rng.random() < 0.45:
            new: Details = {s: v for s, v in goal.details.items() if s in TABLE}
            return self.speaker.say("change_to", new, lead=lead, act=Act("change"), polite=True)
        return self.speaker.say("change", self._some(("name", "number"), 0.2), lead=lead, act=Act("change"))

    def _some(self, slots: Sequence[Slot], probability: float) -> Details:
        assert self.goal
        details = self.goal.details
        return {
            s: details[s] for s in slots if s in details and s not in self._told and self.rng.random() < probability
        }

    # Answers

    def _asked(self, slot: Slot) -> Utterance:
        """Answer a question, now and then with more than was asked for."""
        assert self.goal
        details = self.goal.details
        if slot == "number" and (slot not in details or self.rng.random() < 0.04):
            return self.speaker.plain("not_that_number", Act("no_number"))
        if slot not in details:
            self._new_value(slot)
        gives: Details = {slot: details[slot]}
        rest: list[Slot] = [s for s in details if s not in self._told and s != slot]
        if rest and self.rng.random() < 0.2:
            extra = self.rng.choice(rest)
            gives[extra] = details[extra]
        return self.speaker.say(f"{slot}_answer", gives, main=slot, polite=True)

    def _remind(self, *, asked: bool) -> Utterance:
        """The agent said nothing that calls for an answer: say what it doesn't know yet."""
        assert self.goal
        untold: Details = {s: v for s, v in self.goal.details.items() if s not in self._told}
        if untold and self.goal.kind == "book" and asked:
            return self.speaker.say("book", untold, act=Act("book"))
        return self.speaker.plain("ack", Act("ack"))

    def _read_back(self, staged: Booking | None) -> Utterance:
        assert self.goal
        wrong = self._wrong(staged)
        if wrong:
            return self.speaker.say("correct", wrong, polite=True)
        chance, doubt = self.rng.random(), self.speaker.manner.doubt
        if self.goal.kind in ("cancel", "cancel_fresh"):
            if chance >= doubt * 0.3:
                return self.speaker.plain("yes" if chance < 0.6 else "yes_cancel", Act("yes"))
            return self.speaker.plain("keep", Act("no"))
        if chance < doubt * 0.6:
            slots: tuple[Slot, ...] = (*TABLE, "name") if self.goal.kind == "book" else TABLE
            slot = self.rng.choice(slots)
            self._new_value(slot)
            rule = "correct" if self.rng.random() < 0.6 else "change_mind"
            return self.speaker.say(rule, {slot: self.goal.details[slot]}, polite=True)
        if chance < doubt * 0.85:
            return self.speaker.plain("no", Act("no"))
        if chance < doubt:
            return self.speaker.plain("abandon", Act("abandon"))
        return self.speaker.plain("yes_book" if chance > 0.9 and self.goal.kind == "book" else "yes", Act("yes"))

    def _wrong(self, staged: Booking | None) -> Details:
        """What is read back otherwise than wanted; nothing for a cancellation."""
        if staged is None or self.goal is None or self.goal.kind not in ("book", "change"):
            return {}
        read: Details = {"party": staged.party, "date": staged.date, "time": staged.minute, "name": staged.name}
        wanted = self.goal.details
        return {s: wanted[s] for s in read if s in wanted and wanted[s] != read[s] and s in (*TABLE, "name")}

    def _refused(self, answer: Answer) -> Utterance:
        """A closed day, a full house: take an offer, ask for something else, or give up."""
        assert self.goal
        details, chance = self.goal.details, self.rng.random()
        if self._refusals > 2 or chance < 0.06:
            return self.speaker.plain("abandon", Act("abandon"))
        if answer.times and chance < 0.6:
            return self._take(answer)
        if answer.dates and chance < 0.5:
            details["date"] = self.truth["date"] = answer.dates[0]
            return self.speaker.plain("yes", Act("give"))
        if answer.times and chance < 0.7:
            return self.speaker.plain("none_fits", Act("no"))
        if "How many" in answer.say:
            self._new_value("party")
            return self.speaker.say("party_answer", {"party": details["party"]}, main="party")
        slot: Slot = "time" if "time" in answer.say or (answer.times and chance < 0.85) else "date"
        self._new_value(slot)
        return self.speaker.say(f"{slot}_answer", {slot: details[slot]}, main=slot, polite=True)

    def _something_else(self) -> Utterance:
        """Another day or another time than the one that can't be had."""
        assert self.goal
        slot: Slot = self.rng.choice(("time", "date"))
        self._new_value(slot)
        return self.speaker.say(f"{slot}_answer", {slot: self.goal.details[slot]}, main=slot, polite=True)

    def _take(self, answer: Answer) -> Utterance:
        """Take one of the times that were offered."""
        assert self.goal
        index = self.rng.randrange(len(answer.times))
        self.goal.details["time"] = answer.times[index]
        if self.rng.random() < (0.3 if len(answer.times) == 2 else 0.5):
            self.truth["time"] = answer.times[index]
            only = "yes" if len(answer.times) == 1 else ""
            return self.speaker.plain(only or ("first_offer", "second_offer")[index], Act("give"))
        return self.speaker.say("take_offer", {"time": answer.times[index]}, main="time")

    def _not_found(self) -> Utterance:
        """The number or the name was wrong: give it again, right this time."""
        assert self.goal
        details = self.goal.details
        details.update(self.goal.corrected)
        right: Details = {"number": details.get("number", self.truth.get("number", ""))}
        if "name" in details and self.truth.get("name") != details["name"]:
            right["name"] = details["name"]
        return self.speaker.say("number_answer", right, main="number", polite=True)

    def _person_offered(self) -> Utterance:
        if self.rng.random() < 0.6:
            return self.speaker.plain("yes", Act("yes"))
        self.goals.clear()
        return self.speaker.plain("done", Act("no"))

    # Changes of mind

    def _changed(self) -> Details:
        """The details of a change that haven't been said, or a new value of one that has."""
        assert self.goal
        new: Details = {s: v for s, v in self.goal.details.items() if s in TABLE and s not in self._told}
        if not new:
            slot = self.rng.choice(TABLE)
            self._new_value(slot)
            new = {slot: self.goal.details[slot]}
        return new

    def _new_value(self, slot: Slot) -> None:
        assert self.goal
        details, old = self.goal.details, self.goal.details.get(slot)
        while details.get(slot) == old:
            details[slot] = self._draw(slot, details.get("date"))

    def _draw(self, slot: Slot, date: object) -> int | str | dt.date:
        if slot == "party":
            return self.values.party(self.restaurant)
        if slot == "name":
            return self.values.name()
        if slot == "number":
            return self.values.number()
        any_date = self.values.open_date(self.restaurant, self.speaker.today)
        if slot == "date":
            return any_date
        on = date if isinstance(date, dt.date) and self.restaurant.services(date) else any_date
        return self.values.minute(self.restaurant, on)

    def _aside(self) -> Utterance | None:
        """Something else in the middle of a request: a question, a request to repeat, noise."""
        if self._asides >= 2 or self.rng.random() > self.speaker.manner.aside:
            return None
        self._asides += 1
        kind = self.rng.choice(_ASIDES)
        if kind == "topic":
            return self._question(self.rng.choice(list(rules("topics.yaml"))), "ack" if self.rng.random() < 0.2 else "")
        return self.speaker.plain(kind, Act(kind))
