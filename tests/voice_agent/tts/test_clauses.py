import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.tts.clauses import ClauseOptions, ClauseSplitter, boundaries

SENTENCES = [
    ("Dr. Smith lives on St. James St. It is near.", ["Dr. Smith lives on St. James St. ", "It is near."]),
    ("Mr. and Mrs. Brown are here. Welcome!", ["Mr. and Mrs. Brown are here. ", "Welcome!"]),
    ("It costs $4. Is that fine?", ["It costs $4. ", "Is that fine?"]),
    ("At 7.30 or 8.00. Which one?", ["At 7.30 or 8.00. ", "Which one?"]),
    ("We open at 9 a.m. and close at 5 p.m. Come by!", ["We open at 9 a.m. and close at 5 p.m. ", "Come by!"]),
    ("On Dec. 3 we are closed. Sorry.", ["On Dec. 3 we are closed. ", "Sorry."]),
    ("Ask J. Smith. He knows.", ["Ask J. Smith. ", "He knows."]),
    ("Really? Yes! Good.", ["Really? ", "Yes! ", "Good."]),
    ("1. Soup\n2. Salad", ["1. Soup\n", "2. Salad"]),
    ("Soup, e.g. tomato. Or salad.", ["Soup, e.g. tomato. ", "Or salad."]),
    ('He said "no." Then he left.', ['He said "no." ', "Then he left."]),
    ("Version 2.0 is out. Try it.", ["Version 2.0 is out. ", "Try it."]),
    ("Wait... what is it?", ["Wait... what is it?"]),
    ("Visit example.com. It has the menu.", ["Visit example.com. ", "It has the menu."]),
    ("Code: ```a. B. c``` Done. Yes.", ["Code: ```a. B. c``` Done. ", "Yes."]),
    ("See [our menu. Yes](x.com) now. Good.", ["See [our menu. Yes](x.com) now. ", "Good."]),
    ("Ask for No. 7. It is good.", ["Ask for No. 7. ", "It is good."]),
    ("No. We are closed.", ["No. ", "We are closed."]),
    ("They sat. In the sun. Then left.", ["They sat. ", "In the sun. ", "Then left."]),
    ("Call me at 5. I'll be in.", ["Call me at 5. ", "I'll be in."]),
]


@pytest.mark.parametrize(("text", "sentences"), SENTENCES)
def test_sentences(text: str, sentences: list[str]) -> None:
    cuts = [0, *(boundary.at for boundary in boundaries(text) if boundary.sentence), len(text)]
    assert [text[a:b] for a, b in itertools.pairwise(cuts)] == sentences


def test_a_comma_inside_a_date_is_no_boundary() -> None:
    assert list(boundaries("on March 3, 2026 at noon")) == []


def stream(text: str, size: int, *, urgent: bool = True, options: ClauseOptions | None = None) -> list[str]:
    splitter = ClauseSplitter(options)
    pieces = []
    for start in range(0, len(text), size):
        splitter.push(text[start : start + size])
        while (piece := splitter.take(urgent=urgent)) is not None:
            pieces.append(piece)
    splitter.end()
    while not splitter.finished:
        piece = splitter.take(urgent=urgent)
        assert piece
        pieces.append(piece)
    return pieces


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_amounts_and_titles_survive_any_stream_border(size: int) -> None:
    pieces = stream("That is $49.95 for Dr. Smith at 7.30, please. See you!", size)
    assert pieces == ["That is $49.95 for Dr. Smith at 7.30, ", "please. ", "See you!"]


def test_amount_split_between_two_tokens_is_not_cut() -> None:
    splitter = ClauseSplitter()
    for token in ["It is ", "$4", "9.95", " today"]:
        splitter.push(token)
        assert splitter.take(urgent=True) is None
    splitter.end()
    assert splitter.take(urgent=True) == "It is $49.95 today"


def test_first_clause_may_be_short_but_not_a_word() -> None:
    assert stream("Yes, of course, we have a table.", 1)[0] == "Yes, of course, "


def test_short_first_sentence_is_taken_at_once() -> None:
    assert stream("Sure. I have a table for you.", 1)[0] == "Sure. "


def test_without_urgency_only_sentences_are_handed_out() -> None:
    splitter = ClauseSplitter()
    splitter.push("We have a table for four people, by the window, and it is ")
    assert splitter.take(urgent=False) is None
    splitter.push("free. Shall ")
    assert splitter.take(urgent=False) == "We have a table for four people, by the window, and it is free. "


def test_a_whole_short_reply_is_one_piece() -> None:
    splitter = ClauseSplitter()
    splitter.push("Sure, a table for four. What name, please?")
    splitter.end()
    assert splitter.take(urgent=True) == "Sure, a table for four. What name, please?"
    assert splitter.finished


def test_the_first_piece_of_a_long_whole_reply_ends_with_a_sentence() -> None:
    text = "Sure, a table for four. " + "We have one by the window, which is quiet, and one at the bar. " * 2
    splitter = ClauseSplitter()
    splitter.push(text)
    splitter.end()
    assert splitter.take(urgent=True) == "Sure, a table for four. "
    assert splitter.take(urgent=False) == text[24:]


def test_a_long_first_sentence_is_not_held_back() -> None:
    splitter = ClauseSplitter()
    sentence = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen. "
    splitter.push(sentence + "Now")
    assert splitter.take(urgent=True) == sentence


def test_text_without_marks_is_cut_before_a_preposition() -> None:
    pieces = stream("we are open every day of the week from eleven in the morning until ten at night on all days", 1)
    assert len(pieces) > 1
    assert pieces[1].split()[0] in {"from", "in", "until", "at", "on"}


@given(st.text(alphabet="ab1 .,!?$\n:;-`[(", max_size=400), st.integers(1, 9), st.booleans())
def test_pieces_joined_are_the_text_and_none_is_too_long(text: str, size: int, urgent: bool) -> None:
    options = ClauseOptions(longest=120)
    pieces = stream(text, size, urgent=urgent, options=options)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= options.longest for piece in pieces)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="first_min"):
        ClauseOptions(first_min=50, later_min=40)
