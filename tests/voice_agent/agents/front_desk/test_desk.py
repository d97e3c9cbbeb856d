import datetime as dt

import pytest

from voice_agent.agents.front_desk.desk import Desk
from voice_agent.agents.front_desk.store import BookingStore

from .places import FRIDAY, LUNA, MONDAY, NOON, TUESDAY, new_store

SEVEN = 19 * 60


def desk(store: BookingStore | None = None, now: dt.datetime = NOON) -> Desk:
    return Desk(LUNA, store or new_store(), lambda: now)


def test_hours_are_told_for_a_day_a_closed_day_and_the_week():
    assert desk().opening_hours(TUESDAY).say == "We're open tomorrow from five o'clock to ten o'clock."
    assert desk().opening_hours(MONDAY).say == "I'm sorry, we're closed today."
    assert desk().opening_hours().say.startswith("We're open Tuesday to Thursday")


def test_today_is_the_restaurants_today_and_not_the_servers():
    late = dt.datetime(2026, 7, 1, 23, 30, tzinfo=dt.UTC)  # already half past midnight in London
    assert desk(now=late).today == dt.date(2026, 7, 2)


@pytest.mark.parametrize(
    ("date", "minute", "party", "part"),
    [
        (MONDAY + dt.timedelta(days=7), SEVEN, 2, "closed on Monday the seventh of December"),
        (MONDAY - dt.timedelta(days=2), SEVEN, 2, "that day has passed"),
        (MONDAY + dt.timedelta(days=120), SEVEN, 2, "we book up to ninety days ahead"),
        (TUESDAY, 12 * 60, 2, "tomorrow we seat guests from five o'clock to half past eight"),
        (TUESDAY, SEVEN, 0, "at least one person"),
        (TUESDAY, SEVEN, 12, "For more than eight people I need a colleague"),
        (
            TUESDAY,
            SEVEN + 10,
            2,
            "We book every quarter of an hour. Would seven o'clock or quarter past seven suit you?",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(date: dt.date, minute: int, party: int, part: str):
    store = new_store()
    front_desk = desk(store)
    for answer in (
        front_desk.check_availability(date, minute, party),
        front_desk.book_table("smith", date, minute, party),
    ):
        assert answer.status == "refused"
        assert part in answer.say
        assert answer.say.endswith("?")
    assert front_desk.confirm().status == "refused"
    assert store.all() == []


def test_a_time_of_today_that_has_passed_is_refused():
    friday_evening = dt.datetime(2026, 12, 4, 20, 0, tzinfo=LUNA.zone)
    assert "that time has passed" in desk(now=friday_evening).check_availability(FRIDAY, SEVEN, 2).say


def test_a_full_house_offers_the_nearest_times_and_then_another_day():
    store = new_store()
    store.book("large", FRIDAY, SEVEN, 8)
    answer = desk(store).check_availability(FRIDAY, SEVEN, 8)
    assert answer.say == "I'm sorry, seven o'clock is full. Would five o'clock or nine o'clock suit you?"
    assert answer.times == (17 * 60, 21 * 60)
    for minute in range(12 * 60, 23 * 60, 120):
        store.book("large", TUESDAY, minute, 8)
    answer = desk(store).check_availability(TUESDAY, SEVEN, 8)
    assert answer.say == "I'm sorry, we're full tomorrow. Would Wednesday the second of December suit you?"
    assert answer.dates == (TUESDAY + dt.timedelta(days=1),)


def test_a_booking_is_written_only_when_it_is_confirmed():
    store = new_store()
    front_desk = desk(store)
    staged = front_desk.book_table("emma baker", TUESDAY, SEVEN + 30, 4)
    assert staged.say == "A table for four tomorrow at half past seven, under Emma Baker. Is that right?"
    assert store.all() == []
    done = front_desk.confirm()
    (booking,) = store.all()
    assert (booking.name, booking.date, booking.minute, booking.party) == ("emma baker", TUESDAY, SEVEN + 30, 4)
    assert done.number == booking.number
    assert front_desk.confirm().status == "refused"


def test_a_table_that_went_between_the_read_back_and_the_yes_is_not_sold_twice():
    store = new_store()
    front_desk = desk(store)
    front_desk.book_table("late", FRIDAY, SEVEN, 8)
    store.book("quick", FRIDAY, SEVEN, 8)
    assert front_desk.confirm().say == "I'm sorry, that table has just gone. Would another time suit you?"
    assert [b.name for b in store.all()] == ["quick"]


def test_changing_needs_name_and_number_and_reads_the_whole_booking_back():
    store = new_store()
    number = store.book("emma baker", FRIDAY, SEVEN, 4).number
    front_desk = desk(store)
    assert front_desk.change_booking("smith", number, party=6).status == "not_found"
    assert front_desk.change_booking("baker", "1234", party=6).status == "not_found"
    answer = front_desk.change_booking("baker", number, party=6)
    assert answer.say.startswith("So that's now a table for six on Friday the fourth of December at seven o'clock")
    front_desk.confirm()
    found = store.find(number)
    assert found is not None
    assert found.party == 6


def test_cancelling_is_read_back_and_confirmed():
    store = new_store()
    number = store.book("emma baker", FRIDAY, SEVEN, 4).number
    front_desk = desk(store)
    assert front_desk.cancel_booking("emma", number).say.endswith("under Emma Baker. Shall I cancel it?")
    assert store.find(number) is not None
    front_desk.confirm()
    assert store.find(number) is None


def test_the_answer_to_a_wrong_name_and_to_a_wrong_number_is_the_same_kind_and_the_second_offers_a_colleague():
    store = new_store()
    number = store.book("emma baker", FRIDAY, SEVEN, 4).number
    front_desk = desk(store)
    first = front_desk.cancel_booking("smith", number).say
    assert first.endswith("What's the number again?")
    assert front_desk.cancel_booking("smith", "4321").say.endswith("Shall I put you through to a colleague?")


def test_handing_over_is_noted_for_the_staff():
    store = new_store()
    answer = desk(store).hand_over("complaint", '{"name": "smith"}')
    assert answer.say == LUNA.hand_over
    assert store.hand_overs() == [(NOON.isoformat(), "complaint", '{"name": "smith"}')]
