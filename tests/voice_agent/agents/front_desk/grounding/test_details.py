import datetime as dt
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_agent.agents.front_desk import speech
from voice_agent.agents.front_desk.grounding import mentions, normalise
from voice_agent.agents.front_desk.grounding.details import Expected, Slot
from voice_agent.agents.front_desk.simulation import renderings

from ..places import LUNA, MONDAY, TUESDAY

DATES = st.dates(dt.date(2025, 1, 1), dt.date(2030, 12, 31))
OPEN_QUARTERS = st.sampled_from([m for m in range(12 * 60, 22 * 60, 15)])


def heard(
    text: str, expects: Expected = "", today: dt.date = MONDAY, date: dt.date | None = None
) -> dict[Slot, object]:
    """The last value of each detail that wasn't rejected."""
    found = mentions(normalise(text), today, LUNA, expects=expects)
    return {m.slot: m.value for m in found if not m.rejected}


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("tonight", MONDAY),
        ("tomorrow evening", TUESDAY),
        ("the day after tomorrow", dt.date(2026, 12, 2)),
        ("on Friday", dt.date(2026, 12, 4)),
        ("this Friday", dt.date(2026, 12, 4)),
        ("next Friday", dt.date(2026, 12, 11)),
        ("Friday next week", dt.date(2026, 12, 11)),
        ("a week from Friday", dt.date(2026, 12, 11)),
        ("in two weeks", dt.date(2026, 12, 14)),
        ("the fourth of December", dt.date(2026, 12, 4)),
        ("December 4th", dt.date(2026, 12, 4)),
        ("December 4", dt.date(2026, 12, 4)),
        ("Friday the 4th", dt.date(2026, 12, 4)),
        ("on the 4th", dt.date(2026, 12, 4)),
        ("January the 2nd", dt.date(2027, 1, 2)),
        ("New Year's Eve", dt.date(2026, 12, 31)),
        ("on the 29th of November", dt.date(2026, 11, 29)),
    ],
)
def test_dates(text: str, date: dt.date):
    assert heard(f"a table {text} please") == {"date": date}


@pytest.mark.parametrize(
    ("text", "minute"),
    [
        ("at half past seven", 19 * 60 + 30),
        ("at half seven", 19 * 60 + 30),
        ("at 7:30", 19 * 60 + 30),
        ("at seven thirty pm", 19 * 60 + 30),
        ("at quarter to eight", 19 * 60 + 45),
        ("at a quarter past six", 18 * 60 + 15),
        ("at ten to eight", 19 * 60 + 50),
        ("around eight", 20 * 60),
        ("at eight in the evening", 20 * 60),
        ("at noon", 12 * 60),
        ("at one", 13 * 60),
        ("at 19:30", 19 * 60 + 30),
        ("at nineteen o'clock", 19 * 60),
        ("at seven-ish", 19 * 60),
    ],
)
def test_times(text: str, minute: int):
    assert heard(f"a table {text} please") == {"time": minute}


@pytest.mark.parametrize(
    ("text", "party"),
    [
        ("for four", 4),
        ("for 4 people", 4),
        ("there are four of us", 4),
        ("for me and my wife", 2),
        ("for two adults and two kids", 4),
        ("for just the two of us", 2),
        ("party of twelve", 12),
        ("just me", 1),
        ("we're six", 6),
        ("half a dozen people", 6),
        ("zero people", 0),
        ("for a couple", 2),
        ("twenty five people", 25),
    ],
)
def test_party_sizes(text: str, party: int):
    assert heard(f"hello a table please {text}") == {"party": party}


@pytest.mark.parametrize(
    ("text", "expects", "name"),
    [
        ("My name is John Smith.", "", "john smith"),
        ("It's under Garcia.", "", "garcia"),
        ("Under the name of van Dyke, please", "", "van dyke"),
        ("Hi, this is Anna Kowalski", "", "anna kowalski"),
        ("Smith.", "name", "smith"),
        ("Um, it's Smith, please.", "name", "smith"),
        ("Okay, that would be Emily King", "name", "emily king"),
        ("Smyth, S-M-Y-T-H", "name", "smyth"),
        ("John Smith, that's S M Y T H", "name", "john smyth"),
        ("S M Y T H", "name", "smyth"),
        ("No, it's Smythe", "yesno", "smythe"),
        ("Not Smith, the name is Smythe", "yesno", "smythe"),
    ],
)
def test_names(text: str, expects: Expected, name: str):
    assert heard(text, expects) == {"name": name}


@pytest.mark.parametrize(
    "text",
    ["I'm looking for a table", "Do you have parking?", "One moment please", "It's all right", "let me ask my wife",
     "What's the weather like?", "I'm allergic to nuts", "can you repeat that", "hold on", "no thanks"],
)  # fmt: skip
def test_what_is_no_name_is_not_taken_for_one_even_when_the_name_was_asked_for(text: str):
    assert "name" not in heard(text, "name")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4271", "4271"),
        ("four two seven one", "4271"),
        ("it's four double two one", "4221"),
        ("42 71", "4271"),
        ("8 oh oh 1", "8001"),
        ("four to seven one", "4271"),
        ("the number is 4 2 7 1", "4271"),
    ],
)
def test_booking_numbers(text: str, number: str):
    assert heard(text, "number") == {"number": number}


