import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.stt.repeats import collapse_loops, drop_prefix_repeat


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Can I book a table? Can I book a table?", "Can I book a table?"),
        ("Can I book a table for two? Can I book a", "Can I book a table for two?"),
        ("My name is Smith. My name is Smith. My name is Smith.", "My name is Smith."),
        ("what time do you close what time do you close", "what time do you close"),
    ],
)
def test_a_text_that_starts_over_is_cut(text: str, kept: str) -> None:
    assert drop_prefix_repeat(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "Yes please, yes please",
        "No, no.",
        "No, no, no, that is not what I said.",
        "I said two, not three. I said two.",
        "The table is for me. The name is Smith.",
        "Bye bye",
        "Four people at four.",
        "",
    ],
)
def test_what_people_say_is_left_alone(text: str) -> None:
    assert drop_prefix_repeat(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I'm going to " * 6, "I'm going to"),
        ("I would like to I would like to I would like to I would like to I would", "I would like to"),
        ("Okay. " * 9, "Okay."),
        ("Well, the the the the the the the table", "Well, the table"),
        ("I want a table, a table, a table, a table, for two", "I want a table, for two"),
    ],
)
def test_loops_are_collapsed(text: str, kept: str) -> None:
    assert collapse_loops(text) == kept


@pytest.mark.parametrize(
    "text", ["no no no", "No, no, no!", "bye bye bye", "very very very good", "yes yes yes yes yes"]
)
def test_real_repetition_is_kept(text: str) -> None:
    assert collapse_loops(text) == text


@given(st.lists(st.sampled_from(["no", "a", "table", "for", "two."]), max_size=25))
def test_collapsing_only_removes_words_and_is_done_in_one_go(words: list[str]) -> None:
    once = collapse_loops(" ".join(words))
    rest = iter(words)
    assert all(word in rest for word in once.split())  # a subsequence
    assert drop_prefix_repeat(once) == " ".join(once.split()[: len(drop_prefix_repeat(once).split())])
