"""A model that books tables by rules, from nothing but what a language model is given: messages and tools."""

import json
import re
from typing import Any

from voice_agent.agents.front_desk.scripted import Reply, ToolCall

_YES = re.compile(
    r"\b(yes|yeah|ye|yep|yup|right|correct|perfect|sure|okay|fine|great|good|please|exactly|absolutely|of course|mhm"
    r"|uh huh|sounds|indeed|definitely|certainly|lovely|brilliant|excellent|super|cool|amazing|works?|do|go ahead|looks"
    r"|confirm|take|book|wonderful|happy)\b"
)
_QUESTIONS = {
    "date": "What day would you like?",
    "time": "What time would you like?",
    "party": "How many people will there be?",
    "name": "What name shall I put it under?",
}


class RuleModel:
    """Follows the agent's policy for bookings."""

    def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        """One reply."""
        last = messages[-1]
        offered = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in tools}
        note = next(m["content"] for m in reversed(messages) if m["role"] == "user").partition("(heard: ")[2]
        if last["role"] == "tool":
            say = json.loads(last["content"])["say"]
            return Reply(say if say.endswith("?") or "Goodbye" in say else f"{say} {_QUESTIONS['name']}")
        before = next(m["content"] for m in reversed(messages[:-1]) if m["role"] == "assistant" and m["content"])
        if "Anything else?" in before:
            return call("end_call")
        if "confirm" in offered and _YES.search(last["content"].partition("\n")[0]):
            return call("confirm")
        if "read back" in note:
            return Reply("What should I change?")
        for tool in ("book_table", "check_availability"):
            if tool in offered:
                return call(tool, **{key: schema["enum"][0] for key, schema in offered[tool].items()})
        missing = next(slot for slot in _QUESTIONS if f"{slot} " not in note)
        return Reply(_QUESTIONS[missing])


def call(name: str, /, **arguments: Any) -> Reply:
    """A reply that calls one tool."""
    return Reply("", (ToolCall(name, json.dumps(arguments)),))
