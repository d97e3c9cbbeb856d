"""A reply that only repeats itself is ended, with a cause of its own; one that goes on is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.chat.tokenizer import Tokenizer
from diffusion_engine.decoding import DecodingParameters, Strategy
from diffusion_engine.runtime import EndCause, GenerationRequest
from diffusion_engine.runtime.repetition import LONGEST_PERIOD, RepetitionWatch
from diffusion_engine.runtime.reply import Reply


@given(
    before=st.lists(st.integers(0, 5), max_size=20),
    stretch=st.lists(st.integers(0, 5), min_size=1, max_size=LONGEST_PERIOD),
    limit=st.integers(8, 40),
)
def test_it_is_noticed_when_a_short_stretch_repeats_for_the_limit(
    before: list[int], stretch: list[int], limit: int
) -> None:
    watch = RepetitionWatch(limit)
    text = before + stretch * (limit // len(stretch) + 2)
    noticed = next(at for at, token in enumerate(text, start=1) if watch.exceeded_by(token))
    # Not before there were that many tokens that repeat, and at once when there are.
    assert limit < noticed <= len(before) + len(stretch) + limit


@given(st.integers(LONGEST_PERIOD + 1, 12), st.integers(2, 10))
def test_longer_stretches_and_rows_below_the_limit_are_none_of_its_business(length: int, times: int) -> None:
    watch = RepetitionWatch(20)
    assert not any(watch.exceeded_by(token) for token in list(range(length)) * times)
    assert not any(RepetitionWatch(20).exceeded_by(token) for token in [7] * 20)


def test_endless_line_breaks_end_the_reply(byte_tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = byte_tokenizers["sdar"]
    parameters = DecodingParameters(strategy=Strategy.DYNAMIC, block_length=4)
    request = GenerationRequest(id="r", prompt=[1], parameters=parameters, max_tokens=1000, repetition_limit=32)
    reply = Reply(request, tokenizer, 512)
    text = reply.add(tokenizer.encode("The end." + "\n" * 100))
    assert (text, reply.end) == ("The end." + "\n" * 33, EndCause.REPETITION)
    assert reply.tokens == len(text)
