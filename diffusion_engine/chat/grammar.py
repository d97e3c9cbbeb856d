"""Grammars for tool calls and JSON replies, in llguidance's Lark dialect.

Tool calls have the Hermes form, which Qwen and many others are trained on:
`<tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>`, JSON with ", " and ": " as `json.dumps` writes it and
properties in the order of the schema. The more the grammar fixes, the more tokens follow without a pass of their own.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import Constraint
from diffusion_engine.decoding.closing import Closer

TOOL_CALL_OPEN = "<tool_call>"
TOOL_CALL_CLOSE = "</tool_call>"

_JSON_STYLE = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
_TEXT = f"TEXT: /(.|\\n)+/ & ~/(.|\\n)*{TOOL_CALL_OPEN}(.|\\n)*/"
_CACHE_SIZE = 128


class GrammarError(ValueError):
    """A schema that can't be turned into a grammar; says which keyword."""


@dataclass(frozen=True)
class ToolChoice:
    """What the request wants of its tools.

    Attributes:
        text: a reply without a call is allowed.
        names: tools that may be called, empty for all.
        parallel: more than one call is allowed.
    """

    text: bool = True
    names: tuple[str, ...] = ()
    parallel: bool = True


def text_grammar() -> str:
    """A reply without a tool call."""
    return f"start: TEXT\n{_TEXT}\n"


def json_grammar(schema: dict[str, Any]) -> str:
    """A reply that is one JSON document valid under the schema."""
    return f"start: %json {_styled(schema)}\n"


def tool_grammar(tools: list[dict[str, Any]], choice: ToolChoice) -> str:
    """A reply that is tool calls or, where the choice allows it, text without the marker of a call.

    Args:
        tools: `function` objects: name, and parameters as a JSON schema; arguments beyond its properties are only
            generated where it says so.
        choice: see `ToolChoice`.
    """
    allowed = [tool for tool in tools if not choice.names or tool["name"] in choice.names]
    bodies = "\n    | ".join(_call_body(tool) for tool in allowed)
    calls = 'call ("\\n" call)*' if choice.parallel else "call"
    opening, closing = _literal(TOOL_CALL_OPEN + "\n"), _literal("\n" + TOOL_CALL_CLOSE)
    lines = [
        f"start: TEXT | {calls}" if choice.text else f"start: {calls}",
        f"call: {opening} body {closing}",
        f"body: {bodies}",
    ]
    if choice.text:
        lines.append(_TEXT)
    return "\n".join(lines) + "\n"


class GrammarCompiler:
    """Makes constraints; a grammar seen before costs a copy."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """Build the grammar engine's view of the vocabulary (tens of milliseconds)."""
        self._tokenizer = tokenizer.grammar_tokenizer
        self._vocab_size = vocab_size
        self._end_tokens = tokenizer.eos_token_ids
        self._closer = Closer(self._tokenizer, vocab_size)
        self._matchers: OrderedDict[str, LLMatcher] = OrderedDict()

    def __contains__(self, grammar: str) -> bool:
        """Whether the grammar is compiled already."""
        return grammar in self._matchers

    def constraint(self, grammar: str) -> Constraint:
        """A fresh constraint.

        Raises:
            GrammarError: the grammar engine refuses it: an unsupported keyword, or an unsatisfiable schema.
        """
        matcher = self._matchers.get(grammar)
        if matcher is None:
            matcher = LLMatcher(self._tokenizer, grammar)
            if matcher.is_error():
                raise GrammarError(matcher.get_error().strip().splitlines()[0])
            self._matchers[grammar] = matcher
            if len(self._matchers) > _CACHE_SIZE:
                self._matchers.popitem(last=False)
        self._matchers.move_to_end(grammar)
        return Constraint(matcher.deep_copy(), self._vocab_size, self._closer, self._end_tokens)


def _call_body(tool: dict[str, Any]) -> str:
    name = json.dumps(tool["name"], ensure_ascii=False)
    head = _literal(f'{{"name": {name}, "arguments": ')
    parameters = {"type": "object", "properties": {}, "additionalProperties": False, **(tool.get("parameters") or {})}
    return f"{head} %json {_styled(parameters)} {_literal('}')}"


def _styled(schema: dict[str, Any]) -> str:
    return json.dumps({**schema, "x-guidance": _JSON_STYLE}, ensure_ascii=False)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
