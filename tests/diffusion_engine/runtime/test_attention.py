"""Who sees whom, against a dense reference written out pair by pair; and pages against plain rows."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffusion_engine.decoding import Pass
from diffusion_engine.models.transformer import attend
from diffusion_engine.runtime.attention import KVStorage, PagedAttention, Segment, runs_of, slots_of, visible
from diffusion_engine.runtime.pages import PAGE_TOKENS
from tests.diffusion_engine.conftest import Loaded


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    start, clean, masks = draw(st.integers(0, 50)), draw(st.integers(1, 20)), draw(st.integers(0, 9))
    block_length = draw(st.sampled_from([None, 1, 3, 4, 8, 128]))
    if block_length is not None:
        start, masks = start // block_length * block_length, 0
    branches = draw(st.integers(1, clean)) if masks else 1
    masks *= branches
    return Pass(
        tokens=[0] * (clean + masks),
        start=start,
        clean=clean,
        masks=masks,
        wanted=range(0),
        block_length=block_length,
        branches=branches,
        behind=draw(st.integers(0, 20)) if block_length == 128 else 0,
    )


def may_see(step: Pass, row: int, key: int) -> bool:
    position = step.start + row
    if step.block_length is not None:
        return key // step.block_length <= position // step.block_length
    if row < step.clean:
        return key <= position
    size = step.masks // step.branches
    group, key_row = (row - step.clean) // size, key - step.start
    if key_row >= step.clean:
        return (key_row - step.clean) // size == group
    return key_row < step.clean - (step.branches - 1) + group


@given(passes())
def test_the_mask_equals_the_dense_reference(step: Pass) -> None:
    seen = visible(step)
    rows = len(step.tokens)
    keys = step.start + rows + step.behind
    assert seen.shape == (rows, keys)
    for row in range(rows):
        for key in range(keys):
            assert bool(seen[row, key]) == may_see(step, row, key)


def test_a_block_sees_nothing_to_its_right() -> None:
    step = Pass(tokens=[0] * 12, start=0, clean=12, wanted=range(0), block_length=4)
    seen = visible(step)
    assert not seen[:4, 4:].any()
    assert not seen[4:8, 8:].any()


@given(st.lists(passes(), min_size=1, max_size=3), st.randoms(use_true_random=False), st.booleans())
@settings(deadline=None, max_examples=40)
def test_scattered_and_adjacent_pages_give_what_plain_rows_give(
    causal: Loaded, steps: list[Pass], random: object, scatter: bool
) -> None:
    config = causal.config
    storage = KVStorage(config, 40, torch.float32)
    numbers = list(range(40))
    if scatter:
        random.shuffle(numbers)  # type: ignore[attr-defined]
    segments, past, at = [], [], 0
    for step in steps:
        count = -(-(step.start + len(step.tokens) + step.behind) // PAGE_TOKENS)
        pages, at = numbers[at : at + count], at + count
        segments.append(Segment(step, pages))
        cached = torch.randn(2, step.start + step.behind, config.num_kv_heads, config.head_dim)
        around = [*range(step.start), *range(segments[-1].length, segments[-1].seen)]
        for index, position in enumerate(around):
            slot = pages[position // PAGE_TOKENS] * PAGE_TOKENS + position % PAGE_TOKENS
            storage.keys[1][slot], storage.values[1][slot] = cached[0, index], cached[1, index]
        past.append(cached.split([step.start, step.behind], dim=1))
    rows = sum(len(step.tokens) for step in steps)
    query = torch.randn(rows, config.num_heads, config.head_dim)
    key, value = torch.randn(2, rows, config.num_kv_heads, config.head_dim)
    got = PagedAttention(storage, segments, torch.float32)(1, query, key, value)
    first = 0
    for step, (before, behind) in zip(steps, past, strict=True):
        own = slice(first, first + len(step.tokens))
        first = own.stop
        keys, values = (torch.cat([before[i], new[own], behind[i]]) for i, new in enumerate((key, value)))
        assert torch.allclose(got[own], attend(query[own], keys, values, visible(step)), atol=1e-5)


@given(st.integers(1, 200), st.randoms(use_true_random=False), st.booleans())
def test_pieces_to_copy_cover_every_position_once(tokens: int, random: object, scatter: bool) -> None:
    count = -(-tokens // PAGE_TOKENS)
    pages, target = list(range(20, 20 + count)), list(range(50, 50 + count))
    if scatter:
        random.shuffle(pages)  # type: ignore[attr-defined]
    pairs = []
    for source, to in runs_of(pages, target, tokens):
        pairs += list(zip(range(source.start, source.stop), range(to.start, to.stop), strict=True))
    assert pairs == list(zip(slots_of(pages, 0, tokens).tolist(), slots_of(target, 0, tokens).tolist(), strict=True))
    if not scatter:
        assert len(runs_of(pages, target, tokens)) == 1
