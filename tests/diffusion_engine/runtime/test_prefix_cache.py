"""The radix tree of clean pages."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.runtime.pages import PAGE_TOKENS, PagePool
from diffusion_engine.runtime.prefix_cache import Node, PrefixCache

texts = st.lists(st.integers(0, 1), max_size=100)


def store(cache: PrefixCache, pool: PagePool, text: list[int], block_length: int | None = None) -> None:
    """As a request does that ends with this clean text."""
    pages = []
    for _ in range(-(-len(text) // PAGE_TOKENS)):
        while not pool.free:
            assert cache.evict()
        pages.append(pool.allocate())
    held: list[Node] = []
    owned = cache.insert(text, pages, block_length, held, tail=True)
    cache.drop(held)
    for page in pages:
        if page not in owned:
            pool.release(page)


def found(cache: PrefixCache, text: list[int], block_length: int | None = None) -> int:
    match = cache.match(text, len(text), block_length)
    cache.drop(match.nodes + ([match.tail] if match.tail else []))
    return sum(len(node.tokens) for node in match.nodes) + match.tail_tokens


def common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@given(st.lists(texts, min_size=1, max_size=8), texts)
@settings(deadline=None)
def test_the_longest_common_prefix_is_found_token_by_token(stored: list[list[int]], wanted: list[int]) -> None:
    pool = PagePool(64)
    cache = PrefixCache(pool)
    for text in stored:
        store(cache, pool, text)
    assert found(cache, wanted) == max(common(text, wanted) for text in stored)
    assert pool.free + cache.pages == 64


@given(st.lists(texts, min_size=1, max_size=8), texts, st.sampled_from([4, 12, 16, 32]))
@settings(deadline=None)
def test_block_causal_text_matches_in_whole_blocks(stored: list[list[int]], wanted: list[int], length: int) -> None:
    pool = PagePool(128)
    cache = PrefixCache(pool)
    for text in stored:
        store(cache, pool, text[: len(text) // length * length], length)
    hit = found(cache, wanted, length)
    assert hit % length == 0
    assert hit == max(common(text[: len(text) // length * length], wanted) // length * length for text in stored)


def test_the_same_text_under_another_block_length_is_other_text() -> None:
    pool = PagePool(8)
    cache = PrefixCache(pool)
    store(cache, pool, [1] * 32, 4)
    assert found(cache, [1] * 32, 4) == 32
    assert found(cache, [1] * 32, 8) == found(cache, [1] * 32) == 0


@given(st.lists(texts, min_size=1, max_size=30))
@settings(deadline=None)
def test_a_small_pool_evicts_and_loses_no_page(stored: list[list[int]]) -> None:
    pool = PagePool(8)
    cache = PrefixCache(pool)
    for text in stored:
        store(cache, pool, text)
        assert pool.free + cache.pages == 8
        assert found(cache, text) == len(text)
    cache.clear()
    assert pool.free == 8


def test_the_least_recently_used_goes_first_and_what_is_held_stays() -> None:
    pool = PagePool(4)
    cache = PrefixCache(pool)
    for token in (1, 2, 3):
        store(cache, pool, [token] * PAGE_TOKENS)
    found(cache, [1] * PAGE_TOKENS)
    held = cache.match([2] * PAGE_TOKENS, PAGE_TOKENS, None)
    assert cache.evict()
    assert found(cache, [3] * PAGE_TOKENS) == 0
    assert cache.evict()
    assert found(cache, [1] * PAGE_TOKENS) == 0
    assert not cache.evict()
    cache.drop(held.nodes)
    assert cache.evict()
