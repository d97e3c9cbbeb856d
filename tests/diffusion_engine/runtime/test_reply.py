"""Where a reply ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import DecodingParameters, Strategy
from diffusion_engine.runtime import EndCause, GenerationRequest
from diffusion_engine.runtime.reply import Reply
from tests.diffusion_engine.tiny import END


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizers: dict[str, Tokenizer]) -> Tokenizer:
    return byte_tokenizers["llama_draft"]


def reply(tokenizer: Tokenizer, *, stop: tuple[str, ...] = (), max_tokens: int = 1000, context: int = 512) -> Reply:
    parameters = DecodingParameters(strategy=Strategy.HYBRID, block_length=4)
    request = GenerationRequest(id="r", prompt=[1], parameters=parameters, max_tokens=max_tokens, stop=stop)
    return Reply(request, tokenizer, context)


def test_what_follows_the_end_token_is_neither_text_nor_counted(tokenizer: Tokenizer) -> None:
    it = reply(tokenizer)
    assert it.add([*tokenizer.encode("yes"), END, *tokenizer.encode("no")]) == "yes"
    assert (it.end, it.tokens) == (EndCause.STOP, 3)


@given(
    text=st.text(alphabet="abc", max_size=40),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=40),
)
@settings(deadline=None)
def test_text_ends_before_the_first_stop_string_wherever_blocks_are_cut(
    tokenizer: Tokenizer, text: str, stops: list[str], cuts: list[int]
) -> None:
    # The stop that is complete first wins; of those complete at the same character, the one that began first.
    ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    expected = text[: min(ends)[1]] if ends else text
    it, said, tokens = reply(tokenizer, stop=tuple(stops)), "", tokenizer.encode(text)
    for cut in cuts * 40:
        if it.end is not None or not tokens:
            break
        said += it.add(tokens[:cut])
        assert expected.startswith(said)
        tokens = tokens[cut:]
    assert said + (it.flush() if it.end is None else "") == expected
    assert it.end == (EndCause.STOP_STRING if ends else None)


def test_a_character_is_said_whole(tokenizer: Tokenizer) -> None:
    it = reply(tokenizer)
    assert [it.add([token]) for token in tokenizer.encode("né")] == ["n", "", "é"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_any_max_tokens_is_met_inside_a_block(tokenizer: Tokenizer, limit: int) -> None:
    it = reply(tokenizer, max_tokens=limit)
    assert it.add(tokenizer.encode("abcdefgh")) == "abcdefgh"[:limit]
    assert (it.end, it.tokens) == (EndCause.LENGTH, limit)


def test_the_end_of_the_context_is_a_cause_of_its_own(tokenizer: Tokenizer) -> None:
    it = reply(tokenizer, context=4)
    assert it.add(tokenizer.encode("abcdefgh")) == "abc"
    assert it.end == EndCause.CONTEXT
