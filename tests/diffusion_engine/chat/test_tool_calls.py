"""Tool calls recognised while the reply grows."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.chat.grammar import TOOL_CALL_OPEN
from diffusion_engine.chat.tool_calls import ArgumentsDelta, CallStarted, ContentDelta, Delta, ToolCallParser

arguments = st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.lists(st.integers(), max_size=3), max_size=3)
calls = st.lists(st.tuples(st.sampled_from(["book", "cancel"]), arguments), max_size=3)
chatter = st.text(alphabet="<tool_cal> xé\n", max_size=20).filter(lambda text: TOOL_CALL_OPEN not in text)


def parse(reply: str, cuts: list[int]) -> list[Delta]:
    parser, deltas = ToolCallParser(), []
    for cut in cuts:
        deltas += parser.feed(reply[:cut])
        reply = reply[cut:]
    return deltas + parser.feed(reply) + parser.finish()


def hermes(name: str, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


@given(calls, st.lists(st.integers(1, 9), max_size=60))
def test_calls_come_out_whole_wherever_the_stream_is_cut(
    made: list[tuple[str, dict[str, object]]], cuts: list[int]
) -> None:
    deltas = parse("\n".join(hermes(*call) for call in made), cuts)
    found: list[list[str]] = []
    for delta in deltas:
        if isinstance(delta, CallStarted):
            assert delta.index == len(found)
            found.append([delta.name, ""])
        else:
            assert isinstance(delta, ArgumentsDelta), delta
            found[delta.index][1] += delta.text
    assert [(name, json.loads(text)) for name, text in found] == made


@given(chatter, st.lists(st.integers(1, 9), max_size=30))
def test_text_comes_out_as_it_is(text: str, cuts: list[int]) -> None:
    deltas = parse(text, cuts)
    assert "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta)) == text


@given(chatter, st.lists(st.integers(1, 9), max_size=30))
def test_a_content_delta_never_ends_in_half_a_marker_that_follows(text: str, cuts: list[int]) -> None:
    reply = text + hermes("book", {"a": 1})
    said = "".join(delta.text for delta in parse(reply, cuts) if isinstance(delta, ContentDelta))
    assert said == reply[: reply.index(TOOL_CALL_OPEN)]


def test_a_call_that_was_cut_off_is_no_text() -> None:
    deltas = parse('<tool_call>\n{"name": "book", "arguments": {"a', [])
    assert deltas == [CallStarted(0, "book"), ArgumentsDelta(0, '{"a')]
    assert parse('<tool_call>\n{"na', []) == []
