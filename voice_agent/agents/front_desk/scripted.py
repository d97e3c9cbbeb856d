"""Scripted bookings in text: a simulated caller books a table with a language model, and what happened is judged.

A case passes when the right booking is in the database, every tool call was one that was offered, with offered values,
the details were read back before the booking was made, and nothing was said that no tool or caller had said.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from voice_agent.agents.front_desk import persona
from voice_agent.agents.front_desk.agent import Conversation, Message
from voice_agent.agents.front_desk.desk import Answer
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding import mentions, normalise
from voice_agent.agents.front_desk.grounding.state import minutes
from voice_agent.agents.front_desk.simulation.caller import Caller, Goal
from voice_agent.agents.front_desk.simulation.grammar import Grammar, Split
from voice_agent.agents.front_desk.simulation.speaker import Details, Speaker, Style
from voice_agent.agents.front_desk.simulation.values import Values
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.agents.front_desk.tools import Schema, ToolCallError

MAX_TURNS = 14
MAX_STEPS = 4  # model requests in one turn
# Some fillers and slips, as callers have them; no asides and no changes of mind: the script is to book one table.
_MANNER = Style(filler=0.03, false_start=0.03, slip=0.05, polite=0.35, aside=0.0, doubt=0.0)


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """What the model answered: words, or tool calls; `forwards` and `accepted` where the engine reports them."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    forwards: int | None = None
    accepted_per_verification: float | None = None


class Model(Protocol):
    """Anything that answers like a chat endpoint."""

    def ask(self, messages: list[Message], tools: list[Schema]) -> Reply:
        """One reply."""
        ...


@dataclass(frozen=True)
class Case:
    """One booking to be made: who calls when, and what for."""

    index: int
    now: dt.datetime
    details: Details
    seed: str
    split: Split


@dataclass
class Outcome:
    """How a case went; `faults` is empty when it passed."""

    case: Case
    faults: list[str] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)
    turns: int = 0
    replies: list[Reply] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """No faults."""
        return not self.faults


def cases(split: Split, n: int, seed: int, restaurant: Restaurant) -> Iterator[Case]:
    """`n` bookings; the same arguments give the same cases. The house is empty, so every one can be made."""
    for index in range(n):
        rng = random.Random(f"scripted/{seed}/{split}/{index}")
        values = Values(split, rng)
        today = values.today()
        date = values.open_date(restaurant, today)
        details: Details = {
            "party": values.party(restaurant),
            "date": date,
            "time": values.minute(restaurant, date),
            "name": values.name(),
        }
        now = dt.datetime.combine(today, dt.time(rng.randint(9, 16), rng.choice((0, 20, 40))), restaurant.zone)
        yield Case(index, now, details, f"{seed}/{split}/{index}", split)


def play(
    case: Case,
    model: Model,
    restaurant: Restaurant,
    *,
    prompt: Callable[[Restaurant, dt.date], str] = persona.system_prompt,
) -> Outcome:
    """One call, from the greeting to the goodbye or the end of the caller's patience."""
    outcome, rng = Outcome(case), random.Random(case.seed)
    with closing(BookingStore(":memory:", restaurant, rng)) as store:
        conversation = Conversation(restaurant, store, lambda: case.now, prompt=prompt)
        speaker = Speaker(case.now.date(), Grammar(case.split, rng), _MANNER, rng)
        caller = Caller([Goal("book", dict(case.details))], restaurant, speaker, Values(case.split, rng), rng)
        words, answers = conversation.greeting, list[Answer]()
        while outcome.turns < MAX_TURNS and not conversation.outcome and not outcome.faults:
            outcome.turns += 1
            staged = conversation.desk.staged
            utterance = caller.speak(words, answers, staged.booking if staged else None)
            conversation.heard(utterance.text)
            outcome.transcript.append(f"caller: {conversation.messages[-1]['content']}".replace("\n", "  "))
            words, answers = _turn(conversation, model, caller, outcome)
        _judge_bookings(case, store, outcome)
        _judge_words(conversation, outcome)
    return outcome


def _turn(conversation: Conversation, model: Model, caller: Caller, outcome: Outcome) -> tuple[str, list[Answer]]:
    """The model's turn: tool calls, then words."""
    answers: list[Answer] = []
    for _ in range(MAX_STEPS):
        asked = conversation.turn()
        reply = model.ask(asked.messages, asked.tools)
        outcome.replies.append(reply)
        if not reply.calls:
            outcome.transcript.append(f"agent: {reply.text}")
            if not reply.text.strip():
                outcome.faults.append("said nothing")
            conversation.said(reply.text)
            return reply.text, answers
        for called in reply.calls:
            outcome.transcript.append(f"  calls {called.name} {called.arguments}")
            try:
                result = conversation.tool_called(called.name, json.loads(called.arguments))
            except (ToolCallError, ValueError) as error:
                outcome.faults.append(f"bad call {called.name}({called.arguments}): {error}")
                return "", answers
            outcome.transcript.append(f"  gets {result.content}")
            answers.append(result.answer)
            caller.informed(called.name, result.answer)
    outcome.faults.append(f"no words after {MAX_STEPS} steps")
    return "", answers


def _judge_bookings(case: Case, store: BookingStore, outcome: Outcome) -> None:
    """Exactly the wanted booking is on the books."""
    wanted = tuple(case.details[s] for s in ("name", "date", "time", "party"))
    made = [(b.name, b.date, b.minute, b.party) for b in store.all() if b.status == "booked"]
    if not made:
        outcome.faults.append("no booking was made")
    elif made != [wanted]:
        outcome.faults.append(f"booked {made}, wanted {wanted}")


def _judge_words(conversation: Conversation, outcome: Outcome) -> None:
    """Every date, time and number in a reply was in a tool's result or was heard, and "booked" is said of bookings."""
    restaurant, today = conversation.desk.restaurant, conversation.desk.today
    sourced: set[tuple[str, object]] = set()
    booked = False
    for message in conversation.messages:
        text = str(message["content"])
        if message["role"] == "tool":
            said = json.loads(text)["say"]
            booked = booked or said.startswith("You're booked")
            sourced |= _facts(said, today, restaurant)
        elif message["role"] == "user":
            sourced |= _facts(text.partition("\n")[0], today, restaurant) | _noted(text)
        elif message["role"] == "assistant" and text:
            unsourced = _facts(text, today, restaurant) - sourced
            if unsourced:
                outcome.faults.append(f"said {', '.join(sorted(str(v) for _, v in unsourced))} out of nowhere")
            if "you're booked" in text.lower() and not booked:
                outcome.faults.append("said that the table was booked before it was")


def _facts(text: str, today: dt.date, restaurant: Restaurant) -> set[tuple[str, object]]:
    """The dates, times and booking numbers in a text, whatever they were said of."""
    kinds = ("date", "time", "number")
    return {(m.slot, m.value) for m in mentions(normalise(text), today, restaurant) if m.slot in kinds}


def _noted(text: str) -> set[tuple[str, object]]:
    """The dates, times and numbers in the note under a caller's words."""
    note = text.partition("\n(heard: ")[2]
    found: set[tuple[str, object]] = {("date", dt.date.fromisoformat(d)) for d in re.findall(r"date (\S+)", note)}
    found |= {("time", minutes(t)) for t in re.findall(r"time (\d\d:\d\d)", note)}
    return found | {("number", n) for n in re.findall(r"number (\d+)", note)}
