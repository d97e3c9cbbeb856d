import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.agents.front_desk.grounding import normalise


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("Yes, at 7:30 p.m., please.", "yes at seven thirty pm please"),
        ("7.30pm", "seven thirty pm"),
        ("It's 7 P.M.", "it's seven pm"),
        ("19:05", "nineteen oh five"),
        ("8:00", "eight o'clock"),
        ("at 730", "at seven thirty"),
        ("4271", "four two seven one"),
        ("4-2-7-1.", "four two seven one"),
        ("4 2 7 1", "four two seven one"),
        ("4,271", "four two seven one"),
        ("42 71", "forty two seventy one"),
        ("the 4th of December", "the fourth of december"),
        ("December 21st, 2026", "december twenty first"),
        ("12/4", "december fourth"),
        ("2026-12-04", "december fourth"),
        ("Smith, S-M-I-T-H.", "smith s m i t h"),
        ("Twenty-first", "twenty first"),
        ("I\u2019d like", "i'd like"),
        ("José Muñoz", "jose munoz"),
        ("me & my wife", "me and my wife"),
        ("Grah\u0061m, g r a h a m", "graham g r a h a m"),
        ("OK, umm", "okay um"),
        ("...", ""),
    ],
)
def test_what_recognisers_write_becomes_one_form(written: str, words: str):
    assert normalise(written) == words


@given(st.text(max_size=60))
def test_any_text_becomes_plain_words_and_stays_as_it_is_then(text: str):
    once = normalise(text)
    assert all(c.isalpha() or c in " '" for c in once)
    assert once.isascii()
    assert once == once.lower().strip()
    assert normalise(once) == once
