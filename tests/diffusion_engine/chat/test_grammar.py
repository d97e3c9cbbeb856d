"""Replies held to a grammar are valid, whatever the weights."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.chat.grammar import (
    GrammarCompiler,
    GrammarError,
    ToolChoice,
    json_grammar,
    text_grammar,
    tool_grammar,
)
from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.chat.tool_calls import ArgumentsDelta, CallStarted, ContentDelta, ToolCallParser
from diffusion_engine.runtime import EndCause, Limits, Scheduler, TorchRunner
from tests.diffusion_engine.conftest import FAMILIES, Loaded, Result, run_one

TOOLS = [
    {
        "name": "book_table",
        "parameters": {
            "type": "object",
            "properties": {
                "party": {"type": "integer", "enum": [2, 4]},
                "date": {"type": "string", "enum": ["2026-12-01", "2026-12-02"]},
                "time": {"enum": ["19:30", "07:30"]},
                "name": {"type": "string", "enum": ["smith", 'o"neil', "müller"]},
            },
            "required": ["party", "date", "time", "name"],
        },
    },
    {"name": "confirm"},
    {
        "name": "note",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 6}, "urgent": {"type": "boolean"}},
            "required": ["urgent"],
        },
    },
]
SCHEMAS = {tool["name"]: tool.get("parameters", {"maxProperties": 0}) for tool in TOOLS}


def held(
    model: Loaded,
    tokenizer: Tokenizer,
    grammars: GrammarCompiler,
    grammar: str,
    max_tokens: int = 400,
    **request: object,
) -> Result:
    scheduler = Scheduler(TorchRunner(model.model, 64), 64, tokenizer, Limits())
    prompt = tokenizer.encode(f"a table please {request.get('seed')}")
    return run_one(
        scheduler,
        model.request(prompt, max_tokens=max_tokens, constraint=grammars.constraint(grammar), **request),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 10_000), temperature=st.sampled_from([0.0, 1.0, 2.0]), data=st.data())
@settings(deadline=None, max_examples=25)
def test_required_tool_calls_are_always_valid(
    loaded: dict[str, Loaded],
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    family: str,
    seed: int,
    temperature: float,
    data: st.DataObject,
) -> None:
    model = loaded[family]
    result = held(
        model,
        byte_tokenizers[family],
        grammars[family],
        tool_grammar(TOOLS, ToolChoice(text=False, parallel=False)),
        strategy=data.draw(st.sampled_from(model.strategies)),
        block_length=data.draw(st.sampled_from([1, 4, 8])),
        temperature=temperature,
        seed=seed,
    )
    assert result.end.cause in (EndCause.COMPLETE, EndCause.STOP)
    first, *rest = ToolCallParser().feed(result.text)
    assert isinstance(first, CallStarted)
    written = "".join(delta.text for delta in rest if isinstance(delta, ArgumentsDelta))
    jsonschema.validate(json.loads(written), SCHEMAS[first.name])


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=10)
def test_a_named_tool_is_the_one_called(
    loaded: dict[str, Loaded],
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    family: str,
    seed: int,
) -> None:
    grammar = tool_grammar(TOOLS, ToolChoice(text=False, names=("confirm",), parallel=False))
    result = held(loaded[family], byte_tokenizers[family], grammars[family], grammar, seed=seed, temperature=1.0)
    assert result.text == '<tool_call>\n{"name": "confirm", "arguments": {}}\n</tool_call>'
    assert result.end.statistics.forwards <= 1  # all of it is forced


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 10_000), temperature=st.sampled_from([0.0, 1.5]))
@settings(deadline=None, max_examples=15)
def test_json_replies_satisfy_their_schema(
    loaded: dict[str, Loaded],
    byte_tokenizers: dict[str, Tokenizer],
    grammars: dict[str, GrammarCompiler],
    family: str,
    seed: int,
    temperature: float,
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b", None]},
            "numbers": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
            "inner": {"type": "object", "properties": {"x": {"type": "boolean"}}, "additionalProperties": False},
        },
        "required": ["kind", "inner"],
        "additionalProperties": False,
    }
    result = held(
        loaded[family], byte_tokenizers[family], grammars[family], json_grammar(schema), seed=seed,
        temperature=temperature,
    )  # fmt: skip
    assert result.end.cause in (EndCause.COMPLETE, EndCause.STOP)
    jsonschema.validate(json.loads(result.text), schema)


def test_free_text_goes_through_and_never_holds_a_marker(
    byte_tokenizers: dict[str, Tokenizer], grammars: dict[str, GrammarCompiler]
) -> None:
    text = byte_tokenizers["sdar"].encode("at 7 < 8, <tool_box> and <tool_call")
    for grammar in (text_grammar(), tool_grammar(TOOLS, ToolChoice())):
        constraint = grammars["sdar"].constraint(grammar)
        assert constraint.begin() == []
        assert constraint.fitting(text) == len(text)
        for token in text:
            constraint.take(token)
    # Without tools the marker can't be finished; with tools it opens a call behind the text.
    alone = grammars["sdar"].constraint(text_grammar())
    marked = [*text, *byte_tokenizers["sdar"].encode(">")]
    assert alone.fitting(marked) == len(text)
    assert grammars["sdar"].constraint(tool_grammar(TOOLS, ToolChoice())).fitting(marked) == len(marked)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("Done. ", True),
        ("{call}", True),
        ("Let me see. {call}", True),
        ("Let me see.\n{call}\n{call}", True),
        ("{call} and more", False),
        ("<tool_call>\nno", False),
    ],
)
def test_automatic_choice_is_text_calls_or_text_and_then_calls(
    byte_tokenizers: dict[str, Tokenizer], grammars: dict[str, GrammarCompiler], text: str, fits: bool
) -> None:
    call = '<tool_call>\n{"name": "confirm", "arguments": {}}\n</tool_call>'
    tokens = byte_tokenizers["sdar"].encode(text.replace("{call}", call))
    constraint = grammars["sdar"].constraint(tool_grammar(TOOLS, ToolChoice()))
    assert (constraint.fitting(tokens) == len(tokens)) == fits


def test_with_a_response_format_the_reply_is_calls_or_the_document(
    byte_tokenizers: dict[str, Tokenizer], grammars: dict[str, GrammarCompiler]
) -> None:
    grammar = tool_grammar(TOOLS, ToolChoice(), {"type": "object", "additionalProperties": False})
    call = '<tool_call>\n{"name": "confirm", "arguments": {}}\n</tool_call>'
    for text, fits in (("{}", True), (call, True), ("text", False), ("{}" + call, False)):
        tokens = byte_tokenizers["sdar"].encode(text)
        assert (grammars["sdar"].constraint(grammar).fitting(tokens) == len(tokens)) == fits


def test_automatic_choice_opens_a_call_or_text(
    byte_tokenizers: dict[str, Tokenizer], grammars: dict[str, GrammarCompiler]
) -> None:
    constraint = grammars["sdar"].constraint(tool_grammar(TOOLS, ToolChoice(parallel=True)))
    call = byte_tokenizers["sdar"].encode('<tool_call>\n{"name": "confirm", "arguments": {}}\n</tool_call>')
    both = call + byte_tokenizers["sdar"].encode("\n") + call
    assert constraint.fitting(both) == len(both)
    alone = grammars["sdar"].constraint(tool_grammar(TOOLS, ToolChoice(parallel=False)))
    assert alone.fitting(both) == len(call)


def test_with_a_grammar_every_reading_of_the_causal_text_is_the_same(
    loaded: dict[str, Loaded], byte_tokenizers: dict[str, Tokenizer], grammars: dict[str, GrammarCompiler]
) -> None:
    model, family = loaded["llama_draft"], "llama_draft"
    for seed in range(20):
        texts = {
            held(
                model,
                byte_tokenizers[family],
                grammars[family],
                tool_grammar(TOOLS, ToolChoice(text=seed % 2 == 0)),
                max_tokens=50,
                strategy=strategy,
                temperature=seed % 3 / 2,
                seed=seed,
            ).text
            for strategy in model.strategies
        }
        assert len(texts) == 1


def test_a_schema_that_cannot_be_enforced_names_its_keyword(grammars: dict[str, GrammarCompiler]) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "contains": {"const": "x"}}
    with pytest.raises(GrammarError, match=r"contains|uniqueItems"):
        grammars["sdar"].constraint(json_grammar(schema))


def test_a_grammar_seen_before_is_compiled_once(grammars: dict[str, GrammarCompiler]) -> None:
    grammar = tool_grammar([{"name": "only_here"}], ToolChoice())
    assert grammar not in grammars["sdar"]
    first = grammars["sdar"].constraint(grammar)
    assert grammar in grammars["sdar"]
    first.take(60)
    assert grammars["sdar"].constraint(grammar).fitting([60]) == 1  # a state of its own


def test_no_content_is_a_delta_of_a_call() -> None:
    deltas = ToolCallParser().feed('<tool_call>\n{"name": "confirm", "arguments": {}}\n</tool_call>')
    assert not [delta for delta in deltas if isinstance(delta, ContentDelta)]
