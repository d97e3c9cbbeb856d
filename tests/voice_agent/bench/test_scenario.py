from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.bench.recordings import load_recording
from voice_agent.bench.scenario import (
    SCENARIOS,
    WEEKDAYS,
    Call,
    Dialogue,
    Scenario,
    ScenarioError,
    fragments,
    load_scenario,
    meant_by,
    spoken,
    utterances,
)

AGAIN = "say that again"


def booking_call() -> Call:
    return Call.model_validate(
        {
            "caller": "Ann",
            "voice": "slt",
            "dates": ["tomorrow", "friday"],
            "booking": {"name": "Ann", "time": "19:00", "party": 2},
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
    dialogue = Dialogue(booking_call(), AGAIN, "tomorrow")
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
    dialogue = Dialogue(booking_call(), AGAIN, "tomorrow")
    said = [dialogue.next_line(words) for words in ["Hello", "Colour?", "Colour?", "Colour?"]]
    assert said == ["A table, please.", "A table at seven.", "A table at seven.", "Goodbye."]
    assert dialogue.unfinished == ["a table"]


def test_a_caller_who_said_goodbye_hangs_up_on_silence():
    assert played("Hello", "It is booked.", None) == ["A table, please.", "Goodbye.", None]


@given(st.lists(st.sampled_from([None, "shall I?", "what time?", "name?", "booked", "colour?", AGAIN]), max_size=60))
def test_every_call_ends_whatever_the_agent_says(agent_said):
    dialogue = Dialogue(booking_call(), AGAIN, "tomorrow")
    said = [dialogue.next_line(words) for words in [*agent_said, *["say that again"] * 40]]
    assert said[-1] is None
    assert set(said) - {None} <= set(utterances(booking_call()))


@given(st.dates(min_value=date(2020, 1, 1), max_value=date(2040, 1, 1)), st.sampled_from(WEEKDAYS))
def test_a_weekday_is_the_next_one_of_that_name_and_never_today(today, weekday):
    day = meant_by(weekday, today)
    assert WEEKDAYS[day.weekday()] == weekday
    assert timedelta(days=1) <= day - today <= timedelta(days=7)


def test_tomorrow():
    assert meant_by("tomorrow", date(2026, 12, 31)) == date(2027, 1, 1)


def test_another_day_is_named_when_the_first_is_closed_or_could_mean_today():
    wednesday, thursday, friday = (date(2026, 12, day) for day in (2, 3, 4))
    call = booking_call()
    assert call.day_named(wednesday, closed=[]) == ("tomorrow", thursday)
    assert call.day_named(wednesday, closed=["thursday"]) == ("friday", friday)
    with pytest.raises(ScenarioError, match="Ann can't book on tomorrow or friday when today is Friday"):
        call.day_named(friday, closed=["saturday"])


def test_the_day_is_put_into_the_words():
    assert spoken("{date}, please.", "tomorrow") == "Tomorrow, please."
    assert spoken("A table {date}.", "friday") == "A table on Friday."


def test_fragments_carry_the_pause_after_them():
    assert fragments("A table, [0.6] for four.") == [("A table,", 0.6), ("for four.", 0.0)]


def test_a_wrong_file_names_the_file_and_the_field(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\nagain: '('\ncalls: []\n")
    with pytest.raises(ScenarioError, match=r"(?s)wrong\.yaml.*again.*not a regular expression"):
        load_scenario(path)
    with pytest.raises(ScenarioError, match="No such file"):
        load_scenario(tmp_path / "none.yaml")


@pytest.fixture(scope="module")
def two_bookings() -> Scenario:
    return load_scenario(SCENARIOS / "two_bookings.yaml")


AGENT = [
    "Hello, this is Luna. How can I help you?",
    "Of course. What day would you like?",
    "What time would you like?",
    "Yes, we have a table for {party} on Friday the fourth of December at {time}. What name shall I put it under?",
    "A table for {party} on Friday the fourth of December at {time}, under {name}. Is that right?",
    "You're booked. Your number is one two three four. Anything else?",
]


def test_the_demo_has_ten_turns_and_pauses_that_tempt(two_bookings):
    said = []
    details = [("four", "half past seven", "Emma Baker"), ("two", "six o'clock", "Peter Johnson")]
    for call, (party, time, name) in zip(two_bookings.calls, details, strict=True):
        dialogue = Dialogue(call, two_bookings.again, "tomorrow")
        agent = [words.format(party=party, time=time, name=name) for words in AGENT]
        if "parking" in call.parts[0].turns[0].say:
            agent.insert(1, "Yes, there is a car park.")
        lines = [dialogue.next_line(words) for words in [*agent, "Until nine.", "Goodbye.", "Goodbye."]]
        assert lines[-1] is None
        assert dialogue.unfinished == []
        asked = agent.index(AGENT[1])
        assert [line.split()[0] for line in lines[asked + 1 : asked + 4]] in (
            ["At", "My", "Yes,"],
            ["At", "The", "Yes"],
        )
        said += [line for line in lines if line]
    assert len(said) >= 10
    pauses = [pause for line in said for _, pause in fragments(line) if pause]
    assert len(pauses) >= 3
    assert all(0.4 <= pause <= 0.8 for pause in pauses)


def test_a_wrong_read_back_is_refused(two_bookings):
    dialogue = Dialogue(two_bookings.calls[0], two_bookings.again, "tomorrow")
    for words in ("Hello.", "Yes, there is."):
        dialogue.next_line(words)
    wrong = "A table for four tomorrow at half past eight, under Emma Baker. Is that right?"
    assert dialogue.next_line(wrong).startswith("No,")


@pytest.mark.parametrize("today", [date(2026, 11, 29) + timedelta(days=n) for n in range(7)])
def test_the_demo_can_run_on_every_day_of_the_week(two_bookings, today):
    for call in two_bookings.calls:
        _, day = call.day_named(today, two_bookings.closed)
        assert day > today


def test_every_utterance_of_the_demo_is_recorded(two_bookings):
    for call in two_bookings.calls:
        for utterance in utterances(call):
            assert len(load_recording(utterance, call.voice, 16000)) > 0.3 * 16000
