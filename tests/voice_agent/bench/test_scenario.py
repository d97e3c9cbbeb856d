from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.bench.scenario import (
    SCENARIOS,
    WEEKDAYS,
    Booking,
    Call,
    Dialogue,
    Scenario,
    ScenarioError,
    fragments,
    load_scenario,
    utterances,
)

AGAIN = "say that again"


def booking_call() -> Call:
    return Call.model_validate(
        {
            "caller": "Ann",
            "voice": "slt",
            "parts": [
                {
                    "about": "a table",
                    "turns": [
                        {"say": "A table, please."},
                        {"say": "Yes.", "when": ["shall i", "seven"]},
                        {"say": "No, at seven.", "when": "shall i"},
                        {"say": "At seven.", "when": "time"},
                        {"say": "Ann.", "when": "name"},
                    ],
                    "otherwise": "A table at seven.",
                    "done": "booked",
                },
                {"about": "goodbye", "turns": [{"say": "Goodbye."}]},
            ],
        }
    )


def played(*agent_said: str | None) -> list[str | None]:
    dialogue = Dialogue(booking_call(), AGAIN)
    return [dialogue.next_line(words) for words in agent_said]


def test_the_caller_answers_what_is_asked_in_any_order():
    opening, name, time, yes, bye, hang_up = played(
        "Hello!", "What name is it?", "What time?", "At seven for Ann: shall I?", "It is booked.", "Bye."
    )
    assert (opening, name, time, yes) == ("A table, please.", "Ann.", "At seven.", "Yes.")
    assert (bye, hang_up) == ("Goodbye.", None)


def test_the_first_words_are_said_even_when_the_greeting_asks_something():
    assert played("Hello, your name please?") == ["A table, please."]


def test_earlier_turns_win_and_every_pattern_must_match():
    assert played("Hello", "At eight for Ann, shall I?")[1] == "No, at seven."


def test_a_caller_who_was_not_understood_repeats_but_not_for_ever():
    said = played("Hello", "Sorry, say that again?", None, "say that again", "What time?")
    assert said == ["A table, please.", "A table, please.", "A table, please.", "A table at seven.", "At seven."]


def test_an_unexpected_question_gets_the_fallback_then_the_part_is_given_up():
    dialogue = Dialogue(booking_call(), AGAIN)
    said = [dialogue.next_line(words) for words in ["Hello", "Colour?", "Colour?", "Colour?"]]
    assert said == ["A table, please.", "A table at seven.", "A table at seven.", "Goodbye."]
    assert dialogue.unfinished == ["a table"]


def test_a_caller_who_said_goodbye_hangs_up_on_silence():
    assert played("Hello", "It is booked.", None) == ["A table, please.", "Goodbye.", None]


@given(st.lists(st.sampled_from([None, "shall I?", "what time?", "name?", "booked", "colour?", AGAIN]), max_size=60))
def test_every_call_ends_whatever_the_agent_says(agent_said):
    dialogue = Dialogue(booking_call(), AGAIN)
    said = [dialogue.next_line(words) for words in [*agent_said, *["say that again"] * 40]]
    assert said[-1] is None
    assert set(said) - {None} <= set(utterances(booking_call()))


@given(st.dates(min_value=date(2020, 1, 1), max_value=date(2040, 1, 1)), st.sampled_from(WEEKDAYS))
def test_a_weekday_is_the_next_one_of_that_name_and_never_today(today, weekday):
    day = Booking(name="Ann", date=weekday, time="19:00", party=2).on(today)
    assert WEEKDAYS[day.weekday()] == weekday
    assert timedelta(days=1) <= day - today <= timedelta(days=7)


def test_tomorrow():
    booking = Booking(name="Ann", date="tomorrow", time="19:00", party=2)
    assert booking.on(date(2026, 12, 31)) == date(2027, 1, 1)


def test_fragments_carry_the_pause_after_them():
    assert fragments("A table, [0.6] for four.") == [("A table,", 0.6), ("for four.", 0.0)]


def test_a_wrong_file_names_the_file_and_the_field(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\nagain: '('\ncalls: []\nbookings: []\n")
    with pytest.raises(ScenarioError, match=r"(?s)wrong\.yaml.*again.*not a regular expression"):
        load_scenario(path)
    with pytest.raises(ScenarioError, match="No such file"):
        load_scenario(tmp_path / "none.yaml")


@pytest.fixture(scope="module")
def two_bookings() -> Scenario:
    return load_scenario(SCENARIOS / "two_bookings.yaml")


def test_the_demo_has_ten_turns_and_pauses_to_be_tempted_by(two_bookings):
    expected = 0
    for call in two_bookings.calls:
        dialogue = Dialogue(call, two_bookings.again)
        agent = [
            "Hello, how can I help?",
            "What day?",
            "What time?",
            "What name is it?",
            "Shall I book that?",
            "It is booked.",
        ]
        if "parking" in call.parts[0].turns[0].say:
            agent.insert(1, "Yes, there is a car park.")
        lines = [dialogue.next_line(words) for words in [*agent, "Anything else?", "Bye.", "Bye."]]
        assert lines[-1] is None
        assert dialogue.unfinished == []
        expected += len([line for line in lines if line])
    assert expected >= 10
    pauses = [
        pause for call in two_bookings.calls for said in utterances(call) for _, pause in fragments(said) if pause
    ]
    assert len(pauses) >= 3
    assert all(0.4 <= pause <= 0.8 for pause in pauses)
