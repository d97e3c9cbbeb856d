"""Whether a turn sounds over, from its words and from what was asked."""

from __future__ import annotations

import pytest

from voice_agent.turn_taking.completeness import Asked, Completeness, asked_for, completeness

UNFINISHED, OPEN, NEUTRAL, CLOSED = Completeness


@pytest.mark.parametrize(
    ("agent", "asked"),
    [
        ("Hello, this is Luna. How can I help you?", Asked.WISH),
        ("You're booked. Anything else?", Asked.WISH),
        ("Of course. What day would you like?", Asked.DATE),
        ("What time would you like?", Asked.TIME),
        ("Yes, at half past seven. What name shall I put it under?", Asked.NAME),
        ("How many people will there be?", Asked.NUMBER),
        ("What is your booking number?", Asked.NUMBER),
        ("A table for four, under Emma Baker. Shall I book it?", Asked.YES_OR_NO),
        ("A table for two on Friday. Is that right?", Asked.YES_OR_NO),
        ("There's a car park behind the restaurant.", Asked.NOTHING),
        ("", Asked.NOTHING),
    ],
)
def test_what_the_agent_asked_for(agent: str, asked: Asked) -> None:
    assert asked_for(agent) is asked


@pytest.mark.parametrize(
    ("said", "asked", "sounds"),
    [
        # It breaks off.
        ("The name is...", Asked.NAME, UNFINISHED),
        ("Tomorrow, please...", Asked.DATE, CLOSED),
        ("I'd like a table for", Asked.WISH, UNFINISHED),
        ("On Friday, um", Asked.DATE, UNFINISHED),
        ("five five five oh", Asked.NUMBER, UNFINISHED),
        ("", Asked.NOTHING, UNFINISHED),
        # A wish, and what is known of it.
        ("I would like to book a table.", Asked.WISH, OPEN),
        ("Can I book a table?", Asked.WISH, OPEN),
        ("Hello, I'd like a table for two.", Asked.WISH, OPEN),
        ("I'd like a table for two on Friday.", Asked.WISH, NEUTRAL),
        ("I'd like a table for two on Friday at 7:30.", Asked.WISH, CLOSED),
        ("I would like a table for 4 people tomorrow at 7.30.", Asked.WISH, CLOSED),
        ("I need to cancel.", Asked.WISH, OPEN),
        ("I have a question.", Asked.WISH, OPEN),
        ("Good evening.", Asked.WISH, OPEN),
        # Answers to what was asked.
        ("At 7.30.", Asked.TIME, OPEN),
        ("at 730.", Asked.TIME, OPEN),
        ("Eight.", Asked.TIME, OPEN),
        ("At half past seven.", Asked.NOTHING, OPEN),
        ("At 6 o'clock.", Asked.TIME, CLOSED),
        ("at 730. in the evening.", Asked.TIME, CLOSED),
        ("At 7.30 p.m.", Asked.TIME, CLOSED),
        ("19:30.", Asked.TIME, CLOSED),
        ("On Friday.", Asked.DATE, CLOSED),
        ("Friday.", Asked.DATE, NEUTRAL),
        ("On the fourth of December.", Asked.DATE, CLOSED),
        ("For 4 people.", Asked.NUMBER, CLOSED),
        ("Four.", Asked.NUMBER, NEUTRAL),
        ("Four adults.", Asked.NUMBER, OPEN),
        ("My name is Emma Baker.", Asked.NAME, CLOSED),
        ("Peter.", Asked.NAME, OPEN),
        ("It's Emma.", Asked.NAME, OPEN),
        ("Yes.", Asked.YES_OR_NO, CLOSED),
        ("No.", Asked.YES_OR_NO, OPEN),
        ("Yes.", Asked.WISH, OPEN),
        # Questions and courtesies, whatever was asked.
        ("What time do you close on Sundays?", Asked.DATE, CLOSED),
        ("Hello, do you have any parking?", Asked.WISH, CLOSED),
        ("Could I bring my dog?", Asked.WISH, CLOSED),
        ("Tomorrow, please.", Asked.DATE, CLOSED),
        ("No, thank you.", Asked.WISH, CLOSED),
        ("No, that's everything.", Asked.WISH, CLOSED),
        # Nothing to go by.
        ("We are very hungry.", Asked.NOTHING, NEUTRAL),
        ("what time do you close", Asked.WISH, NEUTRAL),  # the recogniser left the end open
    ],
)
def test_how_a_turn_sounds(said: str, asked: Asked, sounds: Completeness) -> None:
    assert completeness(said, asked) is sounds
