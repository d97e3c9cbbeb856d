"""The agent's manners: what a good front desk does next, given what the caller wants and what is known.

The embedded model learns this policy from dialogues in which it is played. It sees what the model sees (the notes and
its own last words), and besides that only the acts that a simulated caller meant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from voice_agent.agents.front_desk import speech
from voice_agent.agents.front_desk.agent import Conversation
from voice_agent.agents.front_desk.tools import ToolResult

Request = Literal["", "book", "change", "cancel"]
OFFER = "Shall I put you through to a colleague?"


@dataclass(frozen=True)
class Act:
    """One thing that a caller does with an utterance: `kind`, and the topic where there is one."""

    kind: str
    topic: str = ""


_QUESTIONS = {
    "date": "What day would you like?",
    "time": "What time would you like?",
    "party": "How many people will there be?",
    "name": "What name shall I put it under?",
    "number": "What's your booking number?",
}
_MISSING: dict[Request, tuple[str, ...]] = {
    "book": ("date", "time", "party"),
    "change": ("number", "name"),
    "cancel": ("number", "name"),
}
# Answers that need no facts.
_PLAIN = {
    "how_are_you": "I'm very well, thank you.",
    "robot": "I'm the restaurant's automated assistant.",
    "hear_me": "Yes, I can hear you.",
    "nice": "That's very kind, thank you.",
    "thanks": "You're welcome.",
    "weather": "I'm afraid I don't know about the weather.",
    "off_topic": "I'm sorry, I can only help with the restaurant.",
    "unclear": "Sorry, I didn't catch that.",
}


class Policy:
    """Plays the agent in one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.request: Request = ""
        self.results: list[ToolResult] = []  # of the current turn

    def respond(self, acts: Sequence[Act], *, cut: Callable[[str], str] = str) -> str:
        """Act on what the caller meant, and say the reply, which is returned.

        `cut` gives the words of the reply that the caller lets the agent say.
        """
        self.results = []
        reply = self._reply([act for act in acts if act.kind != "filler"])
        self.conversation.said(cut(reply))
        return reply

    def _reply(self, acts: Sequence[Act]) -> str:
        kinds = {act.kind for act in acts}
        offered_person = "put you" in self._last_words()
        if "person" in kinds or "complaint" in kinds:
            return self._call("hand_over", reason="complaint" if "complaint" in kinds else "asked for a person")
        if offered_person and "yes" in kinds:
            large = "large" in self._last_words() or "people" in self._last_words()
            return self._call("hand_over", reason="large party" if large else "cannot help")
        if "bye" in kinds:
            return self._call("end_call")
        if "repeat" in kinds:
            return self._last_words()
        if "hold" in kinds:
            return "Of course, take your time."
        said = [s for act in acts if (s := self._answer(act))]
        if "yes" in kinds and self._last_words().endswith("book a table?"):
            kinds = kinds | {"book"}
        opened = kinds & {"book", "change", "cancel"}
        if opened:
            self.request = next(k for k in ("book", "change", "cancel") if k in opened)
        if "abandon" in kinds:
            return self._abandon()
        if offered_person and "no" in kinds:
            self.request = ""
            return "All right. Is there anything else?"
        step = self._next(kinds, answered=bool(said), opened=bool(opened))
        return " ".join([*said, *([step] if step else [])])

    def _answer(self, act: Act) -> str:
        """The answer to what isn't part of a request."""
        match act.kind:
            case "topic":
                return self._call("restaurant_info", topic=act.topic)
            case "hours":
                dates = self.conversation.state.allowed("date") if act.topic else []
                return self._call("opening_hours", **({"date": str(dates[0])} if dates else {}))
            case "number_again":
                number = self.conversation.state.allowed("number")
                return f"It's {speech.digits(str(number[0]))}." if number else "I'm sorry, I don't have it."
            case "unknown":
                return "I'm sorry, I don't know that."
        return _PLAIN.get(act.kind, "")

    def _next(self, kinds: set[str], *, answered: bool, opened: bool) -> str:
        """What moves the call on: a step of the open request, or an offer of help."""
        if self.request:
            step = self._advance(kinds, answered=answered)
            return f"Of course. {step}" if opened and not answered and step in _OPENING else step
        if "done" in kinds:
            return self._call("end_call")
        if "unknown" in kinds:
            return OFFER
        if kinds & {"weather", "off_topic"}:
            return "Would you like to book a table?"
        if kinds & {"how_are_you", "hear_me", "robot", "unclear", "hello"} or ("give" in kinds and not answered):
            return "How can I help you?"
        if kinds & {"thanks", "nice", "number_again", "ack"}:
            return "Is there anything else?"
        if "yes" in kinds and not answered:
            return "What can I do for you?"
        if "no" in kinds:
            return "Is there anything else?"
        return ""

    # One request

    def _advance(self, kinds: set[str], *, answered: bool) -> str:
        """The next step of the open request: a question, or a tool's sentence."""
        state = self.conversation.state
        known, flags = state.known(), state.flags
        if "read back" in flags:
            return self._after_read_back(kinds, answered=answered)
        if "problem" in flags:
            return self._table_call("check_availability")
        if "not free" in flags or "not found" in flags:
            if "not found" in flags:
                return _QUESTIONS["number"] if "no_number" not in kinds else OFFER
            return self._otherwise(int(known.get("party", 1)))
        if "no_number" in kinds:
            return f"I'm sorry, I need the number for that. {OFFER}"
        for slot in _MISSING[self.request]:
            if slot not in known:
                return _QUESTIONS[slot] if self.request == "book" or slot == "number" else "What name is it under?"
        if self.request == "cancel":
            return self._call("cancel_booking", name=known["name"], number=known["number"])
        if self.request == "change":
            if not {"party", "date", "time"} & known.keys():
                return "What would you like to change?"
            return self._table_call("change_booking", name=known["name"], number=known["number"])
        if "name" in known:
            return self._table_call("book_table", name=known["name"])
        if "free" in flags:
            return _QUESTIONS["name"]
        say = self._table_call("check_availability")
        return say if say.endswith("?") else f"{say} {_QUESTIONS['name']}"

    def _otherwise(self, party: int) -> str:
        """What could be changed after a refusal."""
        if party < 1:
            return _QUESTIONS["party"]
        if party > self.conversation.desk.restaurant.bookings.max_party:
            return OFFER
        return "What other day or time would you like?"

    def _after_read_back(self, kinds: set[str], *, answered: bool) -> str:
        if "yes" in kinds:
            say = self._call("confirm")
            self.request = ""
            return say
        if "no" in kinds:
            if self.request == "cancel":
                return self._abandon()
            return "What should I change?"
        return {"book": "Shall I book it?", "change": "Shall I change it?", "cancel": "Shall I cancel it?"}[
            self.request
        ]

    def _abandon(self) -> str:
        kept = {"book": "I won't book it", "change": "I'll leave it as it is", "cancel": "I'll keep your booking"}
        reply = f"All right, {kept[self.request]}. Anything else?" if self.request else "All right. Anything else?"
        self.request = ""
        return reply

    # Calls

    def _table_call(self, tool: str, **arguments: Any) -> str:
        known = self.conversation.state.known()
        table: dict[str, Any] = {}
        if "date" in known:
            table["date"] = known["date"].split()[0]
        if "time" in known:
            table["time"] = known["time"]
        if "party" in known:
            table["party_size"] = int(known["party"])
        return self._call(tool, **arguments, **table)

    def _call(self, tool: str, **arguments: Any) -> str:
        result = self.conversation.tool_called(tool, arguments)
        self.results.append(result)
        return result.say

    def _last_words(self) -> str:
        spoken = (m for m in reversed(self.conversation.messages) if m["role"] == "assistant" and m["content"])
        return str(next(spoken)["content"])


_OPENING = frozenset(_QUESTIONS.values()) | {"What would you like to change?", "What name is it under?"}
