import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_agent.agents.front_desk import persona
from voice_agent.agents.front_desk.agent import Conversation, NotCommittedError

from .places import LUNA, MONDAY, new_conversation, new_store

BOOKING = {"name": "smith", "date": "2026-12-01", "time": "20:00", "party_size": 2}
WORDS = "a table for two tomorrow at eight, my name is smith"


def offered(call: Conversation) -> set[str]:
    return {t["function"]["name"] for t in call.turn().tools}


def read_back(call: Conversation) -> str:
    call.heard(WORDS)
    return call.tool_called("book_table", BOOKING).say


def valid(messages: list[dict]) -> bool:
    """Whether OpenAI would take the history: each call answered at once, and no result without its call."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if open_calls != [message["tool_call_id"]]:
                return False
            open_calls = []
        elif open_calls:
            return False
        open_calls += [c["id"] for c in message.get("tool_calls", [])]
    return not open_calls


def test_a_booking_from_the_first_word_to_the_row_in_the_database():
    store = new_store()
    call = new_conversation(store)
    call.said(read_back(call))
    turn = call.heard("yes please")
    assert turn.messages[-1]["content"] == (
        "yes please\n(heard: party 2, date 2026-12-01 tuesday, time 20:00, name smith, read back)"
    )
    result = call.tool_called("confirm", {})
    (booking,) = store.all()
    assert (booking.name, booking.minute, booking.party) == ("smith", 20 * 60, 2)
    call.said(result.say)
    assert call.note == f"(heard: name smith, number {booking.number})"
    assert valid(call.messages)


def test_confirm_is_offered_only_after_the_read_back_was_heard_and_answered():
    call = new_conversation()
    say = read_back(call)
    assert "confirm" not in offered(call)
    call.said("A table for two tomorrow")  # cut off by the caller
    call.heard("yes")
    assert "confirm" not in offered(call)
    call.tool_called("book_table", BOOKING)
    call.said(say)
    call.heard("yes")
    assert "confirm" in offered(call)


def test_confirm_is_not_offered_after_a_no_or_when_a_detail_has_changed():
    call = new_conversation()
    call.said(read_back(call))
    call.heard("no that's wrong")
    assert "confirm" not in offered(call)
    call.said("What should I change?")
    call.heard("make it three people")
    assert "confirm" not in offered(call)
    assert "read back" not in call.note


def test_a_correction_is_read_back_anew_and_then_confirmed_with_one_yes():
    call = new_conversation()
    call.said(read_back(call))
    call.heard("no, for three people")
    call.said(call.tool_called("book_table", {**BOOKING, "party_size": 3}).say)
    call.heard("yes")
    assert "confirm" in offered(call)


def test_a_yes_to_something_else_does_not_confirm_what_was_said_no_to():
    call = new_conversation()
    call.said(read_back(call))
    call.heard("no")
    call.said("All right, I won't book it. Anything else?")
    call.heard("yes, do you have parking?")
    assert "confirm" not in offered(call)


def test_a_barge_in_before_the_first_word_leaves_no_trace_of_the_reply():
    call = new_conversation()
    call.heard("i'd like to book a table")
    call.said("")
    turn = call.heard("for four tomorrow")
    assert [m["role"] for m in turn.messages] == ["system", "assistant", "user"]
    assert turn.messages[-1]["content"].startswith("i'd like to book a table for four tomorrow\n(heard: party 4")


def test_a_barge_in_keeps_the_words_that_were_heard():
    call = new_conversation()
    call.heard("do you have parking")
    call.tool_called("restaurant_info", {"topic": "parking"})
    call.said("There's a car park")
    assert call.messages[-1] == {"role": "assistant", "content": "There's a car park"}
    call.heard("thanks")
    assert valid(call.messages)


def test_a_preview_changes_nothing():
    call = new_conversation()
    before, note = call.messages, call.note
    turn = call.preview(WORDS)
    assert "(heard: party 2" in turn.messages[-1]["content"]
    assert (call.messages, call.note) == (before, note)
    assert call.heard(WORDS) == turn


def test_a_speculation_can_stage_and_be_adopted_but_not_confirm():
    store = new_store()
    call = new_conversation(store)
    fork = call.fork()
    say = read_back(fork)
    assert call.desk.staged is None
    assert len(call.messages) == 2
    call.adopt(fork)
    call.said(say)
    call.heard("yes")
    with pytest.raises(NotCommittedError):
        call.fork().tool_called("confirm", {})
    assert store.all() == []
    call.tool_called("confirm", {})
    assert len(store.all()) == 1


def test_the_end_of_the_call_is_an_outcome():
    call = new_conversation()
    call.heard("bye")
    assert call.tool_called("end_call", {}).say == LUNA.goodbye
    assert call.outcome == "end"
    other = new_conversation()
    other.heard("i want to talk to a person")
    other.tool_called("hand_over", {"reason": "asked for a person"})
    assert other.outcome == "hand_over"


def test_the_system_prompt_is_short_and_names_the_day():
    prompt = persona.system_prompt(LUNA, MONDAY)
    assert "Luna" in prompt
    assert "monday 2026-11-30" in prompt
    assert len(prompt) < 250
    assert persona.detailed_system_prompt(LUNA, MONDAY).startswith(prompt)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["hear", "say", "cut", "silent", "info", "stage", "confirm", "speculate"]), max_size=14)
)
def test_the_history_is_valid_whatever_is_interrupted_when(steps: list[str]):
    store = new_store()
    call = new_conversation(store)
    for step in steps:
        match step:
            case "hear":
                call.heard(WORDS)
            case "say":
                call.said("What time would you like?")
            case "cut":
                call.said("What time")
            case "silent":
                call.said("")
            case "info":
                call.tool_called("restaurant_info", {"topic": "menu"})
            case "stage" if "book_table" in offered(call):
                call.said(call.tool_called("book_table", BOOKING).say)
            case "confirm" if "confirm" in offered(call):
                call.tool_called("confirm", {})
            case "speculate":
                fork = call.fork()
                fork.heard("something else")
                fork.tool_called("opening_hours", {})
        assert valid(call.messages)
        json.dumps(call.messages)
    assert all(b.name == "smith" for b in store.all())
