"""Tool calls: each choice, streamed and not; their arguments are valid under the tool's schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from diffusion_engine.conformance.streams import gather
from diffusion_engine.conformance.suite import Endpoint, Suite, expect

suite = Suite("tools")
PROMPT = "Book a table for four tomorrow at seven, under the name Smith."
PARAMETERS: dict[str, dict[str, Any]] = {
    "book_table": {
        "type": "object",
        "properties": {
            "party": {"type": "integer", "minimum": 1, "maximum": 12},
            "time": {"enum": ["18:00", "19:00", "20:00"]},
            "name": {"type": "string", "maxLength": 12},
        },
        "required": ["party", "time", "name"],
        "additionalProperties": False,
    },
    "opening_hours": {"type": "object", "properties": {}, "additionalProperties": False},
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": f"To {name}.", "parameters": parameters}}
    for name, parameters in PARAMETERS.items()
]
NAMED = {"type": "function", "function": {"name": "book_table"}}


def _ask(endpoint: Endpoint, choice: Any, *, stream: bool, seed: int = 0, **more: Any) -> tuple[list[Any], str, str]:
    """Calls as (name, arguments, id), text, and finish reason."""
    arguments: dict[str, Any] = {
        "tools": TOOLS,
        "tool_choice": choice,
        "max_tokens": 200,
        "temperature": 1,
        "seed": seed,
        "stream": stream,
        **more,
    }
    reply = endpoint.chat(PROMPT, **arguments)
    if stream:
        streamed = gather(reply)
        expect(len(streamed.reasons) == 1, f"finish reasons {streamed.reasons}")
        return [tuple(call) for _, call in sorted(streamed.calls.items())], streamed.text, streamed.reasons[0]
    message = reply.choices[0].message
    calls = [(call.function.name, call.function.arguments, call.id) for call in message.tool_calls or []]
    return calls, message.content or "", reply.choices[0].finish_reason


def _check(calls: list[Any], text: str, reason: str) -> None:
    """What holds of every reply."""
    expect("<tool_call" not in text, f"a call came out as text: {text!r}")
    if reason == "length":
        return
    expect((reason == "tool_calls") == bool(calls), f"finish_reason {reason!r} with {len(calls)} calls")
    expect(len({call[2] for call in calls}) == len(calls) and all(call[2] for call in calls), "ids are not unique")
    for name, arguments, _ in calls:
        expect(name in PARAMETERS, f"{name!r} is no tool")
        try:
            jsonschema.validate(json.loads(arguments), PARAMETERS[name])
        except (ValueError, jsonschema.ValidationError) as invalid:
            expect(False, f"{name}({arguments}) is not valid: {str(invalid).splitlines()[0]}")


def _both(endpoint: Endpoint, choice: Any, *, called: bool | None, name: str | None = None, **more: Any) -> None:
    for stream in (False, True):
        for seed in range(3):
            calls, text, reason = _ask(endpoint, choice, stream=stream, seed=seed, **more)
            _check(calls, text, reason)
            if called is not None:
                expect(bool(calls) == called, f"{len(calls)} calls, finish_reason {reason!r}, stream {stream}")
            for call in calls:
                expect(name in (None, call[0]), f"{call[0]!r} was called instead of {name!r}")


@suite.check("`required`: there is a call, and it is valid")
def _required(endpoint: Endpoint) -> None:
    _both(endpoint, "required", called=True)


@suite.check("a named tool is the one that is called")
def _named(endpoint: Endpoint) -> None:
    _both(endpoint, NAMED, called=True, name="book_table")


@suite.check("`auto`: text, calls, or text and then calls; calls are valid and no text")
def _auto(endpoint: Endpoint) -> None:
    _both(endpoint, "auto", called=None)


@suite.check("`none`: there is no call")
def _none(endpoint: Endpoint) -> None:
    _both(endpoint, "none", called=False, max_tokens=40)


@suite.check("parallel_tool_calls: false allows one call at most")
def _one(endpoint: Endpoint) -> None:
    for stream in (False, True):
        for seed in range(3):
            calls, text, reason = _ask(endpoint, "required", stream=stream, seed=seed, parallel_tool_calls=False)
            _check(calls, text, reason)
            expect(len(calls) == 1, f"{len(calls)} calls")


@suite.check("streamed calls are the calls of the whole reply")
def _streamed(endpoint: Endpoint) -> None:
    for seed in range(3):
        whole = _ask(endpoint, "required", stream=False, seed=seed, temperature=0)
        streamed = _ask(endpoint, "required", stream=True, seed=seed, temperature=0)
        expect([call[:2] for call in streamed[0]] == [call[:2] for call in whole[0]], f"{streamed[0]} and {whole[0]}")


@suite.check("a call and its result are taken back as messages")
def _results(endpoint: Endpoint) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "opening_hours", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "When are you open?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Every day from five."},
    ]
    _check(*_ask(endpoint, "auto", stream=False, messages=messages, max_tokens=40))
