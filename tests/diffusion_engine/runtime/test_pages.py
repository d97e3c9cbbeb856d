"""The page pool never hands a page to two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffusion_engine.runtime.pages import OutOfPagesError, PagePool


@given(st.lists(st.integers(0, 30), max_size=80))
def test_pages_out_and_in(choices: list[int]) -> None:
    pool, held = PagePool(12), []
    for choice in choices:
        if choice % 3 and pool.free:
            page = pool.allocate(held[-1] if held and choice % 2 else None)
            assert page not in held
            held.append(page)
        elif held:
            pool.release(held.pop(choice % len(held)))
        assert pool.free == 12 - len(held)


def test_a_text_grows_side_by_side() -> None:
    pool = PagePool(8)
    first = pool.allocate()
    assert [pool.allocate(first), pool.allocate(first + 1)] == [first + 1, first + 2]


def test_a_new_text_begins_in_the_longest_free_run() -> None:
    pool = PagePool(8)
    pages = [pool.allocate(i - 1 if i else None) for i in range(8)]
    for page in (1, 4, 5, 6):
        pool.release(pages[page])
    assert pool.longest_run() == (4, 3)
    assert pool.allocate() == 4


def test_an_empty_pool_says_so() -> None:
    pool = PagePool(1)
    pool.allocate()
    with pytest.raises(OutOfPagesError):
        pool.allocate()


def test_a_page_given_back_twice_is_an_error() -> None:
    pool = PagePool(2)
    page = pool.allocate()
    pool.release(page)
    with pytest.raises(ValueError, match="free already"):
        pool.release(page)
