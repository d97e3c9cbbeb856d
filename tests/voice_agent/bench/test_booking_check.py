import datetime as dt
import sqlite3

import pytest

from voice_agent.agents.front_desk.facts import load
from voice_agent.agents.front_desk.store import BookingStore
from voice_agent.bench.booking_check import BookedTable, missing_bookings, read_bookings

DAY = dt.date(2026, 12, 2)
EMMA = BookedTable("Emma Baker", DAY, "19:30", 4)


def test_what_the_desk_booked_is_found(tmp_path):
    store = BookingStore(tmp_path / "bookings.db", load())
    store.book("emma baker", DAY, 19 * 60 + 30, 4)
    cancelled = store.book("peter johnson", DAY, 18 * 60, 2)
    store.cancel(cancelled.number)
    found = read_bookings(tmp_path / "bookings.db")
    store.close()
    assert missing_bookings([EMMA], found) == []
    assert len(found) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        BookedTable("emma bakers", DAY, "19:30", 4),
        BookedTable("emma baker", DAY + dt.timedelta(days=1), "19:30", 4),
        BookedTable("emma baker", DAY, "19:15", 4),
        BookedTable("emma baker", DAY, "19:30", 14),
    ],
)
def test_a_booking_with_one_thing_wrong_is_missing(wrong):
    assert missing_bookings([EMMA], [wrong]) == [EMMA]


def test_one_booking_does_not_stand_for_two():
    assert missing_bookings([EMMA, EMMA], [EMMA]) == [EMMA]


def test_a_file_that_is_no_booking_database(tmp_path):
    with pytest.raises(sqlite3.Error):
        read_bookings(tmp_path / "none.db")