@pytest.mark.parametrize("text", ["four two seven", "four two seven one nine five", "oh one two three"])
def test_what_is_no_four_digit_number_is_not_taken_for_one(text: str):
    assert "number" not in heard(text, "number")


@pytest.mark.parametrize(
    ("text", "expects", "slot", "value"),
    [
        ("for four, no wait, five", "", "party", 5),
        ("no, make it five", "yesno", "party", 5),
        ("at seven, sorry, at eight", "", "time", 20 * 60),
        ("tomorrow, no, Friday", "", "date", dt.date(2026, 12, 4)),
        ("not tomorrow, Friday", "yesno", "date", dt.date(2026, 12, 4)),
        ("Friday, not tomorrow", "yesno", "date", dt.date(2026, 12, 4)),
        ("on the fourth, no, the fifth", "", "date", dt.date(2026, 12, 5)),
        ("can you move it from seven o'clock to eight o'clock", "", "time", 20 * 60),
        ("at eight o'clock instead of seven o'clock", "", "time", 20 * 60),
    ],
)
def test_corrections_win(text: str, expects: Expected, slot: Slot, value: object):
    assert heard(text, expects)[slot] == value


@pytest.mark.parametrize(
    ("text", "expects", "slots"),
    [
        ("seven", "time", {"time": 19 * 60}),
        ("seven", "party", {"party": 7}),
        ("seven", "", {}),
        ("a table for seven at seven", "", {"party": 7, "time": 19 * 60}),
        ("for two at 7:30 tomorrow under Smith", "", {"party": 2, "time": 1170, "date": TUESDAY, "name": "smith"}),
        ("one second", "party", {}),
        ("just a second", "date", {}),
        ("who won the match yesterday", "", {}),
        ("what's the weather like tomorrow", "time", {}),
        ("one of us is vegan", "", {}),
        ("what's seven times eight", "time", {}),
    ],
)
def test_a_bare_number_is_what_was_asked_for(text: str, expects: Expected, slots: dict[Slot, object]):
    assert heard(text, expects) == slots


@settings(max_examples=300, deadline=None)
@given(DATES, st.integers(0, 85), st.integers(0, 10_000))
def test_every_way_of_saying_a_date_is_understood(today: dt.date, ahead: int, seed: int):
    date = today + dt.timedelta(days=ahead)
    said = renderings.date(date, today, random.Random(seed))
    assert heard(f"a table {said}", today=today) == {"date": date}, said
    assert heard(said, "date", today=today) == {"date": date}, said


@settings(max_examples=300, deadline=None)
@given(DATES, st.integers(0, 85))
def test_a_date_as_the_agent_says_it_and_as_whisper_writes_it_is_understood(today: dt.date, ahead: int):
    date = today + dt.timedelta(days=ahead)
    assert heard(f"a table {speech.day(date, today)}", today=today) == {"date": date}
    for written in (f"{date:%B} {date.day}", f"{date:%A}, {date:%B} {date.day}.", f"{date.month}/{date.day}"):
        assert heard(written, "date", today=today) == {"date": date}, written


@settings(max_examples=300, deadline=None)
@given(OPEN_QUARTERS, st.integers(0, 10_000))
def test_every_way_of_saying_a_time_is_understood(minute: int, seed: int):
    rng = random.Random(seed)
    certain, loose = renderings.time(minute, rng, certain=True), renderings.time(minute, rng, certain=False)
    assert heard(f"a table around {certain}") == {"time": minute}, certain
    assert heard(loose, "time") == {"time": minute}, loose
    assert heard(f"at {loose}") == {"time": minute}, loose
    assert heard(speech.clock(minute), "time") == {"time": minute}
    written = f"{(minute // 60 - 1) % 12 + 1}:{minute % 60:02} pm"
    assert heard(written) == {"time": minute}, written


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10_000))
def test_every_way_of_saying_a_size_is_understood(party: int, seed: int):
    phrase = renderings.party_phrase(party, random.Random(seed))
    assert heard(f"for {speech.cardinal(party)}") == {"party": party}
    assert heard(f"{phrase}", "party") == {"party": party}, phrase


@settings(max_examples=200, deadline=None)
@given(st.integers(1000, 9999), st.integers(0, 10_000))
def test_every_way_of_saying_a_booking_number_is_understood(number: int, seed: int):
    said = renderings.number(str(number), random.Random(seed))
    assert heard(said, "number") == {"number": str(number)}, said
    assert heard(f"it's {number}.", "number") == {"number": str(number)}
    assert heard(f"my booking number is {'-'.join(str(number))}") == {"number": str(number)}


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=80), st.sampled_from(
    ["", "party", "date", "time", "name", "number", "yesno"]))  # fmt: skip
def test_no_words_break_it(text: str, expects: Expected):
    for mention in mentions(normalise(text), MONDAY, LUNA, expects=expects):
        assert mention.start < mention.end
