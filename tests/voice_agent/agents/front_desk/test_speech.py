import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.agents.front_desk import speech

from .places import LUNA, MONDAY


@pytest.mark.parametrize(
    ("minute", "spoken"),
    [
        (19 * 60 + 30, "half past seven"),
        (19 * 60, "seven o'clock"),
        (19 * 60 + 45, "quarter to eight"),
        (12 * 60, "noon"),
        (12 * 60 + 15, "quarter past twelve"),
        (20 * 60 + 10, "ten past eight"),
        (20 * 60 + 7, "seven minutes past eight"),
        (9 * 60, "nine o'clock in the morning"),
        (0, "midnight"),
    ],
)
def test_times_are_said_as_people_say_them(minute: int, spoken: str):
    assert speech.clock(minute) == spoken


@pytest.mark.parametrize(
    ("ahead", "spoken"),
    [
        (0, "today"),
        (1, "tomorrow"),
        (4, "on Friday the fourth of December"),
        (22, "on Tuesday the twenty second of December"),
    ],
)
def test_dates_are_said_as_people_say_them(ahead: int, spoken: str):
    assert speech.day(MONDAY + dt.timedelta(days=ahead), MONDAY) == spoken


def test_a_booking_number_is_said_digit_by_digit():
    assert speech.digits("4071") == "four zero seven one"


@given(st.integers(1, 99))
def test_ordinals_end_like_ordinals(n: int):
    assert speech.ordinal(n).endswith(("first", "second", "third", "th"))


def test_the_week_names_the_closing_day():
    assert speech.week(LUNA).endswith("We're closed on Monday.")


@given(st.integers(0, 24 * 60 - 1), st.dates(dt.date(2025, 1, 1), dt.date(2035, 1, 1)))
def test_nothing_spoken_holds_a_digit_or_a_sign_that_a_synthesizer_misreads(minute: int, date: dt.date):
    spoken = f"{speech.clock(minute)} {speech.day(date, MONDAY)}"
    assert spoken.replace("'", "").replace(" ", "").isalpha()
