import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_agent.agents.front_desk.store import BookingStore, TableGoneError, same_name

from .places import FRIDAY, LUNA, TUESDAY, new_store

SEVEN = 19 * 60
TABLES = sum(LUNA.bookings.tables.values())


def test_a_booking_is_found_under_its_four_digit_number():
    store = new_store()
    booking = store.book("Emma Baker", FRIDAY, SEVEN, 4)
    assert len(booking.number) == 4
    assert store.find(booking.number) == booking
    assert booking.name == "emma baker"


def test_a_small_party_leaves_the_large_tables_to_large_parties():
    store = new_store()
    for _ in range(LUNA.bookings.tables[2]):
        store.book("couple", FRIDAY, SEVEN, 2)
    assert store.free_table(FRIDAY, SEVEN, 8) is not None
    store.book("large", FRIDAY, SEVEN, 8)
    assert store.free_table(FRIDAY, SEVEN, 8) is None
    assert store.free_table(FRIDAY, SEVEN, 2) is not None


def test_a_table_is_taken_for_the_dining_time_and_free_after_it():
    store = new_store()
    store.book("large", FRIDAY, SEVEN, 8)
    dining = LUNA.bookings.dining_minutes
    assert store.free_table(FRIDAY, SEVEN + dining - 15, 8) is None
    assert store.free_table(FRIDAY, SEVEN - dining + 15, 8) is None
    assert store.free_table(FRIDAY, SEVEN + dining, 8) is not None
    assert store.free_table(TUESDAY, SEVEN, 8) is not None


def test_a_cancelled_booking_frees_its_table_and_stays_on_record():
    store = new_store()
    number = store.book("large", FRIDAY, SEVEN, 8).number
    store.cancel(number)
    assert store.find(number) is None
    assert store.free_table(FRIDAY, SEVEN, 8) is not None
    assert [b.status for b in store.all()] == ["cancelled"]
    with pytest.raises(KeyError):
        store.cancel(number)


def test_a_change_may_keep_its_own_table():
    store = new_store()
    number = store.book("large", FRIDAY, SEVEN, 8).number
    changed = store.change(number, FRIDAY, SEVEN + 30, 8)
    assert (changed.number, changed.minute) == (number, SEVEN + 30)


def test_concurrent_calls_never_take_a_table_twice(tmp_path: Path):
    path = tmp_path / "bookings.sqlite"
    results: list[bool] = []

    def caller(seed: int) -> None:
        store = BookingStore(path, LUNA, random.Random(seed))
        for _ in range(3):
            try:
                store.book(f"caller {seed}", FRIDAY, SEVEN, 1)
                results.append(True)
            except TableGoneError:
                results.append(False)
        store.close()

    BookingStore(path, LUNA).close()
    threads = [threading.Thread(target=caller, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(results) == TABLES
    assert results.count(False) == 24 - TABLES


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(12 * 4, 22 * 4), st.integers(1, 8)), max_size=25))
def test_no_two_bookings_share_a_table_at_one_time(wishes: list[tuple[int, int]]):
    store = new_store()
    for quarter, party in wishes:
        try:
            store.book("guest", FRIDAY, quarter * 15, party)
        except TableGoneError:
            assert store.free_table(FRIDAY, quarter * 15, party) is None
    rows = store._db.execute("SELECT seat, minute FROM bookings").fetchall()
    for i, (seat, minute) in enumerate(rows):
        assert not any(s == seat and abs(m - minute) < LUNA.bookings.dining_minutes for s, m in rows[i + 1 :])


@pytest.mark.parametrize(
    ("booked", "given", "same"),
    [
        ("john smith", "smith", True),
        ("smith", "john smith", True),
        ("smith", "smyth", True),
        ("john smith", "john", True),
        ("smith", "jones", False),
        ("john smith", "john jones", False),
        ("smith", "", False),
    ],
)
def test_names_may_differ_as_recognisers_differ(booked: str, given: str, same: bool):
    assert same_name(booked, given) is same
