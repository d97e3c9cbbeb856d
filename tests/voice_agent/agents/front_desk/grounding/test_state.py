import datetime as dt

import pytest

from voice_agent.agents.front_desk.grounding.state import asked_for, clock, is_denial, minutes

from ..places import new_conversation


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("What name shall I put it under?", "name"),
        ("A table for four tomorrow, under Smith. Is that right?", "yesno"),
        ("Of course. What day would you like?", "date"),
        ("I'm sorry, we're closed. What other day would you like?", "date"),
        ("What time would you like?", "time"),
        ("How many people will there be?", "party"),
        ("What's your booking number?", "number"),
        ("Shall I cancel it?", "yesno"),
        ("You're welcome.", ""),
    ],
)
def test_the_agents_own_words_say_what_it_waits_for(agent: str, expected: str):
    assert asked_for(agent) == expected


@pytest.mark.parametrize(
    ("words", "denied"), [("no that's wrong", True), ("um no", True), ("yes", False), ("nobody", False)]
)
def test_denials(words: str, denied: bool):
    assert is_denial(words) is denied


def test_clock_and_minutes_are_inverse():
    assert all(minutes(clock(m)) == m for m in range(24 * 60))
    with pytest.raises(ValueError, match="not enough values"):
        minutes("noon")


def test_the_note_gathers_what_is_valid_in_a_fixed_order():
    call = new_conversation()
    call.heard("It's Smith, a table for four, please.")
    call.said("What day would you like?")
    call.heard("Tomorrow at half past seven")
    call.said("Yes?")
    assert call.note == "(heard: party 4, date 2026-12-01 tuesday, time 19:30)"
    call.heard("no, for five. my name is Smith")
    assert call.note == "(heard: party 5, date 2026-12-01 tuesday, time 19:30, name smith)"


def test_a_day_that_the_rules_forbid_is_marked_at_once():
    call = new_conversation()
    call.heard("a table next monday")
    assert call.note == "(heard: date 2026-12-07 monday, problem)"


def test_either_of_two_times_may_be_booked():
    call = new_conversation()
    call.heard("at seven or seven thirty")
    assert call.state.allowed("time") == [19 * 60 + 30, 19 * 60]


def test_an_offered_time_can_be_taken_by_its_place_or_with_a_yes():
    for answer, minute in (("the first one", "17:00"), ("the later one please", "21:00"), ("nine is fine", "21:00")):
        call = new_conversation()
        call.desk.store.book("large", dt.date(2026, 12, 4), 19 * 60, 8)
        call.heard("a table for eight on friday at seven")
        result = call.tool_called("check_availability", {"date": "2026-12-04", "time": "19:00", "party_size": 8})
        assert result.say.endswith("Would five o'clock or nine o'clock suit you?")
        assert "not free" in call.note
        call.said(result.say)
        call.heard(answer)
        assert f"time {minute}" in call.note
        assert "not free" not in call.note


def test_a_day_asked_about_is_kept_for_a_booking_but_not_for_a_change():
    for words, kept in (("a table for four please", True), ("i'd like to change my booking", False)):
        call = new_conversation()
        call.heard("are you open on sunday?")
        call.tool_called("opening_hours", {"date": "2026-12-06"})
        call.said("We're open on Sunday.")
        call.heard(words)
        assert ("date" in call.note) is kept
