"""Grammars for tool calls and JSON replies, in llguidance's Lark dialect.

Tool calls have the Hermes form, which Qwen and many others are trained on:
`<tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>`, JSON with ", " and ": " as `json.dumps` writes it and
properties in the order of the schema. The more the grammar fixes, the more tokens follow without a pass of their own.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher

from diffusion_engine.chat.examples import EXAMPLES_OF_FORMATS, example_of
from diffusion_engine.chat.schemas import Schema, SchemaError, blamed, enforceable
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding.closing import Closer, Hints
from diffusion_engine.decoding.constraint import Constraint, Grammar

TOOL_CALL_OPEN = "<tool_call>"
TOOL_CALL_CLOSE = "</tool_call>"

_JSON_STYLE = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
_TEXT = f"TEXT: /(.|\\n)+/ & ~/(.|\\n)*{TOOL_CALL_OPEN}(.|\\n)*/"
_TEXT_AND_MARKER = (
    f"marker: MARKER\nMARKER: /(.|\\n)*{TOOL_CALL_OPEN}\\n/ & ~/(.|\\n)*{TOOL_CALL_OPEN}(.|\\n)(.|\\n)+/\n"
)
"""Text up to the first opening: once that has begun, nothing but the call may follow."""
_COMPLAINT = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
_PATTERN = re.compile(r'"pattern": ("(?:[^"\\]|\\.)*")')
_FORMAT = re.compile(r'"format": "([a-z0-9-]+)"')
_REQUIRED = re.compile(r'"required": (\[(?:"(?:[^"\\]|\\.)*"(?:, )?)*\])')
_CACHE_SIZE = 128


class GrammarError(ValueError):
    """A schema that can't be turned into a grammar; says which keyword, and where."""


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


def json_grammar(schema: Schema) -> str:
    """A reply that is one JSON document valid under the schema.

    Raises:
        GrammarError: a keyword can't be enforced.
    """
    return f"start: {_json(schema)}\n"


def tool_grammar(tools: list[dict[str, Any]], choice: ToolChoice, document: Schema | None = None) -> str:
    """A reply that is tool calls or, where the choice allows it, text, also with calls behind it.

    Args:
        tools: `function` objects: name, and parameters as a JSON schema; arguments beyond its properties are only
            generated where it says so.
        choice: see `ToolChoice`.
        document: of a reply without calls, where that is not text; no text stands before calls then.

    Raises:
        GrammarError: a keyword can't be enforced.
    """
    allowed = [tool for tool in tools if not choice.names or tool["name"] in choice.names]
    bodies = "\n    | ".join(_call_body(tool) for tool in allowed)
    prose = choice.text and document is None
    calls = f"{'marker' if prose else 'opening'} body closing"
    if choice.parallel:
        calls += ' ("\\n" opening body closing)*'
    instead = "TEXT | " if prose else "document | " if choice.text else ""
    lines = [
        f"start: {instead}{calls}",
        f"opening: {_literal(TOOL_CALL_OPEN + chr(10))}",
        f"closing: {_literal(chr(10) + TOOL_CALL_CLOSE)}",
        f"body: {bodies}",
    ]
    if prose:
        lines += [_TEXT, _TEXT_AND_MARKER]
    elif choice.text and document is not None:
        lines.append(f"document: {_json(document)}")
    return "\n".join(lines) + "\n"


class GrammarCompiler:
    """Makes constraints; a grammar seen before costs a copy. May be used from any thread."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """Build the grammar engine's view of the vocabulary (tens of milliseconds)."""
        self._tokenizer = tokenizer.grammar_tokenizer
        self._vocab_size = vocab_size
        self._end_tokens = tokenizer.eos_token_ids
        self._closer = Closer(self._tokenizer, vocab_size)
        self._lock = threading.Lock()
        self._grammars: OrderedDict[str, Grammar] = OrderedDict()

    def __contains__(self, grammar: str) -> bool:
        """Whether the grammar is compiled already."""
        return grammar in self._grammars

    def constraint(self, grammar: str) -> Constraint:
        """A fresh constraint.

        Raises:
            GrammarError: the grammar engine refuses it: an unsupported keyword, or an unsatisfiable schema.
        """
        with self._lock:
            if grammar not in self._grammars:
                self._grammars[grammar] = self._compile(grammar)
                if len(self._grammars) > _CACHE_SIZE:
                    self._grammars.popitem(last=False)
            self._grammars.move_to_end(grammar)
            return Constraint(self._grammars[grammar])

    def _compile(self, grammar: str) -> Grammar:
        matcher = LLMatcher(self._tokenizer, grammar)
        if (complaint := _complaint(matcher)) is not None:
            raise GrammarError(complaint)
        return Grammar(matcher, self._vocab_size, self._closer, self._end_tokens, self._hints(grammar))

    def _hints(self, grammar: str) -> Hints:
        """Names of required properties, and every end of an example for every pattern and format, in JSON."""
        texts = {example_of(json.loads(pattern)) for pattern in _PATTERN.findall(grammar)}
        texts |= {EXAMPLES_OF_FORMATS.get(name, "") for name in _FORMAT.findall(grammar)}
        ends = {_inner(text[at:]) + '"' for text in texts for at in range(len(text))}
        required = dict.fromkeys(name for names in _REQUIRED.findall(grammar) for name in json.loads(names))
        return Hints(
            names=[self._tokenizer.tokenize_str(_inner(name) + '": ') for name in required],
            strings=sorted((self._tokenizer.tokenize_str(end) for end in ends), key=len),
        )

    def explanation(self, schema: Schema) -> str | None:
        """Why a schema can't be enforced, and where in it; None when it can."""

        def refusal(part: Schema) -> str | None:
            try:
                matcher = LLMatcher(self._tokenizer, json_grammar(part))
            except GrammarError as unsupported:
                return str(unsupported)
            return _complaint(matcher)

        try:
            enforceable(schema)
        except SchemaError as unsupported:
            return str(unsupported)
        complaint = refusal(schema)
        return None if complaint is None else f"at {blamed(schema, refusal) or '/'}: {complaint}"


def _complaint(matcher: LLMatcher) -> str | None:
    """Why a matcher at its grammar's beginning can't be used; None when it can."""
    if matcher.is_error():
        return _COMPLAINT.sub("", matcher.get_error().strip().splitlines()[0])
    first = matcher.deep_copy()
    first.compute_bitmask()
    return "nothing is valid under it: a $ref that leads only to itself?" if first.is_error() else None


def _call_body(tool: dict[str, Any]) -> str:
    name = json.dumps(tool["name"], ensure_ascii=False)
    head = _literal(f'{{"name": {name}, "arguments": ')
    parameters = {"type": "object", "properties": {}, "additionalProperties": False, **(tool.get("parameters") or {})}
    return f"{head} {_json(parameters)} {_literal('}')}"


def _json(schema: Schema) -> str:
    try:
        exact = enforceable(schema)
    except SchemaError as unsupported:
        raise GrammarError(str(unsupported)) from unsupported
    return f"%json {json.dumps({**exact, 'x-guidance': _JSON_STYLE}, ensure_ascii=False)}"


def _inner(text: str) -> str:
    """A JSON string without its quotation marks."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
