"""The front desk's tools: what a language model may call, offered only with values that the caller said."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voice_agent.agents.front_desk.desk import Answer, Desk
from voice_agent.agents.front_desk.grounding.details import Slot
from voice_agent.agents.front_desk.grounding.state import Grounding, clock, minutes

Schema = dict[str, Any]
REASONS = ("asked for a person", "large party", "complaint", "cannot help")

_DESCRIPTIONS = {
    "opening_hours": "Opening hours of a day, or of the week without a date.",
    "restaurant_info": "What is true about the restaurant.",
    "check_availability": "Whether a table is free.",
    "book_table": "Prepare a booking and get the sentence that reads it back.",
    "change_booking": "Prepare a change of a booking and get the sentence that reads it back.",
    "cancel_booking": "Prepare a cancellation and get the sentence that reads it back.",
    "confirm": "Carry out what was read back, after the caller said yes.",
    "hand_over": "Pass the caller to a person.",
    "end_call": "Say goodbye and hang up.",
}


class ToolCallError(ValueError):
    """A call that can't be carried out as written: an unknown tool, or an argument missing, unknown or malformed."""


@dataclass(frozen=True)
class ToolResult:
    """The outcome of a call: `content` is the compact JSON for the model, `say` the sentence in it to be spoken."""

    name: str
    content: str
    answer: Answer

    @property
    def say(self) -> str:
        """The speakable sentence."""
        return self.answer.say


def _function(name: str, properties: Mapping[str, Schema], required: tuple[str, ...] | None = None) -> Schema:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": _DESCRIPTIONS[name],
            "parameters": {
                "type": "object",
                "properties": dict(properties),
                "required": list(properties if required is None else required),
                "additionalProperties": False,
            },
        },
    }


def tools_for(state: Grounding, *, confirmable: bool) -> list[Schema]:
    """The tools on offer as OpenAI schemas; arguments are enumerations of what was heard.

    A tool whose required arguments were not heard is left out, and nobody is hung up on who asks. `confirmable`:
    something is staged, was read back and has been answered with anything but a no.
    """
    text: dict[Slot, list[Any]] = {
        "party": state.allowed("party"),
        "date": [d.isoformat() for d in state.allowed("date") if isinstance(d, dt.date)],
        "time": [clock(t) for t in state.allowed("time") if isinstance(t, int)],
        "name": state.allowed("name"),
        "number": state.allowed("number"),
    }
    kinds = {slot: "integer" if slot == "party" else "string" for slot in text}
    enum = {slot: {"type": kinds[slot], "enum": values} for slot, values in text.items() if values}
    table = {"date": "date", "time": "time", "party_size": "party"}
    heard_table = {argument: enum[slot] for argument, slot in table.items() if slot in enum}
    flags = state.flags

    tools = [
        _function("opening_hours", {"date": enum["date"]} if "date" in enum else {}, ()),
        _function("restaurant_info", {"topic": {"type": "string", "enum": list(state.restaurant.topics)}}),
    ]
    if "problem" in flags or (len(heard_table) == 3 and "free" not in flags and "read back" not in flags):
        tools.append(_function("check_availability", heard_table))
    if len(heard_table) == 3 and "name" in enum:
        tools.append(_function("book_table", {"name": enum["name"], **heard_table}))
    if "name" in enum and "number" in enum:
        who = {"name": enum["name"], "number": enum["number"]}
        if heard_table:
            tools.append(_function("change_booking", {**who, **heard_table}, ("name", "number")))
        tools.append(_function("cancel_booking", who))
    if confirmable:
        tools.append(_function("confirm", {}))
    tools.append(_function("hand_over", {"reason": {"type": "string", "enum": list(REASONS)}}))
    if not state.asking:
        tools.append(_function("end_call", {}))
    return tools


def offer_fault(tools: Sequence[Schema], name: str, arguments: Mapping[str, Any]) -> str:
    """What keeps a call from being one of the calls on offer; "" when it is one."""
    offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    if name not in offered:
        return f"called {name}, which wasn't offered; offered were {', '.join(offered)}"
    properties: Schema = offered[name]["properties"]
    missing = [key for key in offered[name]["required"] if key not in arguments]
    if missing:
        return f"called {name} without {', '.join(missing)}"
    for key, value in arguments.items():
        allowed = properties.get(key, {}).get("enum", [])
        if value not in allowed:
            return f"called {name} with {key} {value!r}, which is not one of {allowed}"
    return ""


def call(desk: Desk, state: Grounding, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Carry out one tool call (about a millisecond). That it was on offer is checked before (`offer_fault`).

    Raises:
        ToolCallError: the tool is unknown, or an argument is missing, unknown or malformed.
    """
    try:
        given = dict(_read(key, value) for key, value in arguments.items())
        match name:
            case "opening_hours":
                answer = desk.opening_hours(**given)
            case "restaurant_info":
                answer = desk.restaurant_info(**given)
            case "check_availability":
                answer = desk.check_availability(**given)
            case "book_table":
                answer = desk.book_table(**given)
            case "change_booking":
                answer = desk.change_booking(**given)
            case "cancel_booking":
                answer = desk.cancel_booking(**given)
            case "confirm":
                answer = desk.confirm(**given)
            case "hand_over":
                answer = desk.hand_over(**given, known=json.dumps(state.known()))
            case "end_call":
                answer = desk.end_call(**given)
            case _:
                raise ToolCallError(f"there is no tool {name!r}; there are {', '.join(_DESCRIPTIONS)}")
    except (TypeError, ValueError) as error:
        raise ToolCallError(f"{name}{json.dumps(dict(arguments))}: {error}") from error
    return ToolResult(name, json.dumps({"say": answer.say}, ensure_ascii=False, separators=(",", ":")), answer)


def _read(key: str, value: Any) -> tuple[str, Any]:
    """An argument as the desk takes it."""
    if key == "date":
        return key, dt.date.fromisoformat(value)
    if key == "time":
        return "minute", minutes(value)
    if key == "party_size":
        return "party", int(value)
    return key, value
