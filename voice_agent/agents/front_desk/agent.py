"""One call as the language model sees it: the only place that turns a dialogue into messages.

The real call, the text benchmark and the training data all talk through `Conversation`, so their prompts are the same
to the byte. A turn goes:

    turn = conversation.heard("a table for two tomorrow at eight, please")
    # ask the model with turn.messages and turn.tools; for each tool call it makes:
    result = conversation.tool_called("check_availability", {...});  turn = conversation.turn()
    # when it answers in words, report what the caller has heard of them, once the words were spoken:
    conversation.said("Yes, we have a table for two tomorrow at eight o'clock. What name shall I put it under?")

Speculating before the turn is committed: `preview` gives messages and tools for a transcript and changes nothing; to
go further (tools, replies), work on a `fork` and `adopt` it when the turn is committed. A fork refuses what can't be
undone. Barge-in: pass `said` only the words that were heard, "" if none were.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from voice_agent.agents.front_desk import persona
from voice_agent.agents.front_desk.desk import Desk
from voice_agent.agents.front_desk.facts import Restaurant
from voice_agent.agents.front_desk.grounding.normalise import normalise
from voice_agent.agents.front_desk.grounding.state import Grounding, asked_for
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.agents.front_desk.tools import Schema, ToolCallError, ToolResult, call, offer_fault, tools_for

Message = dict[str, Any]
IRREVERSIBLE = frozenset({"confirm", "hand_over", "end_call"})


class NotCommittedError(RuntimeError):
    """A tool that can't be undone was called on a speculation: commit the turn first."""


@dataclass(frozen=True)
class Turn:
    """What the model is asked with: OpenAI `messages` and `tools`."""

    messages: list[Message]
    tools: list[Schema]


class Conversation:
    """The dialogue of one call. Not thread-safe; every method takes about a millisecond."""

    def __init__(
        self,
        restaurant: Restaurant,
        store: BookingStore,
        clock: Callable[[], dt.datetime],
        *,
        prompt: Callable[[Restaurant, dt.date], str] = persona.system_prompt,
    ) -> None:
        """`clock` gives an aware datetime; `prompt` writes the system prompt (see `persona`).

        The greeting is part of the history from the start; speak `greeting` when the call begins.
        """
        self.desk = Desk(restaurant, store, clock)
        self.greeting = restaurant.greeting
        self.outcome: Literal["", "hand_over", "end"] = ""
        self._state = Grounding(restaurant, self.desk.today, rules=self.desk.problem)
        self._messages: list[Message] = [
            {"role": "system", "content": prompt(restaurant, self.desk.today)},
            {"role": "assistant", "content": self.greeting},
        ]
        self._calls = 0
        self._read_back: tuple[str, str] | None = None  # the tool that staged, and its sentence, until it was heard
        self._speculative = False

    # The caller's turn

    def heard(self, caller: str) -> Turn:
        """Commit what the caller said, as the recogniser wrote it, and ask with the result.

        A second utterance before any reply continues the first one: the caller had only paused.
        """
        text = normalise(caller)
        if self._messages[-1]["role"] == "user":
            text = f"{self._messages.pop()['content'].partition(chr(10))[0]} {text}".strip()
        self._state.listen(text)
        self._messages.append({"role": "user", "content": "\n".join(filter(None, (text, self._state.note())))})
        return self.turn()

    def preview(self, caller: str) -> Turn:
        """What `heard` would return, changing nothing: for a partial transcript, or to fill the prefix cache."""
        return self.fork().heard(caller)

    def turn(self) -> Turn:
        """The messages and tools as they stand: to ask again after a tool call."""
        confirmable = self.desk.staged is not None and "read back" in self._state.flags and self._state.denied is False
        return Turn(list(self._messages), tools_for(self._state, confirmable=confirmable))

    # The agent's turn

    def tool_called(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry out a tool call of the model and put it and its result into the history, both or neither.

        Whatever the model is, and whether or not its endpoint keeps to schemas, only calls on offer are carried out:
        a value that wasn't heard reaches no tool, and nothing is confirmed that wasn't read back.

        Raises:
            ToolCallError: the call wasn't on offer or can't be carried out; the history is as before.
            NotCommittedError: this is a fork, and the tool can't be undone.
        """
        if self._speculative and name in IRREVERSIBLE:
            raise NotCommittedError(f"{name} can't be undone: adopt the fork and call it then")
        fault = offer_fault(self.turn().tools, name, arguments)
        if fault:
            raise ToolCallError(fault)
        result = call(self.desk, self._state, name, arguments)
        self._calls += 1
        call_id = f"call_{self._calls}"
        function = {"name": name, "arguments": json.dumps(dict(arguments), separators=(", ", ": "))}
        self._messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": result.content},
        ]
        self._state.acted(name, result.answer)
        if result.answer.status == "staged":
            self._read_back = (name, result.say)
        if result.answer.status in ("hand_over", "end"):
            self.outcome = "hand_over" if result.answer.status == "hand_over" else "end"
        return result

    def said(self, agent: str) -> None:
        """Commit the words of the reply that the caller has heard; "" when it was cut off before the first.

        A read-back counts only when all of its details were heard: until then `confirm` isn't offered.
        """
        if not agent.strip():
            return
        if self._messages[-1]["role"] == "assistant" and "tool_calls" not in self._messages[-1]:
            self._messages[-1]["content"] += f" {agent.strip()}"
        else:
            self._messages.append({"role": "assistant", "content": agent.strip()})
        self._state.spoken(agent)
        if self._read_back and _covers(agent, self._read_back[1]):
            self._state.read_back(self._read_back[0])
            self._read_back = None

    # Speculation

    def fork(self) -> Conversation:
        """A speculative copy that shares the database and can do nothing that can't be undone."""
        other = copy.copy(self)
        other.desk = copy.copy(self.desk)
        other._state = self._state.copy()
        other._messages = [dict(m) for m in self._messages]
        other._speculative = True
        return other

    def adopt(self, fork: Conversation) -> None:
        """Make a fork's course this conversation's: the turn that it speculated on is committed."""
        speculative = self._speculative
        self.__dict__.update(fork.__dict__)
        self._speculative = speculative

    # Looking in

    @property
    def messages(self) -> list[Message]:
        """The history so far."""
        return list(self._messages)

    @property
    def note(self) -> str:
        """The details that are valid now, as the model reads them."""
        return self._state.note()

    @property
    def state(self) -> Grounding:
        """The details that are valid now."""
        return self._state

    @property
    def expects(self) -> str:
        """Which detail the agent's last words asked for: party, date, time, name, number, yesno or ""."""
        return asked_for(str(self._messages[-1].get("content", "")))


def _covers(agent: str, sentence: str) -> bool:
    """Whether the words heard include the details of a read-back, up to its closing question."""
    details = normalise(sentence.rsplit(". ", 1)[0])
    return details in normalise(agent)
