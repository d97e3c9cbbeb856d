"""Messages in OpenAI's shape, made what chat templates expect."""

from __future__ import annotations

import json
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool")


class Arguments(dict[str, Any]):
    """Arguments of a call: an object for templates that use `tojson`, JSON text for those that print it."""

    def __str__(self) -> str:
        return json.dumps(self, ensure_ascii=False)


class MessageError(ValueError):
    """A message that can't be served.

    Attributes:
        param: the field at fault, such as `messages.2.content`.
    """

    def __init__(self, param: str, reason: str) -> None:
        super().__init__(f"{param}: {reason}")
        self.param = param


def normalised(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check roles and contents; join text parts; parse the arguments of tool calls (see `Arguments`).

    Other fields are passed over: clients send back what servers of every kind have put into an assistant's message.

    Raises:
        MessageError: a role is unknown, a content is missing or no text, or arguments are no JSON object.
    """
    return [_message(message, f"messages.{i}") for i, message in enumerate(messages)]


def _message(message: dict[str, Any], at: str) -> dict[str, Any]:
    role = message.get("role")
    if role not in ROLES:
        raise MessageError(f"{at}.role", f"must be one of {', '.join(ROLES)}, not {role!r}")
    if message.get("content") is None and (role != "assistant" or not message.get("tool_calls")):
        raise MessageError(f"{at}.content", "is required, but beside an assistant's tool_calls")
    out: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": _text(message.get("content"), f"{at}.content"),
    }
    if message.get("tool_calls"):
        out["tool_calls"] = [
            _call(call, f"{at}.tool_calls.{i}") for i, call in enumerate(_list(message["tool_calls"], at))
        ]
    for key in ("tool_call_id", "name"):
        if message.get(key) is not None:
            out[key] = message[key]
    return out


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise MessageError(f"{at}.tool_calls", "must be a list")
    return value


def _text(content: Any, at: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MessageError(at, "must be a string or a list of text parts")
    texts = []
    for i, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise MessageError(f"{at}.{i}", "only parts of type text are supported")
        texts.append(part["text"])
    return "".join(texts)


def _call(call: Any, at: str) -> dict[str, Any]:
    try:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (KeyError, TypeError, ValueError) as wrong:
        raise MessageError(at, f"needs function.name, and function.arguments as JSON ({wrong})") from wrong
    if not isinstance(parsed, dict):
        raise MessageError(f"{at}.function.arguments", "must be a JSON object")
    return {"id": call.get("id"), "type": "function", "function": {"name": name, "arguments": Arguments(parsed)}}
